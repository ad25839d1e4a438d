"""The writer of silver questions as a Dagster resource: rules, or a chat model."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from decomposerl.ports import Decomposer, Mapper
from resources.chat.endpoint import PromptedResource
from resources.decomposer.chat_engine import ChatDecomposer
from resources.decomposer.rule_engine import RuleDecomposer
from resources.store.prompts import AGAIN, load_prompt
from resources.store.resource import MappedResource
from resources.store.result_store import ResultStores
from resources.store.stored_engine import (
    Answers,
    Pair,
    StoredEngine,
    list_filler,
    string_lists,
)


class StoredDecomposer(StoredEngine[Pair]):
    """A ``Decomposer`` whose questions are stored; a null answer is not, and is asked again."""

    _port = "decomposer"

    def __init__(
        self,
        engine: Decomposer,
        stores: ResultStores,
        batch_size: int = 256,
        mapper: Mapper | None = None,
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size, mapper)

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """As the engine's."""
        out: list[list[str] | None] = [None] * len(pairs)
        positions = self._pass(pairs, tuple, list_filler(out), _answer)
        found = [out[position] for position in positions]
        return [None if answer is None else list(answer) for answer in found]


def _answer(engine: Decomposer, batch: list[Pair]) -> Answers:
    given = engine.decompose(batch)
    answered = [(row, questions) for row, questions in enumerate(given) if questions is not None]
    rows = np.array([row for row, _ in answered], dtype=np.int64)
    return Answers(rows, string_lists([questions for _, questions in answered]))


class DecomposerResource(PromptedResource, MappedResource):
    """The writer of silver sub-questions."""

    batch_size: int = Field(default=1024, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded", "chat"] = Field(
        default="embedded", description="rules on the claim's wording, or a chat model"
    )
    most_unanswered: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share of claims without a reply above which the stage fails",
    )

    def open(self) -> StoredDecomposer | ChatDecomposer:
        """A fresh port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            return StoredDecomposer(
                RuleDecomposer(), self.stores(), self.batch_size, self.open_mapper()
            )
        return ChatDecomposer(
            self.chat(),
            load_prompt("silver", self.prompts_dir),
            self.sampling(),
            structured=self.endpoint.enforces_schemas,
            thinking=self.endpoint.thinks,
            most_unanswered=self.most_unanswered,
            again=load_prompt(AGAIN, self.prompts_dir),
            sends_temperature=self.endpoint.sends_temperature,
            batch_size=self.batch_size,
        )
