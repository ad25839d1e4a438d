"""An entity recogniser that remembers the texts it has read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import EntityRecogniser
from resources.store.result_store import ResultStores
from resources.store.stored_engine import StoredEngine, every_row, list_filler, string_lists


class StoredEntities(StoredEngine[str]):
    """An ``EntityRecogniser`` whose surface forms are stored (lists of strings)."""

    _port = "entities"

    def __init__(
        self, engine: EntityRecogniser, stores: ResultStores, batch_size: int = 1024
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size)

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """As the engine's."""
        out: list[list[str]] = [[] for _ in texts]

        def ask(batch: list[str]) -> tuple[NDArray[np.int64], Any]:
            return every_row(len(batch)), string_lists(self._inner.entities(batch))

        positions = self._pass(texts, lambda text: (text,), list_filler(out), ask)
        return [list(out[position]) for position in positions]
