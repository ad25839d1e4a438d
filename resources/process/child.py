"""Run a child process that always ends with its starter.

Takes a command and a log file, gives the exit status. The watchdog (``resources.process.watchdog``)
guarantees on one machine:

* an exception here, such as the interrupt of a Dagster run, sends the process group SIGTERM, and
  SIGKILL if it still runs after ``grace_s``;
* if the starter is killed, even by ``kill -9``, the same happens within a second.

The child has its own process group, so Ctrl-C at a terminal reaches it once, through its starter.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from resources.process import watchdog
from resources.process.interrupt import more_time

_WATCHDOG_S = 10.0  # extra time for the watchdog, after which it is killed


def run_watched(command: Sequence[str], log: Path, grace_s: float, title: str) -> int:
    """Run ``command`` to its end; append its output to ``log`` under ``title``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, watchdog.__file__, str(os.getpid()), str(grace_s), *command]
    with log.open("ab") as stream:
        stream.write(f"== {title}\n".encode())
        stream.flush()
        process = subprocess.Popen(  # noqa: S603 - the command is the user's setting
            words,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait()
    except BaseException:
        _end(process, grace_s)
        raise


def _end(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    process.terminate()
    try:
        with more_time("the training process is saving a checkpoint"):
            process.wait(grace_s + _WATCHDOG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
