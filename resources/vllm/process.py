"""A vLLM server as a child process: started, checked, asked for its address, stopped.

Takes a ``ServerCommand`` and gives the base URL of a server that is healthy and lists the
model. Guaranteed on one machine:

* ``stop``, leaving the ``with`` block, and an exception in it end the server and its workers;
* a starter that is killed, even by ``kill -9``, takes the server with it: a watchdog
  (``resources.process.watchdog``) sees it within a second, then SIGTERM, grace, SIGKILL;
* if the watchdog itself is killed by ``kill -9``, Linux sends the server SIGTERM.

Not guaranteed: workers that leave the server's process group, and a server that ignores
SIGTERM after the watchdog was killed.

Left out deliberately: keys of a child (it listens on loopback only, and gets none of ours),
and restarts: a server that dies stops the run with the end of its log.
"""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from decomposerl.errors import EngineError, EngineMissing
from resources.chat.connection import fetched
from resources.process import watchdog as vllm_watchdog
from resources.vllm.command import HOST, ServerCommand

POLL_S = 0.2
_ANSWER_S = 5.0
_DEATH_S = 1.0  # a server's connections end before the watchdog has seen it go
_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_CHILD_ASKS = "the environment or the arguments of this vLLM server make it ask for a key"
_TAIL_BYTES, _TAIL_LINES = 8_192, 20


class VllmProcess:
    """One server, started at the first ``base_url`` and stopped by ``stop`` or ``with``."""

    def __init__(
        self, command: ServerCommand, log: Path, start_timeout_s: float = 900, grace_s: float = 30
    ) -> None:
        """``log`` takes all the server prints; the first start may include a download."""
        self._command, self._log = command, log
        self._start_timeout_s, self._grace_s = start_timeout_s, grace_s
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._root = ""
        self._lock = threading.Lock()

    def base_url(self) -> str:
        """``http://127.0.0.1:<port>/v1``, once the server is healthy and lists the model.

        Raises:
            EngineMissing: the executable is not installed.
            EngineError: the server died, was not healthy in time, or serves another model;
                the message ends with the last lines of its log.
        """
        with self._lock:
            if self._watchdog is None:
                self._start()
            elif self._watchdog.poll() is not None:
                raise EngineError(self._story("has died"))
            return f"{self._root}/v1"

    def death(self) -> str:
        """What became of a server that ended by itself, with the end of its log; else empty."""
        if self._watchdog is None:
            return ""
        try:
            self._watchdog.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            return ""
        return self._story("has died")

    def stop(self) -> None:
        """End the server and its workers; does nothing where none runs."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None:
            return
        watchdog.terminate()
        try:
            watchdog.wait(self._grace_s + 10)
        except subprocess.TimeoutExpired:
            watchdog.kill()
            watchdog.wait()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server, whatever happened."""
        self.stop()

    def _start(self) -> None:
        program = self._command.program
        if shutil.which(program) is None:
            raise EngineMissing(
                f"'{program}' is not installed: pip install vllm (in an environment of its own "
                "if need be, then name its vllm as the executable), or give a running server's URL"
            )
        port = self._port()
        self._root = f"http://{HOST}:{port}"
        words = [sys.executable, vllm_watchdog.__file__, str(os.getpid()), str(self._grace_s)]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._watchdog = subprocess.Popen(  # noqa: S603 - the command is the user's setting
                [*words, *self._command.words_without_keys(port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(self._watchdog)
        except BaseException:
            self.stop()
            raise

    def _port(self) -> int:
        port = self._command.port
        if port and not _is_free(port):
            raise EngineError(
                f"port {port} of {HOST} is taken, so no server of '{self._command.name}' was "
                "started there: end what listens, choose another port, or 0 for a free one"
            )
        return port or free_port()

    def _wait(self, watchdog: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            # First, whether it lives: whoever else answers at the port is not ours.
            if watchdog.poll() is not None:
                raise EngineError(self._story(f"ended with status {watchdog.returncode}"))
            lack = lack_of(self._root, self._command.name, refusal=_CHILD_ASKS)
            if not lack:
                return
            if time.monotonic() > deadline:
                patience = f"was not healthy within {self._start_timeout_s:g} s ({lack})"
                raise EngineError(self._story(patience))
            time.sleep(POLL_S)

    def _story(self, what: str) -> str:
        return (
            f"the vLLM server of '{self._command.name}' {what}. Its log is {self._log}, "
            f"and ends:\n{tail(self._log)}"
        )


def lack_of(root: str, name: str, key: str = "", *, refusal: str) -> str:
    """What the server at ``root`` lacks to be up, in words; empty where it lacks nothing.

    Raises:
        EngineError: it does not serve ``name``, redirects, or wants a key or another one, which
            waiting does not fix; ``refusal`` then says what to look at.
    """
    asked = f"{root}/health"
    # The machine's proxy, where there is one, must not see what goes to a neighbour.
    get = partial(fetched, key=key, timeout_s=_ANSWER_S, direct=True)
    try:
        _get_if_there(get, asked)  # other servers than vLLM may have no such page
        asked = f"{root}/v1/models"
        models = json.loads(get(asked))
        served = [str(model["id"]) for model in models["data"]]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _REFUSALS:
            raise EngineError(f"{root} answers status {error.code}: {refusal}") from error
        return f"{asked} answers status {error.code}"
    except OSError as error:  # urllib's errors are OSErrors
        return f"{asked}: {getattr(error, 'reason', error)}"
    except (
        http.client.HTTPException,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        return f"{asked} answers with no list of models ({type(error).__name__})"
    if name not in served:
        raise EngineError(f"{root} serves {', '.join(served) or 'no model'}, not '{name}'")
    return ""


def _get_if_there(get: Callable[[str], bytes], url: str) -> None:
    try:
        get(url)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        error.close()


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # only a listener counts
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def tail(log: Path) -> str:
    """The last lines of a log; a note where there is none."""
    with contextlib.suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = stream.read().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:]) or "(nothing)"
    return "(no log)"
