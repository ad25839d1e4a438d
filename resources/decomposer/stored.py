"""A decomposer that remembers the pairs it has decomposed."""

from collections.abc import Sequence

import numpy as np

from decomposerl.ports import Decomposer, Mapper
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
