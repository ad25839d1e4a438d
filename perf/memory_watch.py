"""The memory of this process over time, sampled in a thread.

Takes nothing, gives the peak of any span of time in MB of 10^6 bytes. Memory-mapped files
count where their pages are in memory.

Left out deliberately: other processes, and anything between two samples.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

INTERVAL_S = 0.02
_STATM = Path("/proc/self/statm")


class MemoryWatch:
    """Samples for the time of a ``with`` block; off where the system does not tell."""

    def __init__(self) -> None:
        """Nothing is sampled before the block is entered."""
        self._samples: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        """Start sampling."""
        if _STATM.is_file():
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop sampling."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def peak_mb(self, start: float = 0.0, end: float = float("inf")) -> float:
        """Most memory between two times of ``time.time``; 0 where nothing was sampled."""
        return max((size for at, size in self._samples if start <= at <= end), default=0.0)

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._ended.wait(INTERVAL_S):
            pages = int(_STATM.read_text().split()[1])
            self._samples.append((time.time(), pages * page / 1e6))
