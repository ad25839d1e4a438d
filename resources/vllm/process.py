"""A vLLM server as a child process.

Takes a ``ServerCommand`` and gives the base URL of a server that is healthy and lists the
model. Guaranteed on one machine:

* ``stop``, leaving the ``with`` block, and an exception in it end the server and its workers;
* if the starter is killed, even by ``kill -9``, a watchdog (``resources.process.watchdog``) notices
  within a second and ends the server: SIGTERM, grace, SIGKILL;
* if the watchdog itself is killed by ``kill -9``, Linux sends the server SIGTERM.

Not guaranteed: workers that leave the server's process group, and a server that ignores SIGTERM
after the watchdog was killed. A server that dies is not restarted; the run stops with the end of
its log.
"""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
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
from decomposerl.extras import install_command
from resources.chat.connection import fetched
from resources.process.child import end_watched, start_watched
from resources.vllm.command import HOST, ServerCommand
from resources.vllm.version import installed_version, server_version_problem, version_problem

POLL_S = 0.2
_ANSWER_S = 5.0
_DEATH_S = 1.0  # a server's connections end before the watchdog notices
_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_CHILD_WANTS_KEY = "the environment or the arguments of this vLLM server make it require a key"
_TAIL_BYTES, _TAIL_LINES = 8_192, 20


class VllmProcess:
    """One server, started at the first ``base_url`` and stopped by ``stop`` or ``with``."""

    def __init__(
        self, command: ServerCommand, log: Path, start_timeout_s: float = 900, grace_s: float = 30
    ) -> None:
        """``log`` receives the server's output; the first start may include a download."""
        self._command, self._log = command, log
        self._start_timeout_s, self._grace_s = start_timeout_s, grace_s
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._root = ""
        self._lock = threading.Lock()

    def base_url(self) -> str:
        """``http://127.0.0.1:<port>/v1``, once the server is healthy and lists the model.

        Raises:
            ConfigError: it would run a repository's code at no fixed commit.
            EngineMissing: the executable is not installed.
            EngineError: its vLLM is too old, or the server died, was not healthy in time, or
                serves another model; then the message ends with the last lines of its log.
        """
        with self._lock:
            if self._watchdog is None:
                self._start()
            elif self._watchdog.poll() is not None:
                raise EngineError(self._failure("has died"))
            return f"{self._root}/v1"

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        watchdog = self._watchdog
        return watchdog is not None and watchdog.poll() is None

    def death(self) -> str:
        """The message if the server ended by itself, with the end of its log; else empty."""
        if self._watchdog is None:
            return ""
        try:
            self._watchdog.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            return ""
        return self._failure("has died")

    def stop(self) -> None:
        """End the server and its workers, if any."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            end_watched(watchdog, self._grace_s)

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server."""
        self.stop()

    def _start(self) -> None:
        program = self._command.program
        if shutil.which(program) is None:
            raise EngineMissing(
                f"'{program}' is not installed: {install_command('vllm')} (or name another "
                "environment's vllm as the executable), or give a running server's URL"
            )
        old = version_problem(installed_version(program))
        if old:
            raise EngineError(f"'{program}': {old}")
        self._command.refuse_unpinned_code()
        port = self._port()
        self._root = f"http://{HOST}:{port}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            command = self._command.words_without_keys(port)
            self._watchdog = start_watched(command, log, self._grace_s)
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
                "started there: end the process at that port or choose another (0: a free one)"
            )
        return port or free_port()

    def _wait(self, watchdog: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            # Check first that it lives: another server may answer at the port.
            if watchdog.poll() is not None:
                raise EngineError(self._failure(f"ended with status {watchdog.returncode}"))
            problem = server_problem(self._root, self._command.name, refusal=_CHILD_WANTS_KEY)
            if not problem:
                return
            if time.monotonic() > deadline:
                patience = f"was not healthy within {self._start_timeout_s:g} s ({problem})"
                raise EngineError(self._failure(patience))
            time.sleep(POLL_S)

    def _failure(self, what: str) -> str:
        return (
            f"the vLLM server of '{self._command.name}' {what}. Its log is {self._log}, "
            f"and ends:\n{tail(self._log)}"
        )


def server_problem(root: str, name: str, key: str = "", *, refusal: str) -> str:
    """Why the server at ``root`` is not ready; empty if it is.

    Raises:
        EngineError: it does not serve ``name``, redirects, rejects the key or is too old a vLLM, so
            waiting does not help; ``refusal`` says what to check.
    """
    url = f"{root}/health"
    # Bypass the machine's proxy for a local server.
    get = partial(fetched, key=key, timeout_s=_ANSWER_S, direct=True)
    try:
        _get_if_there(get, url)  # servers other than vLLM may have no such page
        url = f"{root}/v1/models"
        models = json.loads(get(url))["data"]
        served = [str(model["id"]) for model in models]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _REFUSALS:
            raise EngineError(f"{root} answers status {error.code}: {refusal}") from error
        return f"{url} answers status {error.code}"
    except OSError as error:  # urllib's errors are OSErrors
        return f"{url}: {getattr(error, 'reason', error)}"
    except (
        http.client.HTTPException,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        return f"{url} returns no list of models ({type(error).__name__})"
    if name not in served:
        raise EngineError(f"{root} serves {', '.join(served) or 'no model'}, not '{name}'")
    old = server_version_problem(root, models, get)
    if old:
        raise EngineError(f"{root}: {old}")
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
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # ports in TIME_WAIT are free
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that is free now."""
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
