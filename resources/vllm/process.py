"""A vLLM server as a child process.

``SharedServer`` gives the base URL of a server that is healthy and lists the model. ``stop`` ends
it and its workers, and so does the watchdog of ``resources.process`` where the starter is killed;
if the watchdog is killed, too, Linux sends the server SIGTERM. Not guaranteed: workers that leave
the server's process group. A server that dies is not restarted.

It listens on loopback without a key, so key variables are removed from its environment. Below
``MINIMUM`` two faults of vLLM run code of a model's repository although that was not allowed: a
program is asked for its version before it loads a model, through the interpreter in its first line,
a server by its page.
"""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.extras import install_command
from resources.chat.connection import NoAnswer, fetched
from resources.process.child import end_watched, start_watched

HOST, MINIMUM = "127.0.0.1", "0.22"
KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY", "DECOMPOSERL_VERIFIER_KEY")
"""Never passed on: vLLM would require the first; the others belong to other servers."""
Parsed = TypeVar("Parsed")
Model = Mapping[str, Any]
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_WITH_VALUE, _REMOTE_CODE = {"-u", "--unset", "-C", "--chdir"}, "--trust-remote-code"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OF_ENV = re.compile(r"-|[A-Za-z_]\w*=")
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_POLL_S, _ANSWER_S, _VERSION_S = 0.2, 10.0, 20.0
_TAIL_BYTES, _TAIL_LINES = 8_192, 20


def program_of(words: Sequence[str]) -> str:
    """The program of a command: the word after ``env`` and its options and assignments."""
    rest = list(words)
    while rest and (rest[0].rpartition("/")[2] == "env" or _OF_ENV.match(rest[0])):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return rest[0] if rest else ""


@dataclass(frozen=True)
class ServerCommand:
    """How the server of a model is started.

    ``words`` are all of its command line but host and port; ``revision`` is that of the weights in
    it. ``withheld`` are variables that are removed from its environment besides ``KEYS``. ``log``
    receives its output; the first start may include a download.
    """

    model: str
    words: tuple[str, ...]
    log: Path
    revision: str = ""
    withheld: tuple[str, ...] = ()
    start_timeout_s: float = 900
    grace_s: float = 30

    def refuse_untrusted(self) -> None:
        """Refuse what must not be started: ``EngineMissing`` where there is no such program.

        ``EngineError``: its vLLM is too old. ``ConfigError``: it would run a repository's code,
        which may have changed since it was read.
        """
        program = program_of(self.words)
        if shutil.which(program) is None:
            raise EngineMissing(
                f"'{program}' is not installed: give a running server's URL, name another "
                f"environment's vllm as the executable, or\n{install_command('vllm')}"
            )
        if old := version_problem(installed_version(program)):
            raise EngineError(f"'{program}': {old}")
        trusted = any(word.replace("_", "-").startswith(_REMOTE_CODE) for word in self.words)
        if trusted and not _COMMIT.fullmatch(self.revision) and not Path(self.model).is_dir():
            raise ConfigError(
                f"a server of {self.model} would run code of its repository ({_REMOTE_CODE}) at no "
                "fixed commit: set `models_lock`, or `revision` to a full commit"
            )

    def failure(self, what: str) -> EngineError:
        """What happened to the server, with the end of its log."""
        log = f"Its log is {self.log}, and ends:\n{tail(self.log)}"
        return EngineError(f"the vLLM server of '{self.model}' {what}. {log}")


class SharedServer:
    """The one server that a resource runs, kept from asset to asset until ``stop``.

    An engine is opened once per asset, and each would start a server of its own while the first
    still holds the memory of its card.
    """

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._command: ServerCommand | None = None
        self._failed: tuple[ServerCommand, EngineError] | None = None
        self._root, self._stops = "", 0
        # The first is held while a server starts, the second while it is born: a thread that stops
        # it must not wait for the start, nor look just before the birth.
        self._starting, self._birth = threading.Lock(), threading.Lock()

    def url(self, command: ServerCommand) -> str:
        """The URL, ending in ``/v1``, of a server with these words, the one that runs or a new one.

        A server with other words is stopped first, and one that died is replaced. A ``command``
        that failed is not tried again: the threads that waited for it get its error, and the next
        asset tries with a command of its own.

        Raises:
            ConfigError, EngineMissing: as ``ServerCommand.refuse_untrusted``.
            EngineError: its vLLM is too old, it died, was stopped, was not healthy in time, wants a
                key or serves another model; the message ends with its log.
        """
        with self._starting:
            if self._failed is not None and self._failed[0] is command:
                raise self._failed[1]
            started = self._command is not None and self._command.words == command.words
            if not (started and self.running):
                try:
                    self._start(command)
                except EngineError as error:
                    self._failed = command, error
                    raise
            return f"{self._root}/v1"

    @property
    def running(self) -> bool:
        """Whether one was started and has not ended."""
        watchdog = self._watchdog
        return watchdog is not None and watchdog.poll() is None

    def stop(self) -> None:
        """End the server and its workers, if one was started, also one that is starting."""
        with self._birth:
            self._stops += 1
            watchdog, command, self._watchdog = self._watchdog, self._command, None
        if watchdog is not None and command is not None:
            end_watched(watchdog, command.grace_s)

    def _start(self, command: ServerCommand) -> None:
        stops = self._stops + 1
        self.stop()
        command.refuse_untrusted()
        from dagster import get_dagster_logger  # slow to import, and settings need this module

        get_dagster_logger().info(f"starting a server of {command.model}; its log is {command.log}")
        port, hidden = free_port(), dict.fromkeys((*KEYS, *command.withheld))
        words = ["env", *(word for name in hidden for word in ("-u", name)), *command.words]
        words += ["--host", HOST, "--port", str(port)]
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with self._birth, command.log.open("wb") as log:
            if self._stops != stops:
                raise EngineError(f"the vLLM server of '{command.model}' was stopped at its start")
            self._command, self._root = command, f"http://{HOST}:{port}"
            self._watchdog = watchdog = start_watched(words, log, command.grace_s)
        deadline = time.monotonic() + command.start_timeout_s
        try:
            while not self._ready(command, watchdog, deadline):
                time.sleep(_POLL_S)
        except BaseException:
            self.stop()
            raise

    def _ready(
        self, command: ServerCommand, watchdog: "subprocess.Popen[bytes]", deadline: float
    ) -> bool:
        """Whether the server is ready; an error where waiting does not help."""
        # Check first that it lives: another server may answer at the port.
        if watchdog.poll() is not None:
            raise command.failure(f"ended with status {watchdog.returncode}")
        try:
            answer(f"{self._root}/health", bytes)
            models = models_at(f"{self._root}/v1")
        except NoAnswer as error:
            if error.refused:
                why = "the environment or the arguments of this vLLM server make it require a key"
                raise EngineError(f"{error}: {why}") from error
            if time.monotonic() > deadline:
                waited = f"was not healthy within {command.start_timeout_s:g} s ({error})"
                raise command.failure(waited) from error
            return False
        names = [str(listed["id"]) for listed in models]
        if command.model not in names:
            served = ", ".join(names) or "no model"
            raise EngineError(f"{self._root} serves {served}, not '{command.model}'")
        if old := server_version_problem(self._root, models):
            raise EngineError(f"{self._root}: {old}")
        return True


def answer(
    url: str,
    parse: Callable[[bytes], Parsed],
    key: str = "",
    timeout_s: float = _ANSWER_S,
    body: object = None,
) -> Parsed:
    """What a server answers to a GET, or to a POST of ``body`` as JSON.

    ``NoAnswer`` as for ``fetched``, and where ``parse`` cannot read what it says.
    """
    try:
        return parse(fetched(url, key, timeout_s, body))
    except NoAnswer as error:
        raise NoAnswer(f"{url} {error}", error.status) from error
    except _MALFORMED as error:
        raise NoAnswer(f"{url} answers what cannot be read ({type(error).__name__})") from error


def models_at(url: str, key: str = "") -> list[Model]:
    """The models that ``url`` (ending in ``/v1``) lists; each has at least an ``id``."""

    def parse(body: bytes) -> list[Model]:
        return [{"id": model["id"], **model} for model in json.loads(body)["data"]]

    return answer(f"{url}/models", parse, key)


def server_version_problem(root: str, models: Sequence[Model], key: str = "") -> str:
    """Why the server at ``root`` is refused for its version; empty where it is not known.

    ``models`` is its list of models, whose owner says whether it is vLLM.
    """
    if not any(model.get("owned_by") == "vllm" for model in models):
        return ""
    with contextlib.suppress(EngineError):
        said = answer(f"{root}/version", lambda body: str(json.loads(body)["version"]), key)
        return version_problem(said)
    return ""


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
    """The version of vLLM beside a Python script, without importing it; empty where not known."""
    try:
        with Path(shutil.which(program) or "").open("rb") as script:
            first = script.readline(1_024).decode("utf-8", "replace")
        words = first[2:].split() if first.startswith("#!") else []
        if not any("python" in Path(word).name for word in words):
            return ""
        asked, quiet = [*words, "-I", "-c", _VERSION], subprocess.DEVNULL
        # The script's own interpreter, as it would start it.
        said = subprocess.check_output(asked, stderr=quiet, text=True, timeout=_VERSION_S)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.strip()


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
