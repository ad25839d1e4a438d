"""Memory of this process over time, sampled by a thread.

Peaks are in MB of 10^6 bytes. Memory-mapped files count as far as their pages are resident.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

INTERVAL_S = 0.02
OVER = 70
_STATM = Path("/proc/self/statm")


class MemoryWatch:
    """Samples during a ``with`` block; without ``/proc`` there are no samples."""

    def __init__(self, most_mb: float = float("inf")) -> None:
        """Nothing is sampled before the block is entered.

        The process ends with status ``OVER`` once it holds more than ``most_mb`` that is not a
        file's. A limit of the system's (``RLIMIT_DATA``) would also count what allocators reserve
        and never use, gigabytes of it.
        """
        self._most_mb = most_mb
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
            resident, shared = (int(size) * page / 1e6 for size in _STATM.read_text().split()[1:3])
            self._samples.append((time.time(), resident))
            if resident - shared > self._most_mb:
                print(f"over the limit of {self._most_mb:,.0f} MB", file=sys.stderr, flush=True)
                os._exit(OVER)
