"""The ports whose answers are stored: what an engine has answered once is never asked again.

Scores are stored as float64, vectors as lists of float32 of one size, and questions and names as
lists of strings. A null answer is not stored, so it is asked again.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resources.store.stored_engine import Answers, EmbeddingsStopped, Item, Pair, StoredEngine


class _StoredPort(StoredEngine[Item]):
    """An engine with one ``_method``: items in, one answer per item out."""

    _method: str

    def _stored(self, items: Sequence[Item]) -> Any:  # noqa: ANN401 - what the method returns
        """As the engine's answers; distinct ones are in memory once.

        Raises:
            Exception: the engine's; what it answered before is stored.
        """
        if not items:
            return getattr(self._inner, self._method)(items)
        out: Any = [None] * len(items)

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            nonlocal out
            read: Any = _from_arrow(values)
            if isinstance(read, list):
                for row, answer in zip(rows, read, strict=True):
                    out[row] = answer
                return
            if isinstance(out, list):
                out = np.full((len(items), *read.shape[1:]), np.nan, read.dtype)
            out[rows] = read

        positions = self._pass(items, fill, partial(_answered, self._method))
        if isinstance(out, list):
            return [None if out[row] is None else list(out[row]) for row in positions]
        repeated = len(items) > int(positions.max()) + 1
        return out[positions] if repeated else out  # none repeated: already in order


class StoredEntities(_StoredPort[str]):
    """An ``EntityRecogniser`` whose surface forms are stored."""

    _port, _method = "entities", "entities"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """As the engine's."""
        forms: list[list[str]] = self._stored(texts)
        return forms


class StoredVerifier(_StoredPort[Pair]):
    """A ``Verifier`` whose probabilities are stored."""

    _port, _method = "verifier", "support_probability"

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """As the engine's, shape (n,), range 0..1."""
        return np.asarray(self._stored(pairs), np.float64)


class StoredEmbedder(_StoredPort[str]):
    """An ``Embedder`` whose vectors are stored."""

    _port, _method = "embedder", "embed"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the engine's, shape (n, d).

        Raises:
            EmbeddingsStopped: a request failed; the vectors received are stored by then.
        """
        return np.asarray(self._stored(texts), np.float32)


class StoredDecomposer(_StoredPort[Pair]):
    """A ``Decomposer`` whose questions are stored."""

    _port, _method = "decomposer", "decompose"

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """As the engine's."""
        questions: list[list[str] | None] = self._stored(pairs)
        return questions


def _answered(method: str, engine: Any, batch: list[Any]) -> Answers:  # noqa: ANN401 - any port's
    """What an engine answers to a batch, or until it stopped."""
    stopped: EmbeddingsStopped | None = None
    try:
        rows, values = np.arange(len(batch), dtype=np.int64), getattr(engine, method)(batch)
    except EmbeddingsStopped as error:
        if not len(error.rows):
            raise
        stopped, rows, values = error, error.rows, error.vectors
    if isinstance(values, list):
        rows = rows[[value is not None for value in values]]
    return Answers(rows, _to_arrow(values), stopped)


def _to_arrow(values: Any) -> Any:  # noqa: ANN401 - an Arrow array
    import pyarrow as pa

    if isinstance(values, list):
        return pa.array([list(one) for one in values if one is not None], pa.list_(pa.string()))
    if values.ndim == 1:
        return pa.array(np.asarray(values, np.float64))
    raw = np.ascontiguousarray(values, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(raw.ravel()), raw.shape[1])


def _from_arrow(values: Any) -> Any:  # noqa: ANN401 - an Arrow array
    import pyarrow as pa

    if pa.types.is_fixed_size_list(values.type):
        return values.flatten().to_numpy().reshape(len(values), values.type.list_size)
    if pa.types.is_floating(values.type):
        return values.to_numpy(zero_copy_only=False)
    return values.to_pylist()
