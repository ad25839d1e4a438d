"""Workers that stay for the next map of the same function, with what they have loaded.

A stage that streams its rows maps the same engine many times. A process keeps one idle pool at
most: another engine's workers start where the last one's were, so that two models never wait for
each other's memory or GPU. A pool whose map ended early, by an error or because nobody reads on,
is closed at once, and what its workers were doing is given up.
"""

import atexit
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

from decomposerl.ports import Batch, Result

AHEAD = 2
"""Batches a worker that are taken from the source before their results are read."""


class Pool(Protocol):
    """Workers of one function."""

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order."""
        ...

    @property
    def usable(self) -> bool:
        """Whether its workers can take another map."""
        ...

    def close(self) -> None:
        """End the workers; idempotent."""
        ...


class PoolMapper:
    """What the mappers with workers share; a subclass starts a pool."""

    @property
    def engine(self) -> str:
        """Where batches run."""
        raise NotImplementedError

    @property
    def workers(self) -> int:
        """How many a map has, once all are started."""
        raise NotImplementedError

    def map(
        self, function: Callable[[Batch], Result], batches: Iterable[Batch]
    ) -> Iterator[Result]:
        """As the port's. No worker is started for no batch.

        Raises:
            TypeError, pickle.PicklingError, AttributeError: the function cannot be pickled.
        """
        rest = iter(batches)
        first = [*islice(rest, 1)]
        if first:
            yield from self._run(picklable(function), chain(first, rest))

    def _run(self, pickled: bytes, batches: Iterable[Batch]) -> Iterator[Any]:
        pool = _IDLE.take(self, pickled) or self._start(pickled)
        finished = False
        try:
            yield from pool.run(batches)
            finished = True
        finally:
            if finished:
                _IDLE.keep(self, pickled, pool)
            else:
                pool.close()

    def close(self) -> None:
        """End the idle workers; the mapper may be used again."""
        _IDLE.drop(self)

    def _start(self, pickled: bytes) -> Pool:
        raise NotImplementedError


class _Idle:
    """The idle pool of this process, and whose it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[PoolMapper, bytes, Pool] | None = None

    def take(self, mapper: PoolMapper, pickled: bytes) -> Pool | None:
        """The idle pool of this function, if there is a usable one; another is closed."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and (kept[0], kept[1]) == (mapper, pickled) and kept[2].usable:
            return kept[2]
        if kept is not None:
            kept[2].close()
        return None

    def keep(self, mapper: PoolMapper, pickled: bytes, pool: Pool) -> None:
        """Keep this one; another that is idle is closed."""
        with self._lock:
            before, self._kept = self._kept, (mapper, pickled, pool)
        if before is not None:
            before[2].close()

    def drop(self, mapper: PoolMapper | None = None) -> None:
        """Close the idle pool, where it is this mapper's."""
        with self._lock:
            kept = self._kept
            if kept is None or mapper not in {None, kept[0]}:
                return
            self._kept = None
        kept[2].close()


_IDLE = _Idle()
atexit.register(_IDLE.drop)


def picklable(function: Callable[..., Any]) -> bytes:
    """The function as bytes.

    Raises:
        TypeError, pickle.PicklingError, AttributeError: it cannot be pickled; a note says why it
            must.
    """
    try:
        return pickle.dumps(function)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        error.add_note(
            "what runs in other processes must be picklable: a function or class of a "
            "module, and an engine that has not loaded its model"
        )
        raise
