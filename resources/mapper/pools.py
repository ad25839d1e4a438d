"""Where batches run: in this process, or on workers that stay for the next map of their function.

A worker unpickles the function once. A stage that streams its rows maps the same engine many times;
a process keeps one idle pool at most: another engine's workers start where the last one's were, so
that two models never wait for each other's memory or GPU. A pool whose map ended early, by an error
or because nobody reads on, is closed at once, and what its workers were doing is given up.
"""

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import wait
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


class InProcessMapper:
    """A ``Mapper`` that is the loop itself: nothing is pickled, started or taken ahead."""

    engine = "in process"

    def map(
        self, function: Callable[[Batch], Result], batches: Iterable[Batch]
    ) -> Iterator[Result]:
        """As the port's."""
        for number, batch in enumerate(batches):
            try:
                result = function(batch)
            except Exception as error:
                name_batch(error, number)
                raise
            yield result

    def close(self) -> None:
        """Nothing is open."""


OpenMapper = InProcessMapper | PoolMapper
"""A ``Mapper`` with ``close``, which ends its idle workers."""


_CORES_A_WORKER = 4
_worker: Worker | None = None


class ProcessMapper(PoolMapper):
    """A ``Mapper`` over a pool of processes.

    They are spawned, not forked: a fork would copy locks and threads of torch, polars and the chat
    client. Each has its share of the cores where the system allows it, so that the thread pools of
    several models do not compete. A batch whose worker is killed is repeated once. Workers ignore
    Ctrl-C, which their starter handles by ending them, and end within a second when it is killed.
    """

    def __init__(self, workers: int = 0) -> None:
        """``workers`` processes; 0: one for every four cores, at least one."""
        self.workers = workers or max(1, (os.cpu_count() or 1) // _CORES_A_WORKER)

    @property
    def engine(self) -> str:
        """``processes (<workers>)``."""
        return f"processes ({self.workers})"

    def _start(self, pickled: bytes) -> "_Processes":
        return _Processes(pickled, self.workers)


class _Processes:
    """The processes of one function."""

    def __init__(self, pickled: bytes, workers: int) -> None:
        self._pickled, self._workers = pickled, workers
        self._pool = self._started()

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order; ``AHEAD`` batches a worker are submitted before they are read.

        Raises:
            EngineError: a batch lost its worker twice.
        """
        source, sent, number, repeated = iter(batches), deque[Any](), 0, 0
        futures: dict[int, Future[Outcome]] = {}
        while True:
            sent += islice(source, AHEAD * self._workers - len(sent))
            if not sent:
                return
            # What a worker may have died of is repeated alone: the next loss then names it.
            alone = number < repeated
            try:
                for place, batch in enumerate(islice(sent, 1 if alone else None), number):
                    if place not in futures:
                        futures[place] = self._pool.submit(_run, batch)
                outcome = futures[number].result()
            except BrokenProcessPool as error:
                if alone:
                    raise EngineError(
                        f"batch {number} lost its worker process twice: it was killed, or the "
                        "system ran out of memory"
                    ) from error
                repeated = number + len(sent)
                futures = {n: f for n, f in futures.items() if f.done() and not f.exception()}
                self.close()
                self._pool = self._started()
            else:
                del sent[0], futures[number]
                yield outcome.result(number)
                number += 1

    def _started(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        shared = (self._pickled, spawn.Value("i", 0), self._workers)
        return ProcessPoolExecutor(
            self._workers, mp_context=spawn, initializer=_begin, initargs=shared
        )

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        running = [*(self._pool._processes or {}).values()]  # noqa: SLF001 - 3.14 has kill_workers
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.kill()  # one that still starts may have inherited SIGTERM as ignored
        for process in running:
            process.join()


def _begin(pickled: bytes, started: Any, workers: int) -> None:  # noqa: ANN401 - a shared counter
    global _worker  # noqa: PLW0603 - the pool's initializer has no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with started.get_lock():
        place, started.value = started.value, started.value + 1
    _keep_to_share(place, workers)
    _worker = Worker(pickled)


def _keep_to_share(place: int, workers: int) -> None:
    """Use this worker's share of the cores only; all of them where they cannot be shared."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // workers
    if share:
        os.sched_setaffinity(0, cores[place % workers * share :][:share])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run(batch: Any) -> Outcome:  # noqa: ANN401 - the function's
    if _worker is None:
        raise RuntimeError("this process is no worker")
    return _worker.run(batch)
