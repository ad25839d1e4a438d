"""An embedder that remembers the texts it has embedded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Embedder, Mapper
from resources.embedder.hosted import EmbeddingsStopped, HostedEmbedder
from resources.store.result_store import ResultStores
from resources.store.stored_engine import Answers, StoredEngine, every_row


class StoredEmbedder(StoredEngine[str]):
    """An ``Embedder`` whose vectors are stored (fixed-size lists of float32)."""

    _port = "embedder"

    def __init__(
        self,
        engine: Embedder,
        stores: ResultStores,
        batch_size: int = 512,
        mapper: Mapper | None = None,
    ) -> None:
        """Wrap ``engine``; the vectors of an endpoint count as paid."""
        paid = isinstance(engine, HostedEmbedder)
        super().__init__(engine, stores, batch_size, mapper, paid=paid)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the engine's, shape (n, d); needs one array of the distinct texts in memory.

        Raises:
            EmbeddingsStopped: a request failed; the vectors received are stored by then.
        """
        if not texts:
            return np.asarray(self._inner.embed(texts), dtype=np.float32)
        out: list[NDArray[np.float32]] = []

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            width = values.type.list_size
            if not out:
                out.append(np.full((len(texts), width), np.nan, dtype=np.float32))
            out[0][rows] = values.flatten().to_numpy().reshape(len(values), width)

        positions = self._pass(texts, lambda text: (text,), fill, _answer)
        if len(texts) == int(positions.max()) + 1:
            return out[0]  # no text twice: already in order
        return out[0][positions]


def _answer(engine: Embedder, batch: list[str]) -> Answers:
    stopped: EmbeddingsStopped | None = None
    try:
        rows, raw = every_row(len(batch)), engine.embed(batch)
    except EmbeddingsStopped as error:
        if not len(error.rows):
            raise
        stopped, rows, raw = error, error.rows, error.vectors
    return Answers(rows, _vectors(raw), stopped)


def _vectors(raw: NDArray[np.float32]) -> Any:  # noqa: ANN401 - an Arrow array
    import pyarrow as pa

    raw = np.ascontiguousarray(raw, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(raw.ravel(), pa.float32()), raw.shape[1])
