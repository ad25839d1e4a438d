"""A vLLM server as a child process, or one that already runs.

``VllmServer`` gives the base URL of a server that is healthy and lists the model. Guaranteed on one
machine for a server that is started:

* ``stop``, leaving the ``with`` block, and an exception in it end the server and its workers;
* if the starter is killed, even by ``kill -9``, a watchdog (``resources.process.watchdog``) notices
  within a second and ends the server: SIGTERM, grace, SIGKILL;
* if the watchdog itself is killed by ``kill -9``, Linux sends the server SIGTERM.

Not guaranteed: workers that leave the server's process group, and a server that ignores SIGTERM
after the watchdog was killed. A server that dies is not restarted. It listens on loopback without a
key, so key variables are removed from its environment. Below ``MINIMUM`` two faults of vLLM run
code of a model's repository although that was not allowed: a program is asked for its version
before it loads a model, through the interpreter in its first line, a server by its page.
"""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from packaging.version import InvalidVersion, Version

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.extras import install_command
from resources.chat.connection import fetched
from resources.process.child import end_watched, start_watched

HOST, MINIMUM = "127.0.0.1", "0.22"
MALFORMED = (HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError)
KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY", "DECOMPOSERL_VERIFIER_KEY")
"""Never passed on: vLLM would require the first; the others belong to other servers."""
_WITH_VALUE, _REMOTE_CODE = {"-u", "--unset", "-C", "--chdir"}, "--trust-remote-code"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_POLL_S, _ANSWER_S, _VERSION_S = 0.2, 5.0, 20.0
_DEATH_S = 1.0  # a server's connections end before the watchdog notices
_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_CHILD_WANTS_KEY = "the environment or the arguments of this vLLM server make it require a key"
_TAIL_BYTES, _TAIL_LINES = 8_192, 20


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The command line of a server; ``port`` 0 means a free one, ``context`` 0 the model's own.

    ``revision`` applies to weights, tokenizer and the model's code (empty: the default),
    ``gpu_share`` to each card's memory; ``extra`` words go last. To choose GPUs, set ``executable``
    to ``("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve")``. ``withheld`` are variables that are
    removed from the server's environment besides ``KEYS``.
    """

    model: str
    executable: tuple[str, ...] = ("vllm", "serve")
    revision: str = ""
    cards: int = 1
    context: int = 0
    gpu_share: float = 0.9
    extra: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    port: int = 0

    def words(self, port: int) -> list[str]:
        """The command line, word by word."""
        revisions = ("--revision", "--code-revision", "--tokenizer-revision")
        return [
            *(*self.executable, self.model, "--served-model-name", self.model),
            *("--host", HOST, "--port", str(port)),
            *(word for name in revisions if self.revision for word in (name, self.revision)),
            *("--tensor-parallel-size", str(self.cards)),
            *("--gpu-memory-utilization", str(self.gpu_share)),
            *(["--max-model-len", str(self.context)] if self.context else []),
            *self.extra,
        ]

    def words_without_keys(self, port: int) -> list[str]:
        """The same, prefixed with ``env`` words that remove the key variables."""
        hidden = dict.fromkeys((*KEYS, *self.withheld))
        return ["env", *(word for name in hidden for word in ("-u", name)), *self.words(port)]

    def refuse_unpinned_code(self) -> None:
        """Refuse to run code of a hub repository that may have changed since it was looked at.

        Raises:
            ConfigError: the words trust such code, and ``revision`` is no full commit.
        """
        trusted = runs_remote_code(self.words(0))
        if trusted and not _COMMIT.fullmatch(self.revision) and not Path(self.model).is_dir():
            raise ConfigError(
                f"a server of {self.model} would run code of its repository "
                f"({_REMOTE_CODE}) at no fixed commit: set `models_lock`, or `revision` to a full "
                "commit"
            )


def runs_remote_code(words: Sequence[str]) -> bool:
    """Whether the words let vLLM run code of the model's repository."""
    return any(word.replace("_", "-").startswith(_REMOTE_CODE) for word in words)


def program_of(words: Sequence[str]) -> str:
    """The program of a command: the word after ``env`` and its options and assignments."""
    rest = list(words)
    if not rest or rest[0].rsplit("/", 1)[-1] != "env":
        return rest[0] if rest else ""
    rest.pop(0)
    while rest and (rest[0].startswith("-") or _ASSIGNMENT.fullmatch(rest[0])):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return program_of(rest)


@dataclass
class VllmServer:
    """One server, started at the first ``base_url`` and ended by ``stop`` or ``with``.

    ``log`` receives its output; the first start may include a download. With ``attach_to``, the
    URL of a running server, that one is waited for, and its key's variable ``key_name`` is named
    where it is not accepted.
    """

    command: ServerCommand
    log: Path
    start_timeout_s: float = 900
    grace_s: float = 30
    attach_to: str = ""
    read_key: Callable[[], str] = str
    key_name: str = ""

    def __post_init__(self) -> None:
        """Nothing is started yet."""
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._root, self._lock = "", threading.Lock()

    def base_url(self) -> str:
        """The URL, ending in ``/v1``, of a server that is healthy and lists the model.

        Raises:
            ConfigError: it would run a repository's code at no fixed commit, or ``attach_to`` is no
                http(s) URL.
            EngineMissing: the executable is not installed.
            EngineError: its vLLM is too old, it died, was not healthy in time, wants another key or
                serves another model; of one that was started the message ends with its log.
        """
        with self._lock:
            if self.attach_to:
                return f"{self._attached()}/v1"
            if self._watchdog is None:
                self._start()
            elif self._watchdog.poll() is not None:
                raise EngineError(self._failure("has died"))
            return f"{self._root}/v1"

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended, or is attached to."""
        watchdog = self._watchdog
        return bool(self.attach_to) or (watchdog is not None and watchdog.poll() is None)

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
        """End the server and its workers, if it was started here."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            end_watched(watchdog, self.grace_s)

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.stop()

    def _start(self) -> None:
        program, port = program_of(self.command.executable), self.command.port
        if shutil.which(program) is None:
            raise EngineMissing(
                f"'{program}' is not installed: {install_command('vllm')} (or name another "
                "environment's vllm as the executable), or give a running server's URL"
            )
        if old := version_problem(installed_version(program)):
            raise EngineError(f"'{program}': {old}")
        self.command.refuse_unpinned_code()
        if port and not _is_free(port):
            raise EngineError(
                f"port {port} of {HOST} is taken, so no server of '{self.command.model}' was "
                "started there: end the process at that port or choose another (0: a free one)"
            )
        port = port or free_port()
        self._root = f"http://{HOST}:{port}"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            command = self.command.words_without_keys(port)
            watchdog = self._watchdog = start_watched(command, log, self.grace_s)
        try:
            problem = self._waited(self._root, "", _CHILD_WANTS_KEY, watchdog)
        except BaseException:
            self.stop()
            raise
        if problem:
            self.stop()
            waited = f"was not healthy within {self.start_timeout_s:g} s ({problem})"
            raise EngineError(self._failure(waited))

    def _attached(self) -> str:
        root = self.attach_to.rstrip("/").removesuffix("/v1")
        if not re.match(r"https?://", root):
            raise ConfigError(f"attach_to is '{self.attach_to}'; it must begin with http(s)://")
        key = self.read_key()
        refusal = f"it {'rejects the key of' if key else 'requires a key in'} {self.key_name}"
        if problem := self._waited(root, key, refusal):
            raise EngineError(
                f"no healthy server at {root} within {self.start_timeout_s:g} s ({problem}); start "
                f"one there, for example: {' '.join(self.command.words(self.command.port or 8000))}"
            )
        return root

    def _waited(
        self,
        root: str,
        key: str,
        refusal: str,
        watchdog: "subprocess.Popen[bytes] | None" = None,  # another thread may stop the server
    ) -> str:
        """The problem that is left when the time is over; empty once the server is ready."""
        deadline = time.monotonic() + self.start_timeout_s
        while True:
            # Check first that it lives: another server may answer at the port.
            if watchdog is not None and watchdog.poll() is not None:
                raise EngineError(self._failure(f"ended with status {watchdog.returncode}"))
            problem = server_problem(root, self.command.model, key, refusal=refusal)
            if not problem or time.monotonic() > deadline:
                return problem
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> str:
        return (
            f"the vLLM server of '{self.command.model}' {what}. Its log is {self.log}, "
            f"and ends:\n{tail(self.log)}"
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
    except MALFORMED as error:
        return f"{url} returns no list of models ({type(error).__name__})"
    if name not in served:
        raise EngineError(f"{root} serves {', '.join(served) or 'no model'}, not '{name}'")
    if old := server_version_problem(root, models, get):
        raise EngineError(f"{root}: {old}")
    return ""


def _get_if_there(get: Callable[[str], bytes], url: str) -> None:
    try:
        get(url)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        error.close()


def version_problem(found: str) -> str:
    """Why a version of vLLM is refused; empty where it is not, or where it cannot be compared."""
    try:
        version = Version(found)
    except InvalidVersion:
        return ""
    # A build without its history calls itself 0.1.dev1.
    if version >= Version(MINIMUM) or (version.is_devrelease and version.release == (0, 1)):
        return ""
    return (
        f"vLLM {found} is refused: below {MINIMUM} it may run code of a model's repository without "
        f"being allowed to (CVE-2026-27893, CVE-2026-22807). {install_command('vllm')}"
    )


def installed_version(program: str) -> str:
    """The version of vLLM in the environment of a Python script; empty where it is not known.

    It is read from the environment's list of packages, so nothing of vLLM is imported.
    """
    try:
        with Path(shutil.which(program) or "").open("rb") as script:
            first = script.readline(1_024).decode("utf-8", "replace")
        words = first[2:].split() if first.startswith("#!") else []
        if not any("python" in Path(word).name for word in words):
            return ""
        asked = [*words, "-I", "-c", _VERSION]  # the script's own interpreter
        done = subprocess.run(  # noqa: S603 - as the script itself would start it
            asked, capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def server_version_problem(
    root: str, models: Sequence[Mapping[str, Any]], get: Callable[[str], bytes]
) -> str:
    """Why the server at ``root`` is refused for its version; empty where it is not known.

    ``models`` is its list of models, whose owner says whether it is vLLM; ``get`` fetches a page.
    """
    if not any(model.get("owned_by") == "vllm" for model in models):
        return ""
    try:
        return version_problem(str(json.loads(get(f"{root}/version"))["version"]))
    except urllib.error.HTTPError as error:
        error.close()
    except (EngineError, OSError, *MALFORMED):
        pass
    return ""


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # Ports in TIME_WAIT are free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
