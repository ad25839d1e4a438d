"""A thread pool for the kernels: many small tasks, each on one core.

Compiled loops and matrix products release the interpreter lock, so threads are enough.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

Result = TypeVar("Result")


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Team:
    """``threads`` workers (0: one per core) for the duration of a ``with`` block.

    Inside it the linear-algebra libraries run one thread per call. After an interrupt no
    waiting task starts, and running ones end by themselves.
    """

    def __init__(self, threads: int = 0) -> None:
        """Start nothing; entering the block does."""
        self.size = threads or cores()
        self._pool: ThreadPoolExecutor | None = None
        self._limits: Any = None
        self._torch_threads: int | None = None

    def __enter__(self) -> Self:
        """Limit the libraries to one thread per call and start the workers."""
        from threadpoolctl import threadpool_limits

        # With separate library threads a task would wait for any of them that another process
        # keeps from running, and a step would use more cores than it was given.
        self._limits = threadpool_limits(1)
        if "torch" in sys.modules:
            torch: Any = sys.modules["torch"]
            self._torch_threads = torch.get_num_threads()
            torch.set_num_threads(1)
        if self.size > 1:
            self._pool = ThreadPoolExecutor(self.size, initializer=_one_torch_thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the workers and restore the threads of the libraries."""
        if self._pool is not None:
            # Waiting for tasks that may run for minutes would make Ctrl-C seem ignored.
            interrupted = error is not None and not isinstance(error, Exception)
            self._pool.shutdown(wait=not interrupted, cancel_futures=True)
            self._pool = None
        if self._torch_threads is not None:
            sys.modules["torch"].set_num_threads(self._torch_threads)
        self._limits.restore_original_limits()

    def run(self, tasks: Iterable[Callable[[], Result]]) -> list[Result]:
        """Results of all tasks in order; a free worker takes the next task.

        The first error of a task is raised after the others have ended.
        """
        if self._pool is None:
            return [task() for task in tasks]
        futures = [self._pool.submit(task) for task in tasks]
        return [future.result() for future in futures]


def _one_torch_thread() -> None:
    """Limit torch in a new thread, which starts with the library's default."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
