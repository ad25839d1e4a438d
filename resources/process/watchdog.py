"""Runs one server and ends it with its starter: a program of its own, standard library only.

``python vllm_watchdog.py STARTER_PID GRACE_S COMMAND...`` starts COMMAND in a process group
of its own and ends the whole group when the starter is gone, however it went (``kill -9``
too), or when it is itself told to end. The group gets SIGTERM, GRACE_S seconds, SIGKILL.
It exits as the server did.

Left out deliberately: restarting, and knowing whether the server is well
(``resources.vllm.server``).
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
    """Run ``command`` until it, the starter or this process's time ends; its exit status."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    # Nothing else runs in this process, so code between fork and exec is safe.
    server = subprocess.Popen(  # noqa: S603 - the command is the user's setting
        command,
        start_new_session=True,
        preexec_fn=_end_with_watchdog(),  # noqa: PLW1509 - see above
    )
    while server.poll() is None and os.getppid() == starter and not told:
        time.sleep(POLL_S)
    if server.poll() is None:
        _signal_group(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace_s)
    _signal_group(server.pid, signal.SIGKILL)  # the server, or workers that it left behind
    status = server.wait()
    return status if status >= 0 else 128 - status


def _end_with_watchdog() -> Callable[[], None] | None:
    """Where the system can (Linux), the server is told to end should the watchdog be killed."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
