"""A vLLM server as a child process: started, checked, asked for its address, stopped.

Takes a ``ServerCommand`` and gives the base URL of a server that is healthy and lists the
model. Guaranteed on one machine:

* ``stop``, leaving the ``with`` block, and an exception in it end the server and its workers;
* a starter that is killed, even by ``kill -9``, takes the server with it: a watchdog
  (``resources.vllm_watchdog``) sees it within a second, then SIGTERM, grace, SIGKILL;
* if the watchdog itself is killed by ``kill -9``, Linux sends the server SIGTERM.

Not guaranteed: workers that leave the server's process group, and a server that ignores
SIGTERM after the watchdog was killed.

Left out deliberately: keys of a child (it listens on loopback only), and restarts: a server
that dies stops the run with the end of its log.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from decomposerl.errors import EngineError, EngineMissing
from resources import vllm_watchdog

HOST = "127.0.0.1"
POLL_S = 0.2
_ANSWER_S = 5.0
_WITHOUT_KEY = ("env", "-u", "VLLM_API_KEY")
"""A key in the starter's environment is for servers elsewhere: with it, vLLM would refuse us."""
_TAIL_BYTES, _TAIL_LINES = 8_192, 20
# The machine's proxy, where there is one, must not see what goes to a neighbour.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What is started. ``port`` 0 takes a free one; ``served_name`` empty means ``model``.

    ``max_model_len`` is in tokens (0: the model's own), ``gpu_memory_utilization`` a share
    of each card's memory. ``extra`` stands at the end, word by word. To choose cards, let
    ``executable`` be ``("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve")``.
    """

    model: str
    served_name: str = ""
    executable: tuple[str, ...] = ("vllm", "serve")
    port: int = 0
    tensor_parallel_size: int = 1
    max_model_len: int = 0
    gpu_memory_utilization: float = 0.9
    extra: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model name that requests use."""
        return self.served_name or self.model

    def words(self, port: int) -> list[str]:
        """The command line, word by word."""
        length = ["--max-model-len", str(self.max_model_len)] if self.max_model_len else []
        return [
            *self.executable,
            self.model,
            *("--served-model-name", self.name),
            *("--host", HOST, "--port", str(port)),
            *("--tensor-parallel-size", str(self.tensor_parallel_size)),
            *("--gpu-memory-utilization", str(self.gpu_memory_utilization)),
            *length,
            *self.extra,
        ]


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
        program = self._command.executable[0]
        if shutil.which(program) is None:
            raise EngineMissing(
                f"'{program}' is not installed: pip install vllm (in an environment of its own "
                "if need be, then name its vllm as the executable), or give a running server's URL"
            )
        port = self._command.port or free_port()
        self._root = f"http://{HOST}:{port}"
        words = [sys.executable, vllm_watchdog.__file__, str(os.getpid()), str(self._grace_s)]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._watchdog = subprocess.Popen(  # noqa: S603 - the command is the user's setting
                [*words, *_WITHOUT_KEY, *self._command.words(port)],
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

    def _wait(self, watchdog: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not healthy(self._root, self._command.name):
            if watchdog.poll() is not None:
                raise EngineError(self._story(f"ended with status {watchdog.returncode}"))
            if time.monotonic() > deadline:
                raise EngineError(
                    self._story(f"was not healthy within {self._start_timeout_s:g} s")
                )
            time.sleep(POLL_S)

    def _story(self, what: str) -> str:
        return (
            f"the vLLM server of '{self._command.name}' {what}. Its log is {self._log}, "
            f"and ends:\n{tail(self._log)}"
        )


def healthy(root: str, name: str, key: str = "") -> bool:
    """Whether the server at ``root`` is up; False also where nobody answers.

    Raises:
        EngineError: it is up and does not serve ``name``.
    """
    try:
        _get_if_there(f"{root}/health", key)  # other servers than vLLM may have no such page
        models = json.loads(_get(f"{root}/v1/models", key))
        served = [str(model["id"]) for model in models["data"]]
    except (OSError, ValueError, KeyError, TypeError):  # urllib's errors are OSErrors
        return False
    if name not in served:
        raise EngineError(f"{root} serves {', '.join(served) or 'no model'}, not '{name}'")
    return True


def _get_if_there(url: str, key: str) -> None:
    try:
        _get(url, key)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise


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


def _get(url: str, key: str) -> bytes:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s) by the caller
    with _DIRECT.open(request, timeout=_ANSWER_S) as reply:
        return bytes(reply.read())
