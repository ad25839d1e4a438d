"""Batches in several processes of this machine.

Workers are spawned, not forked: a fork would copy locks and threads of torch, polars and the chat
client. Each has its share of the cores where the system allows it, so that the thread pools of
several models do not compete. A batch whose worker is killed is repeated once. Workers ignore
Ctrl-C, which their starter handles by ending them, and end by themselves within a second when it is
killed.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait
from typing import Any

from decomposerl.errors import EngineError
from resources.mapper.pools import AHEAD, Outcome, PoolMapper, Worker

_CORES_A_WORKER = 4
_worker: Worker | None = None


class ProcessMapper(PoolMapper):
    """A ``Mapper`` over a pool of processes."""

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
