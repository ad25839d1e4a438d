"""Batches in several processes of this machine.

Workers are spawned, not forked: a fork would copy locks and threads of torch, polars and the chat
client. Each has its share of the cores where the system allows it, so that the thread pools of
several models do not compete. They ignore Ctrl-C, which their starter handles by ending them, and
end by themselves within a second when it is killed.
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
        self._workers = workers or max(1, (os.cpu_count() or 1) // _CORES_A_WORKER)

    @property
    def workers(self) -> int:
        """How many."""
        return self._workers

    @property
    def engine(self) -> str:
        """``processes (<workers>)``."""
        return f"processes ({self.workers})"

    def _start(self, pickled: bytes) -> "_Processes":
        return _Processes(pickled, self.workers)


class _Processes:
    """The processes of one function."""

    def __init__(self, pickled: bytes, workers: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ahead = AHEAD * workers
        self._pool = ProcessPoolExecutor(
            workers,
            mp_context=spawn,
            initializer=_begin,
            initargs=(pickled, spawn.Value("i", 0), workers),
        )

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order; ``AHEAD`` batches a worker are submitted before they are read."""
        source, sent, number = iter(batches), deque[Future[Outcome]](), 0
        while True:
            try:
                for batch in islice(source, self._ahead - len(sent)):
                    sent.append(self._pool.submit(_run, batch))
                if not sent:
                    return
                outcome = sent[0].result()
            except BrokenProcessPool as error:
                raise EngineError(
                    f"a worker process died in batch {number} or in one of the next "
                    f"{self._ahead}: it was killed, or the system ran out of memory"
                ) from error
            sent.popleft()
            yield outcome.result(number)
            number += 1

    @property
    def usable(self) -> bool:
        """Whether no process died since the last map."""
        return not self._pool._broken  # noqa: SLF001 - only ``submit`` would say so

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
