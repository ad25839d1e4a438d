"""Engines that remember: each distinct input is asked once, ever.

``StoredEngine`` wraps an engine of ``decomposerl.ports`` and asks it only for what the store
lacks, in batches that are stored as soon as they are answered, wherever the mapper runs them. A
second run over the same inputs makes no calls, and a killed run asks only for the rest. Engines
over a chat model need no wrapper: the chat client stores every reply.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.ports import Mapper
from decomposerl.progress import bar
from resources.mapper.pools import InProcessMapper
from resources.store.result_store import ResultStore, ResultStores, key_of

Pair = tuple[str, str]
Item = TypeVar("Item", str, Pair)
Details = Mapping[str, int | float | str]


class EmbeddingsStopped(EngineError):  # noqa: N818 - the name is what happened
    """A request for vectors failed; ``vectors`` (m, d) of the texts at ``rows`` (m,) came."""

    def __init__(self, message: str, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """``rows`` are indices of the requested texts, ascending."""
        super().__init__(message)
        self.rows, self.vectors = rows, vectors

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with all three, so that it can come from another process."""
        return type(self), (str(self), self.rows, self.vectors)


@dataclass(slots=True)
class Answers:
    """What an engine answered: indices of a batch's items, and their values as an Arrow array.

    ``failure`` ended the batch; what had been answered until then is to be stored.
    """

    rows: NDArray[np.int64]
    values: Any
    failure: Exception | None = None


@dataclass(frozen=True)
class AskEngine(Generic[Item]):
    """What workers do with a batch: the key of its first item, for messages, and its items.

    ``answer`` is a function of a module.
    """

    port: str
    engine: Any
    answer: Callable[[Any, list[Item]], Answers]

    def __call__(self, batch: tuple[str, list[Item]]) -> Answers:
        """The answers of a batch."""
        key, items = batch
        try:
            return self.answer(self.engine, items)
        except Exception as error:
            error.add_note(f"{self.port}: {len(items):,} items from key {key}")
            raise


class StoredEngine(Generic[Item]):
    """What the wrapper of each port shares: counting, one pass, the progress bar."""

    _port: str

    def __init__(
        self,
        engine: Any,  # noqa: ANN401 - each subclass names its port
        stores: ResultStores,
        batch_size: int = 256,
        mapper: Mapper | None = None,
    ) -> None:
        """``batch_size`` items are asked, and then stored, at a time.

        ``mapper`` runs the batches (None: in this process).
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        self._inner, self._stores, self._batch_size = engine, stores, batch_size
        self._mapper = mapper or InProcessMapper()
        self._store: ResultStore | None = None
        self._asked: AskEngine[Item] | None = None
        self.calls = 0
        """Items sent to the engine since this object was made, by all workers."""
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
        fill: Callable[[NDArray[np.int64], Any], None],
        answer: Callable[[Any, list[Item]], Answers],
    ) -> NDArray[np.int64]:
        """Answer every distinct item into the caller's memory.

        ``fill`` takes positions among the distinct items and their stored values; ``answer``, a
        function of a module, asks the engine. Returns each item's position, shape (n,).

        Raises:
            Exception: the engine's; what was answered before it is stored.
        """
        distinct: dict[str, int] = {}
        kept: list[Item] = []
        positions = np.empty(len(items), dtype=np.int64)
        for row, item in enumerate(items):
            key = key_of(*((item,) if isinstance(item, str) else item))
            if key not in distinct:
                distinct[key] = len(kept)
                kept.append(item)
            positions[row] = distinct[key]
        store = self._store = self._store or self._stores.of(self._port, self.engine)
        todo = _recall(store, distinct, fill)
        self.hits += len(items) - len(todo)
        keys = list(distinct)
        with bar(self._port, len(todo)) as progress:
            for batch, answers in self._answered(todo, keys, kept, answer):
                self.calls += len(batch)
                rows = batch[answers.rows]
                store.write([keys[row] for row in rows], answers.values)
                fill(rows, answers.values)
                if answers.failure is not None:
                    raise answers.failure
                progress.advance(len(batch))
        store.compact()
        return positions

    def _answered(
        self,
        todo: NDArray[np.int64],
        keys: Sequence[str],
        items: Sequence[Item],
        answer: Callable[[Any, list[Item]], Answers],
    ) -> Iterator[tuple[NDArray[np.int64], Answers]]:
        """The positions and answers of each batch of what is to do, in order."""
        if self._asked is None:  # made once, so that workers stay for the next pass
            self._asked = AskEngine(self._port, self._inner, answer)
        starts = range(0, len(todo), self._batch_size)
        batches = [todo[start : start + self._batch_size] for start in starts]
        sent = ((keys[batch[0]], [items[row] for row in batch]) for batch in batches)
        yield from zip(batches, self._mapper.map(self._asked, sent), strict=True)


def _recall(
    store: ResultStore, distinct: dict[str, int], fill: Callable[[NDArray[np.int64], Any], None]
) -> NDArray[np.int64]:
    """Fill in what is stored; the positions that are not, in order."""
    missing = np.ones(len(distinct), dtype=np.bool_)
    for positions, values in store.read(distinct):
        fill(positions, values)
        missing[positions] = False
    return np.flatnonzero(missing)
