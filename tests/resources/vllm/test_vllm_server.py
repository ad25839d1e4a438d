"""A vLLM server as a child process, with a stand-in that speaks its protocol.

An old vLLM is refused, and so is a repository's code at no fixed commit.
"""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.endpoint import Endpoint
from decomposerl.errors import DecomposeRLError, EngineError
from decomposerl.extras import install_command
from project import ROOT
from resources.chat.endpoint import config_of
from resources.hub.locks import models_lock
from resources.preflight.probes import vllm_program
from resources.store.stored_ports import StoredVerifier
from resources.verifier.resource import VerifierResource
from resources.vllm.process import (
    MINIMUM,
    ServerCommand,
    SharedServer,
    installed_version,
    program_of,
    version_problem,
)
from resources.vllm.server import ServerFields
from stand_in_server import PATIENCE_S, WORDS, waited_for
from stand_in_server import held as is_held


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """The file that the server and its worker hold; no test leaves one of them behind."""
    path = tmp_path / "held"
    path.touch()
    yield path
    assert gone(path), "a server or its worker outlived the test"


def gone(path: Path) -> bool:
    """Whether server and worker end, given time."""
    return waited_for(lambda: not is_held(path))


def words(held: Path, behaviour: str = "well") -> tuple[str, ...]:
    """What follows the words that start a server."""
    return "--holds", str(held), "--stand-in", behaviour


def command(
    held: Path, behaviour: str = "well", timeout_s: float = PATIENCE_S, version: str = ""
) -> ServerCommand:
    fields = ServerFields(
        vllm=list(WORDS), log_dir=str(held.parent / "logs"), start_timeout_s=timeout_s
    )
    extra = (*words(held, behaviour), *(("--version", version) if version else ()))
    return replace(fields.command_for("org/tiny", "", extra), grace_s=0.5)


@contextmanager
def serving() -> Iterator[SharedServer]:
    """Servers that are stopped at the end of the block."""
    server = SharedServer()
    try:
        yield server
    finally:
        server.stop()


def refusal(command: ServerCommand) -> str:
    """Why it is not served; nothing is left running."""
    with serving() as server:
        with pytest.raises(DecomposeRLError) as refused:
            server.url(command)
        assert not server.running
    return str(refused.value)


def read(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own server
        return int(reply.status)


def test_the_command_line_holds_every_setting():
    """Each setting stands on the line once, in vLLM's spelling; unset ones do not."""
    full = ServerFields(vllm=["vllm", "serve"], cards=2, context=4096, gpu_share=0.8)
    assert (
        "vllm serve org/model --served-model-name org/model "
        "--revision abc --code-revision abc --tokenizer-revision abc "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.8 --max-model-len 4096 "
        "--dtype bfloat16"
    ).split() == [*full.command_for("org/model", "abc", ("--dtype", "bfloat16")).words]
    bare = ServerFields().command_for("m", "").words
    assert not {"--max-model-len", "--revision", "--code-revision"} & set(bare)


def test_the_program_stands_after_env_and_its_words():
    """Assignments and options of ``env`` are no programs; where nothing follows there is none."""
    for words in ("vllm serve", "/usr/bin/env -i -u HOME --unset=X A=b env vllm"):
        assert "vllm" == program_of(words.split())
    assert "/nowhere/vllm" == program_of("env X=1 Y= /nowhere/vllm serve".split())
    assert {""} == {program_of(words) for words in ([], ["env", "X=1"])}


@pytest.mark.parametrize("behaviour", ["well", "stubborn"])
def test_a_server_is_started_once_and_stopped_with_its_worker(held: Path, behaviour: str):
    """Nothing runs before the first URL, one server after it, none after; SIGTERM or not."""
    with serving() as server:
        assert not is_held(held)
        url = server.url(command(held, behaviour))
        assert url == server.url(command(held, behaviour))
        assert 200 == read(f"{url}/models")
        assert is_held(held)
    assert not is_held(held)
    server.stop()


@pytest.mark.parametrize(
    ("behaviour", "timeout_s", "said"),
    [
        ("dies", PATIENCE_S, r"(?s)'org/tiny' .*status 3.*org_tiny\.log.*out of memory"),
        ("sick", 1.0, r"(?s)'org/tiny' .*within 1 s.*status 503.*stand-in starts with serve"),
        ("other", PATIENCE_S, "another, not 'org/tiny'"),
        ("locked", PATIENCE_S, "401.*require a key"),
    ],
)
def test_a_server_that_does_not_come_up_is_explained(
    held: Path, behaviour: str, timeout_s: float, said: str
):
    """Death, sickness, a wrong model and a lock say what happened, and leave nothing running."""
    assert re.search(said, refusal(command(held, behaviour, timeout_s)))
    assert not is_held(held)


@contextmanager
def verifier(held: Path, behaviour: str = "well", **endpoint: object) -> Iterator[StoredVerifier]:
    """A verifier over a stand-in, whose results, locks and logs lie beside ``held``."""
    model = {"model": "org/tiny", "deadline_s": 3.0, **endpoint}
    resource = VerifierResource(
        results_dir=str(held.parent / "results"),
        models_lock=models_lock(held.parent),
        engine="minicheck_hosted",
        batch_size=1,
        endpoint=config_of(Endpoint.model_validate(model)),
        vllm=list(WORDS),
        vllm_arguments=list(words(held, behaviour)),
        allow_own_prompt=True,
        log_dir=str(held.parent / "logs"),
    )
    try:
        yield resource.open()
    finally:
        resource.close()


PAIRS = [(f"It rained on day {day}.", "It rained.") for day in range(4)]


def test_an_answer_of_a_server_that_dies_at_work_is_kept(held: Path):
    """The stage ends with an error, and the next run asks for the rest."""
    lost = pytest.raises(EngineError, match=r"answers no request|got no answer")
    with verifier(held, "mortal") as mortal, lost:
        mortal.support_probability(PAIRS)
    with verifier(held) as well:
        assert [pytest.approx(0.904837)] * 4 == well.support_probability(PAIRS).tolist()
        assert (3, 1) == (well.calls, well.hits)


def test_an_executable_that_is_not_there_is_an_install_command():
    """The error names the program, and ends with a command that can be copied."""
    missing = refusal(ServerFields(vllm=["no-such-vllm", "serve"]).command_for("m", ""))
    assert "'no-such-vllm'" in missing
    assert install_command("vllm") == missing.splitlines()[-1]


STARTER = """
import sys, time
from dataclasses import replace
from resources.vllm.process import SharedServer
from resources.vllm.server import ServerFields
logs, *words = sys.argv[1:]
fields = ServerFields(vllm=words[:3], log_dir=logs, withheld=["MY_OWN_KEY"])
server = SharedServer()
url = server.url(replace(fields.command_for("org/tiny", "", words[3:]), grace_s=0.5))
print(url, server._watchdog.pid, flush=True)
time.sleep(600)
"""


def started(held: Path, behaviour: str = "well", **names: str) -> "subprocess.Popen[bytes]":
    """Another process that has started a server, with these variables in its environment."""
    own = [str(held.parent), *WORDS, *words(held, behaviour)]
    line = [sys.executable, "-c", STARTER, *own]
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
        assert is_held(held)
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
    log = (held.parent / "org_tiny.log").read_text()
    (line,) = [one for one in log.splitlines() if one.startswith("environment: ")]
    assert {"HF_TOKEN", "KEYBOARD", "PATH"} <= set(line.split())
    assert not set(line.split()) & set(keys)


# Versions, and code of repositories


COMMIT = "c" * 40
CODE = "--trust-remote-code"


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
    fields = ServerFields(vllm=[old, "serve"], log_dir=str(tmp_path / "logs"))
    assert "vllm': vLLM 0.20.1" in refusal(fields.command_for("org/tiny", ""))
    assert not (tmp_path / "logs").exists()
    found = vllm_program(old, "install another")
    assert ("missing", "install another") == (found.state, found.fix)
    assert "CVE-2026-22807" in found.said
    for says in ("exit 1", "echo"):
        assert "" == installed_version(script(tmp_path, says))
    assert "ok" == vllm_program(script(tmp_path, "echo 0.31.0"), "").state
    assert "" == installed_version(sys.executable)
    assert "" == installed_version("no-such-program")


def test_a_server_that_is_stopped_just_before_its_birth_is_not_started(tmp_path: Path):
    """Its start is held back where its program is asked for its version."""
    asked, go = tmp_path / "asked", tmp_path / "go"
    says = f"touch {asked}; until [ -e {go} ]; do sleep 0.02; done; echo 0.31.0"
    fields = ServerFields(vllm=[script(tmp_path, says), "serve"], log_dir=str(tmp_path / "logs"))
    with serving() as server, ThreadPoolExecutor(1) as other:
        started = other.submit(server.url, fields.command_for("org/tiny", ""))
        waited_for(asked.exists)
        server.stop()
        go.touch()
        assert isinstance(started.exception(PATIENCE_S), EngineError)
        assert "was stopped" in str(started.exception())
        assert not server.running


def test_a_started_server_that_is_old_is_stopped(held: Path):
    """What its program did not tell, its page does; a new one serves."""
    old = command(held, version="0.21.0")
    with serving() as server:
        for _ in range(2):  # threads that waited get the same error
            with pytest.raises(EngineError, match=r"vLLM 0\.21\.0"):
                server.url(old)
            assert not server.running
        assert server.url(command(held, version="0.22.1")).endswith("/v1")


def test_code_of_a_repository_runs_only_at_a_commit(held: Path):
    """Not at a branch or at none; a folder's own code is the person's."""
    fields = ServerFields(vllm=list(WORDS), log_dir=str(held.parent / "logs"))
    for flag in ("--trust_remote_code", f"{CODE}=true", CODE):
        for revision in ("", "main", "abc123"):
            assert "models_lock" in refusal(fields.command_for("org/m", revision, [flag]))
        fields.command_for("org/m", COMMIT, [flag]).refuse_untrusted()
        fields.command_for(str(held.parent), "", [flag]).refuse_untrusted()
    assert not (held.parent / "logs").exists()


def test_the_verifiers_server_loads_the_locked_commit(held: Path):
    """On its command line three times, and in the name that its answers are stored under."""
    Path(models_lock(held.parent)).write_text(f'"org/tiny" = "{COMMIT}"\n')
    with verifier(held) as locked:
        assert f"chat:org/tiny@{COMMIT} " in locked.engine
        assert (1,) == locked.support_probability(PAIRS[:1]).shape
    (log,) = (held.parent / "logs").iterdir()
    started = log.read_text()
    for option in ("--revision", "--code-revision", "--tokenizer-revision"):
        assert f"{option} {COMMIT}" in started
    with verifier(held, base_url=("http://127.0.0.1:1/v1",)) as named:
        assert "@" not in named.engine.split(" ")[0]  # what is served there is not known
