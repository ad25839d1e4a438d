"""A vLLM server as a child process, with a stand-in that speaks its protocol.

An old vLLM is refused, and so is a repository's code at no fixed commit.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from project import ROOT, SUPPORT
from resources.chat.endpoint import config_of
from resources.hub.locks import models_lock
from resources.preflight.probes import vllm_program
from resources.preflight.servers import endpoint
from resources.verifier.resource import VerifierResource
from resources.vllm.process import (
    MINIMUM,
    ServerCommand,
    VllmServer,
    free_port,
    installed_version,
    program_of,
    version_problem,
)

STAND_IN = SUPPORT / "vllm_stand_in.py"
PATIENCE_S = 60.0


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """The file that the server and its worker hold; no test leaves one of them behind."""
    path = tmp_path / "held"
    path.touch()
    yield path
    assert gone(path), "a server or its worker outlived the test"


def held_now(path: Path) -> bool:
    with path.open("a") as mine:
        try:
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def gone(path: Path) -> bool:
    """Whether server and worker end, given time."""
    deadline = time.monotonic() + PATIENCE_S
    while held_now(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not held_now(path)


def command(held: Path, behaviour: str = "well", model: str = "org/tiny") -> ServerCommand:
    return ServerCommand(
        model=model,
        executable=(sys.executable, str(STAND_IN), "serve"),
        extra=("--holds", str(held), "--stand-in", behaviour),
        withheld=("MY_OWN_KEY",),
    )


def process(
    held: Path,
    behaviour: str = "well",
    timeout_s: float = PATIENCE_S,
    model: str = "org/tiny",
    **attaching: Any,  # noqa: ANN401 - of a server
) -> VllmServer:
    log = held.parent / "logs" / "server.log"
    return VllmServer(command(held, behaviour, model), log, timeout_s, 0.5, **attaching)


def read(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own server
        return int(reply.status)


def test_the_command_line_holds_every_setting():
    """Each setting stands on the line once, in vLLM's spelling; unset ones do not."""
    full = ServerCommand(
        model="org/model",
        revision="abc",
        cards=2,
        context=4096,
        gpu_share=0.8,
        extra=("--dtype", "bfloat16"),
    )
    assert (
        "vllm serve org/model --served-model-name org/model --host 127.0.0.1 --port 8001 "
        "--revision abc --code-revision abc --tokenizer-revision abc "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.8 --max-model-len 4096 "
        "--dtype bfloat16"
    ).split() == full.words(8001)
    bare = ServerCommand(model="m").words(1)
    assert not {"--max-model-len", "--revision", "--code-revision"} & set(bare)


PROGRAMS = {
    "vllm serve": "vllm",
    "env X=1 Y= /nowhere/vllm serve": "/nowhere/vllm",
    "/usr/bin/env -i -u HOME --unset=X A=b env vllm": "vllm",
    "env X=1": "",
    "": "",
}


def test_the_program_stands_after_env_and_its_words():
    """Assignments and options of ``env`` are no programs; where nothing follows there is none."""
    assert PROGRAMS == {words: program_of(words.split()) for words in PROGRAMS}


@pytest.mark.parametrize("behaviour", ["well", "stubborn"])
def test_a_server_is_started_once_and_stopped_with_its_worker(held: Path, behaviour: str):
    """Nothing runs before the first URL, one server after it, none after; SIGTERM or not."""
    with process(held, behaviour) as server:
        assert not held_now(held)
        url = server.base_url()
        assert url == server.base_url()
        assert 200 == read(f"{url}/models")
        assert held_now(held)
    assert not held_now(held)
    server.stop()


@pytest.mark.parametrize(
    ("behaviour", "timeout_s", "said"),
    [
        ("dies", PATIENCE_S, r"(?s)'org/tiny' .*status 3.*server\.log.*out of memory"),
        ("sick", 1.0, r"(?s)'org/tiny' .*within 1 s.*status 503.*stand-in starts with serve"),
        ("other", PATIENCE_S, "another, not 'org/tiny'"),
        ("locked", PATIENCE_S, "401"),
    ],
)
def test_a_server_that_does_not_come_up_is_explained(
    held: Path, behaviour: str, timeout_s: float, said: str
):
    """Death, sickness, a wrong model and a lock say what happened, and leave nothing running."""
    server = process(held, behaviour, timeout_s)
    with pytest.raises(EngineError, match=said):
        server.base_url()
    assert not held_now(held)


def test_a_server_that_dies_later_is_noticed(held: Path):
    """The next URL asked for is an error with the log, not an address nobody answers at."""
    with process(held) as server:
        server.base_url()
        watchdog = server._watchdog
        assert watchdog is not None
        watchdog.terminate()
        watchdog.wait(PATIENCE_S)
        with pytest.raises(EngineError, match="died"):
            server.base_url()


def test_a_port_that_is_taken_is_refused(held: Path):
    """What already listens there is never taken for the server that was to be started."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} of 127.0.0.1"):
            replace(process(held), command=replace(command(held), port=port)).base_url()
    assert not (held.parent / "logs").exists()


def verifier(held: Path, behaviour: str) -> VerifierResource:
    """A verifier over a stand-in, whose results lie beside ``held``."""
    words = command(held, behaviour)
    return VerifierResource(
        results_dir=str(held.parent / "results"),
        engine="minicheck_hosted",
        batch_size=1,
        endpoint=config_of(Endpoint(model="org/tiny", deadline_s=3.0)),
        vllm=list(words.executable),
        vllm_arguments=list(words.extra),
        allow_own_prompt=True,
    )


PAIRS = [(f"It rained on day {day}.", "It rained.") for day in range(4)]


def test_a_server_that_dies_at_work_tells_its_story(held: Path):
    """The stage's error ends with the server's log; the answer before is kept for the next run."""
    mortal = verifier(held, "mortal")
    try:
        with pytest.raises(EngineError, match=r"(?s)died.*illegal memory access"):
            mortal.open().support_probability(PAIRS)
    finally:
        mortal.close()
    well = verifier(held, "well")
    try:
        port = well.open()
        assert [pytest.approx(0.904837)] * 4 == port.support_probability(PAIRS).tolist()
        assert (3, 1, 1) == (port.calls, port.hits, port.details()["prefix caching"])
    finally:
        well.close()


def test_an_executable_that_is_not_there_is_an_install_command(tmp_path: Path):
    """The error names the program and how to get it."""
    absent = ServerCommand(model="m", executable=("no-such-vllm", "serve"))
    with pytest.raises(EngineMissing, match=r"'no-such-vllm' .*\.\[gpu\]"):
        VllmServer(absent, tmp_path / "log").base_url()


STARTER = """
import sys, time
from pathlib import Path
from resources.vllm.process import ServerCommand, VllmServer
log, *words = sys.argv[1:]
command = ServerCommand("org/tiny", executable=words[:3], extra=words[3:], withheld=("MY_OWN_KEY",))
server = VllmServer(command, Path(log), start_timeout_s=60, grace_s=0.5)
print(server.base_url(), server._watchdog.pid, flush=True)
time.sleep(600)
"""


def started(held: Path, behaviour: str = "well", **names: str) -> "subprocess.Popen[bytes]":
    """Another process that has started a server, with these variables in its environment."""
    words = [*command(held).executable, *command(held, behaviour).extra]
    line = [sys.executable, "-c", STARTER, str(held.parent / "server.log"), *words]
    return subprocess.Popen(line, cwd=ROOT, env=os.environ | names, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("behaviour", "victim"), [("well", "starter"), ("stubborn", "starter"), ("well", "watchdog")]
)
def test_nothing_outlives_a_killed_starter(held: Path, behaviour: str, victim: str):
    """After kill -9 of its starter a server ends, polite or not; of the watchdog a polite one."""
    if victim == "watchdog" and not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells a process that its parent was killed")
    with started(held, behaviour) as starter:
        assert starter.stdout is not None
        url, watchdog = starter.stdout.readline().decode().split()
        assert 200 == read(f"{url}/models")
        assert held_now(held)
        os.kill(starter.pid if victim == "starter" else int(watchdog), signal.SIGKILL)
        ended = gone(held)
        starter.kill()
    assert ended


def test_keys_in_the_environment_are_not_the_childs(held: Path):
    """Keys of servers elsewhere stay with the starter; a token for the hub and the rest go on."""
    keys = ("VLLM_API_KEY", "OPENAI_API_KEY", "DECOMPOSERL_VERIFIER_KEY", "MY_OWN_KEY")
    names = dict.fromkeys((*keys, "HF_TOKEN", "KEYBOARD"), "of another server")
    with started(held, **names) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline().startswith(b"http://127.0.0.1:")
        starter.kill()
    assert gone(held)
    log = (held.parent / "server.log").read_text()
    (line,) = [one for one in log.splitlines() if one.startswith("environment: ")]
    assert {"HF_TOKEN", "KEYBOARD", "PATH"} <= set(line.split())
    assert not set(line.split()) & set(keys)


@pytest.mark.parametrize("said", ["", "the step fails"])
def test_leaving_the_block_stops_the_server_that_was_started_alone(held: Path, said: str):
    """Up within it and down after it, failed or not; one attached to by URL stays."""
    with pytest.raises(RuntimeError) if said else nullcontext(), process(held) as server:
        url = server.base_url()
        for given in (url, url.removesuffix("/v1")):
            with process(held, attach_to=given) as attached:
                assert url == attached.base_url()
            assert held_now(held)
        if said:
            raise RuntimeError(said)
    assert not held_now(held)


def test_attaching_explains_what_is_wrong(held: Path):
    """No server, another model and no URL are three errors; the first says what to start."""
    nowhere = process(held, timeout_s=0.5, attach_to=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EngineError, match=r"0\.5 s .*serve org/tiny"):
        nowhere.base_url()
    with process(held) as server:
        other = process(held, attach_to=server.base_url(), model="org/large")
        with pytest.raises(EngineError, match="org/tiny, not 'org/large'"):
            other.base_url()
    with pytest.raises(ConfigError, match="http"):
        process(held, attach_to="127.0.0.1:8000").base_url()


@pytest.mark.parametrize("key", ["", "sk-hidden-7391"])
def test_a_running_server_that_wants_another_key_is_told_at_once(held: Path, key: str):
    """The error names the variable; no error and no text of the resource has the key."""
    port = free_port()
    keyed = {"read_key": lambda: key, "key_name": "DECOMPOSERL_VERIFIER_KEY"}
    at = {"attach_to": f"http://127.0.0.1:{port}", **keyed}
    with pytest.raises(EngineError) as absent:
        process(held, timeout_s=0.1, **at).base_url()
    attached = process(held, **at)
    with subprocess.Popen(command(held, "locked").words(port)) as other:
        said = f"401: it {'rejects' if key else 'requires'} .*DECOMPOSERL_VERIFIER_KEY"
        with pytest.raises(EngineError, match=said) as caught:
            attached.base_url()
        other.terminate()
    assert "7391" not in f"{absent.value}{caught.value}{attached!r}"


# Versions, and code of repositories


WORDS = (sys.executable, str(STAND_IN), "serve")
COMMIT = "c" * 40
CODE = "--trust-remote-code"
PAIR = ("It rained on Monday.", "It rained.")


def versioned(folder: Path, version: str) -> VllmServer:
    extra = ("--holds", str(folder / "held"), "--version", version)
    command = ServerCommand("org/tiny", executable=WORDS, extra=extra)
    return VllmServer(command, folder / "server.log", start_timeout_s=60, grace_s=0.5)


@contextmanager
def running(folder: Path, version: str) -> Iterator[str]:
    """A server that somebody else has started; its URL."""
    port = free_port()
    words = ServerCommand("org/tiny", executable=WORDS).words(port)
    own = ["--holds", str(folder / "held"), "--version", version]
    with subprocess.Popen([*words, *own], stdout=subprocess.DEVNULL) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def script(folder: Path, says: str) -> str:
    """A program as pip installs it, whose interpreter prints ``says`` as the version of vLLM."""
    interpreter = folder / "python3-fake"
    interpreter.write_text(f"#!/bin/sh\n{says}\n")
    program = folder / "vllm"
    program.write_text(f"#!{interpreter}\nraise SystemExit\n")
    for file in (interpreter, program):
        file.chmod(0o755)
    return str(program)


def test_what_is_below_the_least_version_is_refused():
    """Builds without a version are not; ``pyproject.toml`` installs none that is refused."""
    for version in ("0.11.2", "0.21.9+cpu", "0.22.0rc1"):
        said = version_problem(version)
        assert f"vLLM {version} " in said
        assert "CVE-2026-27893, CVE-2026-22807" in said
    for version in ("0.22.0", "0.31.0+cu129", "0.1.dev1+gabcdef", "dev", ""):
        assert not version_problem(version), version
    assert f'"vllm>={MINIMUM},<=0.31"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_a_program_is_asked_before_it_starts_a_server(tmp_path: Path):
    """The version comes from its interpreter; a binary or another script tells none."""
    old = script(tmp_path, "echo 0.20.1")
    assert "0.20.1" == installed_version(old)
    command = ServerCommand("org/tiny", executable=(old, "serve"))
    server = VllmServer(command, tmp_path / "logs/server.log")
    with pytest.raises(EngineError, match=r"vllm': vLLM 0\.20\.1"):
        server.base_url()
    assert not (tmp_path / "logs").exists()
    found = vllm_program(old, "install another")
    assert ("missing", "install another") == (found.state, found.fix)
    assert "CVE-2026-22807" in found.said
    for says in ("exit 1", "echo"):
        assert "" == installed_version(script(tmp_path, says))
    assert "ok" == vllm_program(script(tmp_path, "echo 0.31.0"), "").state
    assert "" == installed_version(sys.executable)
    assert "" == installed_version("no-such-program")


def test_a_started_server_that_is_old_is_stopped(tmp_path: Path):
    """What its program did not tell, its page does; a new one serves."""
    with versioned(tmp_path, "0.21.0") as old, pytest.raises(EngineError, match=r"vLLM 0\.21\.0"):
        old.base_url()
    assert not old.running
    with versioned(tmp_path, "0.22.1") as new:
        assert new.base_url().endswith("/v1")


def test_a_running_server_that_is_old_is_refused(tmp_path: Path):
    """When it is attached to, and by the doctor at any endpoint."""
    with running(tmp_path, "0.21.0") as url:
        attached = VllmServer(ServerCommand("org/tiny"), tmp_path / "log", 60, attach_to=url)
        with pytest.raises(EngineError, match=r"vLLM 0\.21\.0"):
            attached.base_url()
        looked = endpoint(f"{url}/v1", "org/tiny", SecretStr(""), "update it")
        assert ("missing", "update it") == (looked.state, looked.fix)
        assert "vLLM 0.21.0" in looked.said


@pytest.mark.parametrize("flag", [CODE, "--trust_remote_code", f"{CODE}=true"])
def test_code_of_a_repository_runs_only_at_a_commit(tmp_path: Path, flag: str):
    """Not at a branch or at none; a folder's own code is the person's."""
    for revision in ("", "main", "abc123"):
        command = ServerCommand("org/m", executable=WORDS, revision=revision, extra=(flag,))
        server = VllmServer(command, tmp_path / "server.log")
        with pytest.raises(ConfigError, match="models_lock"):
            server.base_url()
        assert not (tmp_path / "server.log").exists()
    for fine in (
        ServerCommand("org/m", revision=COMMIT, extra=(flag,)),
        ServerCommand(str(tmp_path), extra=(flag,)),
        ServerCommand("org/m"),
    ):
        fine.refuse_unpinned_code()


def pinned_verifier(folder: Path, **changes: object) -> VerifierResource:
    fields: dict[str, object] = {
        "results_dir": str(folder / "engine_results"),
        "models_lock": models_lock(folder),
        "engine": "minicheck_hosted",
        "endpoint": config_of(Endpoint(model="org/no-such-model")),
        "vllm": list(WORDS),
        "vllm_arguments": ["--holds", str(folder / "held")],
        "allow_own_prompt": True,
        "log_dir": str(folder / "logs"),
    }
    return VerifierResource(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_verifiers_server_loads_the_locked_commit(tmp_path: Path):
    """On its command line three times, and in the name that its answers are stored under."""
    Path(models_lock(tmp_path)).write_text(f'"org/no-such-model" = "{COMMIT}"\n')
    locked = pinned_verifier(tmp_path)
    try:
        port = locked.open()
        assert f"chat:org/no-such-model@{COMMIT} " in port.engine
        assert (1,) == port.support_probability([PAIR]).shape
    finally:
        locked.close()
    (log,) = (tmp_path / "logs").iterdir()
    started = log.read_text()
    for option in ("--revision", "--code-revision", "--tokenizer-revision"):
        assert f"{option} {COMMIT}" in started
    url = "http://127.0.0.1:1/v1"
    running = config_of(Endpoint(model="org/no-such-model", base_url=(url,)))
    attached = pinned_verifier(tmp_path, endpoint=running).open()
    assert "@" not in attached.engine.split(" ")[0]  # what is served there is not known


def test_a_verifier_that_runs_code_needs_a_commit_before_anything_starts(tmp_path: Path):
    """Opening sends no request; the first use names the model and the command."""
    port = pinned_verifier(tmp_path, vllm_arguments=[CODE]).open()
    with pytest.raises(EngineError, match="org/no-such-model"):
        port.support_probability([PAIR])
    assert not (tmp_path / "logs").exists()
