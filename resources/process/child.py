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
from typing import BinaryIO

from resources.process import watchdog
from resources.process.interrupt import more_time

_WATCHDOG_S = 10.0  # extra time for the watchdog, after which it is killed


def start_watched(
    command: Sequence[str], output: BinaryIO, grace_s: float
) -> "subprocess.Popen[bytes]":
    """Start ``command`` under a watchdog, the returned process; all output goes to ``output``."""
    return subprocess.Popen(  # noqa: S603 - the command is the user's setting
        [sys.executable, watchdog.__file__, str(os.getpid()), str(grace_s), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def end_watched(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """End a watchdog and its command; return once both are gone."""
    process.terminate()
    try:
        process.wait(grace_s + _WATCHDOG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_watched(command: Sequence[str], log: Path, grace_s: float, title: str) -> int:
    """Run ``command`` to its end; append its output to ``log`` under ``title``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        stream.write(f"== {title}\n".encode())
        stream.flush()
        process = start_watched(command, stream, grace_s)
    try:
        return process.wait()
    except BaseException:
        with more_time("the training process is saving a checkpoint"):
            end_watched(process, grace_s)
        raise
