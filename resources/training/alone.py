"""One process at a time in a run's folder.

Takes the folder and holds a lock on a file beside it; the system drops the lock with the
process, however that ends, so nothing is left to clean up.

Left out deliberately: machines that share the folder over a network file system without locks.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from decomposerl.errors import TrainingError

_POLL_S = 0.2


@contextmanager
def alone_in(folder: Path, wait_s: float = 30.0) -> Iterator[None]:
    """Hold the folder; another's last checkpoint is waited for ``wait_s`` seconds.

    Raises:
        TrainingError: another process still holds it; the message has its number.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _beside(folder).open("a+") as handle:
        _take(handle.fileno(), folder, time.monotonic() + wait_s)
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _take(descriptor: int, folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = _beside(folder).read_text("utf-8").strip()
                raise TrainingError(
                    f"process {holder or '?'} trains in {folder}: wait for it, or end it"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
