"""A neighbour that keeps one core busy for the time of a ``with`` block.

Takes nothing. The process is started and ended here; ``load_beside`` tells whether others
were at work already.

Left out deliberately: pinning. A real neighbour moves between cores too.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_core() -> Iterator[None]:
    """One process that only counts, ended with the block."""
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        neighbour.terminate()
        neighbour.wait()


def load_beside() -> float | None:
    """The machine's load average of the last minute, None where it tells none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
