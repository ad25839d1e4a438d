"""Workers that stay for the next map of the same function, with what they have loaded.

A worker unpickles the function once. A stage that streams its rows maps the same engine many times;
a process keeps one idle pool at most: another engine's workers start where the last one's were, so
that two models never wait for each other's memory or GPU. A pool whose map ended early, by an error
or because nobody reads on, is closed at once, and what its workers were doing is given up.
"""

import atexit
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

from decomposerl.errors import EngineError
from decomposerl.ports import Batch, Result

AHEAD = 2
"""Batches a worker that are taken from the source before their results are read."""


class Pool(Protocol):
    """Workers of one function; those that were lost are replaced."""

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order."""
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

    def map(
        self, function: Callable[[Batch], Result], batches: Iterable[Batch]
    ) -> Iterator[Result]:
        """As the port's. No worker is started for no batch.

        Raises:
            TypeError, pickle.PicklingError, AttributeError: the function cannot be pickled.
        """
        rest = iter(batches)
        first = [*islice(rest, 1)]
        if not first:
            return
        pickled = _picklable(function)
        pool = _IDLE.take(self, pickled) or self._start(pickled)
        finished = False
        try:
            yield from pool.run(chain(first, rest))
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


Kept = tuple[PoolMapper, bytes, Pool]


class _Idle:
    """The idle pool of this process, with its mapper and function."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Kept | None = None

    def take(self, mapper: PoolMapper, pickled: bytes) -> Pool | None:
        """The idle pool of this function, if there is one; another is closed."""
        kept = self._replaced(None)
        if kept is not None and kept[:2] == (mapper, pickled):
            return kept[2]
        self._close(kept)
        return None

    def keep(self, mapper: PoolMapper, pickled: bytes, pool: Pool) -> None:
        """Keep this one; another that is idle is closed."""
        self._close(self._replaced((mapper, pickled, pool)))

    def drop(self, mapper: PoolMapper | None = None) -> None:
        """Close the idle pool, where it is this mapper's; without one, whosever it is."""
        if self._kept is not None and mapper in {None, self._kept[0]}:
            self._close(self._replaced(None))

    def _replaced(self, kept: Kept | None) -> Kept | None:
        with self._lock:
            before, self._kept = self._kept, kept
        return before

    def _close(self, kept: Kept | None) -> None:
        if kept is not None:
            kept[2].close()


_IDLE = _Idle()
atexit.register(_IDLE.drop)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a batch, or the pickled exception that it ended with.

    Exceptions travel as bytes, so that one arrives as what it was, whatever carries it.
    """

    value: Any = None
    failure: bytes = b""

    def result(self, number: int) -> Any:  # noqa: ANN401 - the function's
        """The value of batch ``number``; raises its exception, with a note that names it."""
        if self.failure:
            error: Exception = pickle.loads(self.failure)  # noqa: S301 - from our own worker
            name_batch(error, number)
            raise error
        return self.value


class Worker:
    """One worker: a function that is unpickled with the first batch, and stays."""

    def __init__(self, pickled: bytes) -> None:
        """``pickled`` is the function, as ``pickle.dumps`` writes it."""
        self._pickled = pickled
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> None:
        """Return: the worker runs."""

    def run(self, batch: Any) -> Outcome:  # noqa: ANN401 - the function's
        """What the function gives for a batch, or raises."""
        try:
            return Outcome(self._loaded()(batch))
        except Exception as error:  # noqa: BLE001 - raised where the map is read
            return Outcome(failure=_portable(error))

    def _loaded(self) -> Callable[[Any], Any]:
        if self._function is None:
            try:
                self._function = pickle.loads(self._pickled)  # noqa: S301 - from our own starter
            except (ImportError, AttributeError) as error:
                error.add_note("every node needs this project and its extras, in one version")
                raise
        return self._function


def name_batch(error: BaseException, number: int) -> None:
    """Add the note that names the batch an error comes from."""
    error.add_note(f"in batch {number}")


def _portable(error: Exception) -> bytes:
    """The exception pickled; one that cannot be read again as one of ours with its words."""
    try:
        whole = pickle.dumps(error)
        pickle.loads(whole)  # noqa: S301 - written above
    except Exception:  # noqa: BLE001 - pickling may raise anything
        plain = EngineError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            plain.add_note(note)
        return pickle.dumps(plain)
    return whole


def _picklable(function: Callable[..., Any]) -> bytes:
    try:
        return pickle.dumps(function)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        error.add_note(
            "what runs in other processes must be picklable: a function or class of a "
            "module, and an engine that has not loaded its model"
        )
        raise
