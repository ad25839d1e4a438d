"""Engines that remember: each distinct input is asked once, ever.

``StoredEngine`` wraps an engine of ``decomposerl.ports`` and asks it only for what the store
lacks, in batches that are stored as soon as they are answered. A second run over the same
inputs makes no calls, and a killed run asks only for the rest. Engines over a chat model need
no wrapper: the chat client stores every reply.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.progress import bar
from resources.store.result_store import ResultStore, ResultStores, key_of

Item = TypeVar("Item")
Pair = tuple[str, str]
Details = Mapping[str, int | float | str]


class StoredEngine(Generic[Item]):
    """What the wrapper of each port shares: counting, one pass, the progress bar."""

    _port: str

    def __init__(
        self,
        engine: Any,  # noqa: ANN401 - each subclass names its port
        stores: ResultStores,
        batch_size: int = 256,
    ) -> None:
        """``batch_size`` items are asked, and then stored, at a time."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        self._inner, self._stores, self._batch_size = engine, stores, batch_size
        self._store: ResultStore | None = None
        self.calls = 0
        """Items sent to the engine since this object was made."""
        self.hits = 0
        """Items answered without the engine: stored earlier, or repeated in one pass."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port."""
        return str(self._inner.engine)

    def details(self) -> Details:
        """What else the engine counted, by name: nothing here."""
        return {}

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
        distinct: dict[str, int] = {}
        kept: list[Item] = []
        positions = np.empty(len(items), dtype=np.int64)
        for row, item in enumerate(items):
            key = key_of(*parts(item))
            if key not in distinct:
                distinct[key] = len(kept)
                kept.append(item)
            positions[row] = distinct[key]
        store = self._store = self._store or self._stores.of(self._port, self.engine)
        todo = _recall(store, distinct, fill)
        self.hits += len(items) - len(todo)
        keys = list(distinct)
        with bar(self._port, len(todo)) as progress:
            for start in range(0, len(todo), self._batch_size):
                batch = todo[start : start + self._batch_size]
                answered, values = ask([kept[i] for i in batch])
                self.calls += len(batch)
                rows = batch[answered]
                store.write([keys[i] for i in rows], values)
                fill(rows, values)
                progress.advance(len(batch))
        store.compact()
        return positions


def _recall(
    store: ResultStore, distinct: dict[str, int], fill: Callable[[NDArray[np.int64], Any], None]
) -> NDArray[np.int64]:
    """Fill in what is stored; the positions that are not, in order."""
    missing = np.ones(len(distinct), dtype=np.bool_)
    for positions, values in store.read(distinct):
        fill(positions, values)
        missing[positions] = False
    return np.flatnonzero(missing)


def every_row(count: int) -> NDArray[np.int64]:
    """Indices 0 to ``count - 1``: all items of a batch were answered."""
    return np.arange(count, dtype=np.int64)


def list_filler(out: list[Any]) -> Callable[[NDArray[np.int64], Any], None]:
    """A ``fill`` that writes stored values into a list."""

    def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
        for row, answer in zip(rows, values.to_pylist(), strict=True):
            out[row] = answer

    return fill


def string_lists(answers: Sequence[Sequence[str]]) -> Any:  # noqa: ANN401 - an Arrow array
    """Lists of strings as an Arrow array."""
    import pyarrow as pa

    return pa.array([list(answer) for answer in answers], pa.list_(pa.string()))
