"""The entity recogniser as a Dagster resource: rules, or trained spaCy models.

Opening imports no spaCy: an engine loads its model with its first item.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from decomposerl.ports import EntityRecogniser, Mapper
from resources.entities.rule_engine import RuleEntities
from resources.entities.spacy_engine import SpacyEntities
from resources.store.resource import MappedResource
from resources.store.result_store import ResultStores
from resources.store.stored_engine import (
    Answers,
    StoredEngine,
    every_row,
    list_filler,
    string_lists,
)


class StoredEntities(StoredEngine[str]):
    """An ``EntityRecogniser`` whose surface forms are stored (lists of strings)."""

    _port = "entities"

    def __init__(
        self,
        engine: EntityRecogniser,
        stores: ResultStores,
        batch_size: int = 1024,
        mapper: Mapper | None = None,
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size, mapper)

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """As the engine's."""
        out: list[list[str]] = [[] for _ in texts]
        positions = self._pass(texts, lambda text: (text,), list_filler(out), _answer)
        return [list(out[position]) for position in positions]


def _answer(engine: EntityRecogniser, batch: list[str]) -> Answers:
    return Answers(every_row(len(batch)), string_lists(engine.entities(batch)))


_TEXTS_A_PROCESS = 8_192  # starting a spaCy process takes seconds, and each loads its models


class EntitiesResource(MappedResource):
    """The entity recogniser."""

    batch_size: int = Field(
        default=1024,
        ge=1,
        description="texts asked and stored at a time; more than one process takes at least 8,192 "
        "a process, because processes are started anew each time",
    )
    engine: Literal["embedded", "spacy"] = Field(
        default="embedded", description="spaCy blank pipeline with rules, or trained models"
    )
    models: list[str] = Field(default=[], description="spacy: package names or folders")
    processes: int = Field(default=1, ge=1, description="spacy: side by side, on the CPU")
    gpu: bool = Field(default=False, description="spacy: models on the GPU (needs cupy)")

    def open(self) -> StoredEntities:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            return StoredEntities(
                RuleEntities(), self.stores(), self.batch_size, self.open_mapper()
            )
        models = SpacyEntities(tuple(self.models), processes=self.processes, gpu=self.gpu)
        return StoredEntities(models, self.stores(), self.texts_at_a_time(), self.open_mapper())

    def texts_at_a_time(self) -> int:
        """Number of texts asked and stored at a time."""
        if self.engine == "embedded" or self.processes == 1:
            return self.batch_size
        return max(self.batch_size, self.processes * _TEXTS_A_PROCESS)
