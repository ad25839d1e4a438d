"""Memory of this process over time, sampled by a thread.

Peaks are in MB of 10^6 bytes. Memory-mapped files count as far as their pages are resident.
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
    """Samples during a ``with`` block; without ``/proc`` there are no samples."""

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
        """Peak between two ``time.time`` values; 0 without samples in between."""
        return max((size for at, size in self._samples if start <= at <= end), default=0.0)

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._ended.wait(INTERVAL_S):
            pages = int(_STATM.read_text().split()[1])
            self._samples.append((time.time(), pages * page / 1e6))
