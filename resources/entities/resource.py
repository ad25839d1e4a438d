"""The entity recogniser as a Dagster resource: rules, or trained spaCy models.

Opening imports no spaCy: an engine loads its model with its first item.
"""

from typing import Literal

from pydantic import Field

from resources.entities.rule_engine import RuleEntities
from resources.entities.spacy_engine import SpacyEntities
from resources.store.resource import MappedResource
from resources.store.stored_ports import StoredEntities

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
