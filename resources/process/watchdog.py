"""A program that runs one command and ends it with its starter; standard library only.

``python watchdog.py STARTER_PID GRACE_S COMMAND...`` starts COMMAND in its own process group and
ends the whole group when the starter is gone (even by ``kill -9``) or when the watchdog receives
SIGTERM. The group gets SIGTERM, GRACE_S seconds, SIGKILL. The exit status is the command's.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

POLL_S = 0.1
_PR_SET_PDEATHSIG = 1


def watch(starter: int, grace_s: float, command: list[str]) -> int:
    """Run ``command`` until it, the starter or this process ends; return its exit status."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    # This process has no other thread, so code between fork and exec is safe.
    server = subprocess.Popen(  # noqa: S603 - the command is the user's setting
        command,
        start_new_session=True,
        preexec_fn=_end_with_watchdog(),  # noqa: PLW1509 - see above
    )
    while server.poll() is None and os.getppid() == starter and not received:
        time.sleep(POLL_S)
    if server.poll() is None:
        _signal_group(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace_s)
    _signal_group(server.pid, signal.SIGKILL)  # the server, or workers that outlived it
    status = server.wait()
    return status if status >= 0 else 128 - status


def _end_with_watchdog() -> Callable[[], None] | None:
    """On Linux, a function that makes the kernel end the server if the watchdog is killed."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def request() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return request


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
