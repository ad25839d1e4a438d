"""A decomposer that remembers the pairs it has decomposed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Decomposer
from resources.store.result_store import ResultStores
from resources.store.stored_engine import Pair, StoredEngine, list_filler, string_lists


class StoredDecomposer(StoredEngine[Pair]):
    """A ``Decomposer`` whose questions are stored; a null answer is not, and is asked again."""

    _port = "decomposer"

    def __init__(self, engine: Decomposer, stores: ResultStores, batch_size: int = 256) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size)

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """As the engine's."""
        out: list[list[str] | None] = [None] * len(pairs)

        def ask(batch: list[Pair]) -> tuple[NDArray[np.int64], Any]:
            answers = self._inner.decompose(batch)
            answered = [row for row, answer in enumerate(answers) if answer is not None]
            values = string_lists([answers[row] for row in answered])
            return np.array(answered, dtype=np.int64), values

        positions = self._pass(pairs, tuple, list_filler(out), ask)
        found = [out[position] for position in positions]
        return [None if answer is None else list(answer) for answer in found]
