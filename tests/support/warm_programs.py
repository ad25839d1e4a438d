"""The project's commands from a process that has imported them already and forks for each call.

A page of commands starts many programs, and each would import Dagster first. ``warm_programs``
serves them while it is entered; ``write_clients`` writes programs that have the same words, folder,
variables and streams, and the same exit status. A call ends with its program.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from project import PYTHONPATH, ROOT

PROGRAMS = ("decomposerl", "dagster")
MODULE = "dagster_project.definitions"
"""Loaded anew in each program, as it reads the environment."""
GRACE_S = 20.0
CLIENT = f"""#!{sys.executable} -ISE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({{address!r}})
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    asked = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [asked], [0, 1, 2])
    sys.exit(int(server.recv(16) or 70))
"""


@contextmanager
def warm_programs(folder: Path) -> Iterator[Path]:
    """The socket of a server that is ready; it ends with the block."""
    address = folder / "warm"
    variables = {"PYTHONPATH": PYTHONPATH, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DECOMPOSERL", "DAGSTER"))}
    with subprocess.Popen(
        [sys.executable, __file__, str(address)],
        cwd=ROOT,
        env=clean | variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert "ready\n" == server.stdout.readline()
        try:
            yield address
        finally:
            server.kill()


def write_clients(folder: Path, address: Path) -> None:
    """The programs in a folder."""
    for name in PROGRAMS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(CLIENT.format(address=str(address)), "utf-8")
        (folder / name).chmod(0o755)


def serve(address: str) -> list[str]:
    """Fork for each call, for ever; in a fork, the words of its program."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        assert 1 == threading.active_count()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            call, _ = listener.accept()
            if os.fork() == 0:
                break
            call.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, streams, _, _ = socket.recv_fds(call, 1 << 20, 3)
    if child := os.fork():
        for stream in streams:
            os.close(stream)
        attend(call, child)
    call.close()
    return become(*json.loads(asked), streams)


def attend(call: socket.socket, child: int) -> None:
    """Report the status of the program to its client, or end it when the client is gone."""
    ended = os.pidfd_open(child)
    gone, _, _ = select.select([ended, call], [], [])
    if ended not in gone:
        os.killpg(child, signal.SIGTERM)
        if not select.select([ended], [], [], GRACE_S)[0]:
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with suppress(OSError):
        call.send(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)


def become(
    words: list[str], folder: str, variables: dict[str, str], streams: Sequence[int]
) -> list[str]:
    """Take the caller's place."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.modules.pop(MODULE, None)
    atexit._clear()  # of the libraries: some wait for threads that no fork has
    return words


def main(address: str) -> None:
    """Import, serve; in a fork, run the program."""
    import dagster._cli

    import dagster_project.definitions
    from dagster_project.cli import app

    assert dagster_project.definitions.defs
    sys.argv[:] = serve(address)
    status: object = 1
    try:
        status = (app if sys.argv[0] == "decomposerl" else dagster._cli.main)()
    except SystemExit as ended:
        status = ended.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    leave(status)


def leave(status: object) -> NoReturn:
    """End as the interpreter does, but for the destructors of libraries."""
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    main(sys.argv[1])
