"""A process that keeps one core busy during a ``with`` block, and the machine's load.

The process is not pinned to a core: real neighbours move between cores too.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_core() -> Iterator[None]:
    """Run one busy-looping process until the block ends."""
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        neighbour.terminate()
        neighbour.wait()


def load_beside() -> float | None:
    """Load average of the last minute, None if the system does not report it."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
