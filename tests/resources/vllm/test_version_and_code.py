"""An old vLLM is refused, and so is a repository's code at no fixed commit."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from decomposerl.errors import ConfigError, EngineError
from project import ROOT, SUPPORT
from resources.hub.locks import models_lock
from resources.preflight.probes import vllm_program
from resources.preflight.servers import endpoint
from resources.verifier.resource import VerifierResource
from resources.vllm.command import ServerCommand
from resources.vllm.process import VllmProcess, free_port
from resources.vllm.server import VllmServer
from resources.vllm.version import MINIMUM, installed_version, version_problem

STAND_IN = (sys.executable, str(SUPPORT / "vllm_stand_in.py"), "serve")
COMMIT = "c" * 40
CODE = "--trust-remote-code"
PAIR = ("It rained on Monday.", "It rained.")


def process(folder: Path, version: str) -> VllmProcess:
    extra = ("--holds", str(folder / "held"), "--version", version)
    command = ServerCommand("org/tiny", executable=STAND_IN, extra=extra)
    return VllmProcess(command, folder / "server.log", start_timeout_s=60, grace_s=0.5)


@contextmanager
def running(folder: Path, version: str) -> Iterator[str]:
    """A server that somebody else has started; its URL."""
    port = free_port()
    words = ServerCommand("org/tiny", executable=STAND_IN).words(port)
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
    """Builds that do not know their version cannot be compared and are not refused.

    ``pyproject.toml`` installs no vLLM that is refused.
    """
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
    server = VllmServer(model="org/tiny", executable=[old, "serve"], log_dir=str(tmp_path / "logs"))
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
    with process(tmp_path, "0.21.0") as old, pytest.raises(EngineError, match=r"vLLM 0\.21\.0"):
        old.base_url()
    assert not old.running
    with process(tmp_path, "0.22.1") as new:
        assert new.base_url().endswith("/v1")


def test_a_running_server_that_is_old_is_refused(tmp_path: Path):
    """When it is attached to, and by the doctor at any endpoint."""
    with running(tmp_path, "0.21.0") as url:
        attached = VllmServer(model="org/tiny", attach_to=url, start_timeout_s=60)
        with pytest.raises(EngineError, match=r"vLLM 0\.21\.0"):
            attached.base_url()
        looked = endpoint(f"{url}/v1", "org/tiny", SecretStr(""), "update it")
        assert ("missing", "update it") == (looked.state, looked.fix)
        assert "vLLM 0.21.0" in looked.said


@pytest.mark.parametrize("flag", [CODE, "--trust_remote_code", f"{CODE}=true"])
def test_code_of_a_repository_runs_only_at_a_commit(tmp_path: Path, flag: str):
    """Not at a branch or at none; a folder's own code is the person's."""
    for revision in ("", "main", "abc123"):
        command = ServerCommand("org/m", executable=STAND_IN, revision=revision, extra=(flag,))
        server = VllmProcess(command, tmp_path / "server.log")
        with pytest.raises(ConfigError, match="models_lock"):
            server.base_url()
        assert not (tmp_path / "server.log").exists()
    for fine in (
        ServerCommand("org/m", revision=COMMIT, extra=(flag,)),
        ServerCommand(str(tmp_path), extra=(flag,)),
        ServerCommand("org/m"),
    ):
        fine.refuse_unpinned_code()


def verifier(folder: Path, **changes: object) -> VerifierResource:
    fields: dict[str, object] = {
        "results_dir": str(folder / "engine_results"),
        "models_lock": models_lock(folder),
        "engine": "minicheck_hosted",
        "model": "org/no-such-model",
        "vllm": list(STAND_IN),
        "vllm_arguments": ["--holds", str(folder / "held")],
        "allow_own_prompt": True,
        "log_dir": str(folder / "logs"),
    }
    return VerifierResource(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_verifiers_server_loads_the_locked_commit(tmp_path: Path):
    """On its command line three times, and in the name that its answers are stored under."""
    Path(models_lock(tmp_path)).write_text(f'"org/no-such-model" = "{COMMIT}"\n')
    locked = verifier(tmp_path)
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
    attached = verifier(tmp_path, base_url="http://127.0.0.1:1/v1").open()
    assert "@" not in attached.engine.split(" ")[0]  # what is served there is not known


def test_a_verifier_that_runs_code_needs_a_commit_before_anything_starts(tmp_path: Path):
    """Opening sends no request; the first use names the model and the command."""
    port = verifier(tmp_path, vllm_arguments=[CODE]).open()
    with pytest.raises(EngineError, match="org/no-such-model"):
        port.support_probability([PAIR])
    assert not (tmp_path / "logs").exists()
