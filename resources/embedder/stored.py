"""An embedder that remembers the texts it has embedded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Embedder
from resources.embedder.hosted import EmbeddingsStopped
from resources.store.result_store import ResultStores
from resources.store.stored_engine import StoredEngine, every_row


class StoredEmbedder(StoredEngine[str]):
    """An ``Embedder`` whose vectors are stored (fixed-size lists of float32)."""

    _port = "embedder"

    def __init__(self, engine: Embedder, stores: ResultStores, batch_size: int = 512) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the engine's, shape (n, d); needs one array of the distinct texts in memory.

        Raises:
            EmbeddingsStopped: a request failed; the vectors received are stored by then.
        """
        import pyarrow as pa

        if not texts:
            return np.asarray(self._inner.embed(texts), dtype=np.float32)
        out: list[NDArray[np.float32]] = []
        stopped: list[EmbeddingsStopped] = []

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            width = values.type.list_size
            if not out:
                out.append(np.full((len(texts), width), np.nan, dtype=np.float32))
            out[0][rows] = values.flatten().to_numpy().reshape(len(values), width)

        def ask(batch: list[str]) -> tuple[NDArray[np.int64], Any]:
            if stopped:
                raise stopped[0]
            try:
                rows, raw = every_row(len(batch)), self._inner.embed(batch)
            except EmbeddingsStopped as error:
                if not len(error.rows):
                    raise
                stopped.append(error)
                rows, raw = error.rows, error.vectors
            raw = np.ascontiguousarray(raw, dtype=np.float32)
            flat = pa.array(raw.ravel(), pa.float32())
            return rows, pa.FixedSizeListArray.from_arrays(flat, raw.shape[1])

        positions = self._pass(texts, lambda text: (text,), fill, ask)
        if stopped:
            raise stopped[0]
        if len(texts) == int(positions.max()) + 1:
            return out[0]  # no text twice: already in order
        return out[0][positions]
