"""A process that is never left behind: started, waited for, ended with its starter.

Takes a command and a log file, gives the exit status. Guaranteed on one machine, by the
watchdog that vLLM servers have too (``resources.process.watchdog``):

* an exception here, such as the interrupt of a Dagster run, sends the process group SIGTERM,
  and SIGKILL where it is still there after ``grace_s``;
* a starter that is killed, even by ``kill -9``, does the same within a second.

The process stands in a group of its own, so Ctrl-C at a terminal reaches it once, through its
starter.

Left out deliberately: what the process says (``resources.training.process``).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from resources.process import watchdog as vllm_watchdog
from resources.process.interrupt import held

_WATCHDOG_S = 10.0  # what the watchdog may take beyond the grace before it is itself killed


def run_watched(command: Sequence[str], log: Path, grace_s: float, title: str) -> int:
    """Run ``command`` to its end; all it prints is appended to ``log`` under ``title``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, vllm_watchdog.__file__, str(os.getpid()), str(grace_s), *command]
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
        with held("the training process is saving a checkpoint"):
            process.wait(grace_s + _WATCHDOG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
