"""Engines with a memory: what was answered once is never asked again.

Takes an engine of ``decomposerl.ports`` and a ``ResultStore``; gives an engine of the same
port that asks only for what the store lacks, each distinct input once a pass, in batches
that are stored as soon as they are answered. A second run over the same inputs calls
nothing, and a killed run asks only for the rest.

Left out deliberately: the files (``resources.shards``) and expiry; an engine whose answers
change must change its ``engine`` name, which keeps its results apart.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Decomposer, Embedder, EntityRecogniser, Verifier
from resources.hosted_embeddings import EmbeddingsStopped
from resources.shards import Shelf, key_of, slug

Item = TypeVar("Item")
Pair = tuple[str, str]
Details = Callable[[], Mapping[str, int | float | str]]


class ResultStore:
    """All stored results below ``root``: ``<root>/<port>/<engine slug>/<shard>.parquet``."""

    def __init__(self, root: Path) -> None:
        """``root`` is made when the first result is written."""
        self._root = root

    def shelf(self, port: str, engine: str) -> Shelf:
        """The results of one engine behind one port."""
        return Shelf(self._root / port / slug(engine), engine)


class Stored(Generic[Item]):
    """What the four wrappers share: counting, one pass, the progress bar."""

    _port: str

    def __init__(
        self,
        engine: Any,  # noqa: ANN401 - each subclass names its port
        store: ResultStore,
        batch_size: int = 256,
        details: Details = dict,
    ) -> None:
        """``batch_size`` items are asked, and then stored, at a time."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        self._inner, self._store, self._batch_size = engine, store, batch_size
        self._shelf: Shelf | None = None
        self.details = details
        """What else the engine counted (HTTP calls, money, failures by reason), by name."""
        self.calls = 0
        """Items sent to the engine since this object was made."""
        self.hits = 0
        """Items answered without the engine: stored earlier, or repeated in one pass."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port."""
        return str(self._inner.engine)

    def _pass(
        self,
        items: Sequence[Item],
        parts: Callable[[Item], tuple[str, ...]],
        fill: Callable[[NDArray[np.int64], Any], None],
        ask: Callable[[list[Item]], tuple[NDArray[np.int64], Any]],
    ) -> NDArray[np.int64]:
        """Answer every distinct item into the caller's memory.

        ``fill`` takes positions among the distinct items and their stored values; ``ask``
        sends items to the engine and gives which of them (indices) have a storable answer,
        and those answers as an Arrow array. Returns each item's position, shape (n,).
        """
        from tqdm import tqdm

        distinct: dict[str, int] = {}
        kept: list[Item] = []
        positions = np.empty(len(items), dtype=np.int64)
        for row, item in enumerate(items):
            key = key_of(*parts(item))
            if key not in distinct:
                distinct[key] = len(kept)
                kept.append(item)
            positions[row] = distinct[key]
        shelf = self._shelf = self._shelf or self._store.shelf(self._port, self.engine)
        todo = _recall(shelf, distinct, fill)
        self.hits += len(items) - len(todo)
        keys = list(distinct)
        with tqdm(total=len(todo), desc=self._port, unit="item", disable=None) as bar:
            for start in range(0, len(todo), self._batch_size):
                batch = todo[start : start + self._batch_size]
                answered, values = ask([kept[i] for i in batch])
                self.calls += len(batch)
                rows = batch[answered]
                shelf.write([keys[i] for i in rows], values)
                fill(rows, values)
                bar.update(len(batch))
        shelf.compact()
        return positions


def _recall(
    shelf: Shelf, distinct: dict[str, int], fill: Callable[[NDArray[np.int64], Any], None]
) -> NDArray[np.int64]:
    """Fill in what the shelf holds; the positions it does not hold, in order."""
    missing = np.ones(len(distinct), dtype=np.bool_)
    for positions, values in shelf.read(distinct):
        fill(positions, values)
        missing[positions] = False
    return np.flatnonzero(missing)


def _all(count: int) -> NDArray[np.int64]:
    return np.arange(count, dtype=np.int64)


class StoredVerifier(Stored[Pair]):
    """A ``Verifier`` whose probabilities are stored (float64)."""

    _port = "verifier"

    def __init__(
        self,
        engine: Verifier,
        store: ResultStore,
        batch_size: int = 256,
        details: Details = dict,
    ) -> None:
        """Wrap ``engine``; ``details`` tells what else it counted."""
        super().__init__(engine, store, batch_size, details)

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """As the engine's, shape (n,), range 0..1."""
        import pyarrow as pa

        out = np.full(len(pairs), np.nan)

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            out[rows] = values.to_numpy(zero_copy_only=False)

        def ask(batch: list[Pair]) -> tuple[NDArray[np.int64], Any]:
            scores = np.asarray(self._inner.support_probability(batch), dtype=np.float64)
            return _all(len(batch)), pa.array(scores, pa.float64())

        return out[self._pass(pairs, tuple, fill, ask)]


class StoredEmbedder(Stored[str]):
    """An ``Embedder`` whose vectors are stored (fixed-size lists of float32)."""

    _port = "embedder"

    def __init__(self, engine: Embedder, store: ResultStore, batch_size: int = 512) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, store, batch_size)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the engine's, shape (n, d); holds one array of the distinct texts in memory.

        Raises:
            EmbeddingsStopped: a request failed; the vectors that came are stored by then.
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
                rows, raw = _all(len(batch)), self._inner.embed(batch)
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
            return out[0]  # no text twice: already in the order asked
        return out[0][positions]


class StoredEntities(Stored[str]):
    """An ``EntityRecogniser`` whose surface forms are stored (lists of strings)."""

    _port = "entities"

    def __init__(
        self, engine: EntityRecogniser, store: ResultStore, batch_size: int = 1024
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, store, batch_size)

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """As the engine's."""
        out: list[list[str]] = [[] for _ in texts]

        def ask(batch: list[str]) -> tuple[NDArray[np.int64], Any]:
            return _all(len(batch)), _strings(self._inner.entities(batch))

        positions = self._pass(texts, lambda text: (text,), _filler(out), ask)
        return [list(out[position]) for position in positions]


class StoredDecomposer(Stored[Pair]):
    """A ``Decomposer`` whose questions are stored; a null answer is not, and is asked again."""

    _port = "decomposer"

    def __init__(
        self,
        engine: Decomposer,
        store: ResultStore,
        batch_size: int = 256,
        details: Details = dict,
    ) -> None:
        """Wrap ``engine``; ``details`` tells what else it counted."""
        super().__init__(engine, store, batch_size, details)

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """As the engine's."""
        out: list[list[str] | None] = [None] * len(pairs)

        def ask(batch: list[Pair]) -> tuple[NDArray[np.int64], Any]:
            answers = self._inner.decompose(batch)
            answered = [row for row, answer in enumerate(answers) if answer is not None]
            values = _strings([answers[row] for row in answered])
            return np.array(answered, dtype=np.int64), values

        positions = self._pass(pairs, tuple, _filler(out), ask)
        found = [out[position] for position in positions]
        return [None if answer is None else list(answer) for answer in found]


def _filler(out: list[Any]) -> Callable[[NDArray[np.int64], Any], None]:
    def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
        for row, answer in zip(rows, values.to_pylist(), strict=True):
            out[row] = answer

    return fill


def _strings(answers: Sequence[Sequence[str]]) -> Any:  # noqa: ANN401 - an Arrow array
    import pyarrow as pa

    return pa.array([list(answer) for answer in answers], pa.list_(pa.string()))
