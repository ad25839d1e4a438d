"""A vLLM server as a child process, with a stand-in that speaks its protocol."""

import fcntl
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from resources.vllm_process import ServerCommand, VllmProcess, free_port
from resources.vllm_server import VllmServer

STAND_IN = Path(__file__).with_name("vllm_stand_in.py")
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
    )


def process(held: Path, behaviour: str = "well", timeout_s: float = PATIENCE_S) -> VllmProcess:
    log = held.parent / "logs" / "server.log"
    return VllmProcess(command(held, behaviour), log, start_timeout_s=timeout_s, grace_s=0.5)


def resource(held: Path, **settings: object) -> VllmServer:
    words = command(held)
    defaults: dict[str, object] = {
        "model": "org/tiny",
        "executable": list(words.executable),
        "extra_arguments": list(words.extra),
        "grace_s": 0.5,
        "log_dir": str(held.parent),
    }
    return VllmServer(**{**defaults, **settings})


def read(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own server
        return int(reply.status)


def test_the_command_line_holds_every_setting():
    """Each setting stands on the line once, in vLLM's spelling; unset ones do not."""
    full = ServerCommand(
        model="org/model",
        served_name="short",
        tensor_parallel_size=2,
        max_model_len=4096,
        gpu_memory_utilization=0.8,
        extra=("--dtype", "bfloat16"),
    )
    assert (
        "vllm serve org/model --served-model-name short --host 127.0.0.1 --port 8001 "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.8 --max-model-len 4096 "
        "--dtype bfloat16"
    ).split() == full.words(8001)
    assert "--max-model-len" not in ServerCommand(model="m").words(1)


def test_a_server_is_started_once_and_stopped_with_its_worker(held: Path):
    """Nothing runs before the first URL, one server after it, none after the block."""
    with process(held) as server:
        assert not held_now(held)
        url = server.base_url()
        assert url == server.base_url()
        assert 200 == read(f"{url}/models")
        assert held_now(held)
    assert not held_now(held)
    server.stop()


def test_a_server_that_ignores_sigterm_is_killed(held: Path):
    """After the grace the whole group gets SIGKILL."""
    with process(held, "stubborn") as server:
        server.base_url()
    assert not held_now(held)


@pytest.mark.parametrize(
    ("behaviour", "timeout_s", "said"),
    [
        ("dies", PATIENCE_S, r"(?s)'org/tiny' ended with status 3.*server\.log.*out of memory"),
        ("sick", 1.0, r"(?s)'org/tiny' was not healthy within 1 s.*stand-in starts with serve"),
        ("other", PATIENCE_S, "serves another, not 'org/tiny'"),
    ],
)
def test_a_server_that_does_not_come_up_is_explained(
    held: Path, behaviour: str, timeout_s: float, said: str
):
    """Death, sickness and a wrong model each say what happened, and leave nothing running."""
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
        with pytest.raises(EngineError, match="has died"):
            server.base_url()


def test_an_executable_that_is_not_there_is_an_install_command(tmp_path: Path):
    """The error names the program and how to get it."""
    absent = ServerCommand(model="m", executable=("no-such-vllm", "serve"))
    with pytest.raises(EngineMissing, match="'no-such-vllm' is not installed: pip install vllm"):
        VllmProcess(absent, tmp_path / "log").base_url()


# Dagster warns of itself wherever one resource stands in another.
OWN_WARNING = pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run")

STARTER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_vllm_server import process
server = process(Path({held!r}), {behaviour!r})
print(server.base_url(), server._watchdog.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("behaviour", "victim"), [("well", "starter"), ("stubborn", "starter"), ("well", "watchdog")]
)
def test_nothing_outlives_a_killed_starter(held: Path, behaviour: str, victim: str):
    """After kill -9 of the process that started it a server ends, polite or not.

    After kill -9 of the watchdog a polite one does, where the system can tell it.
    """
    if victim == "watchdog" and not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells a process that its parent was killed")
    program = STARTER.format(tests=str(STAND_IN.parent), held=str(held), behaviour=behaviour)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        url, watchdog = starter.stdout.readline().decode().split()
        assert 200 == read(f"{url}/models")
        assert held_now(held)
        os.kill(starter.pid if victim == "starter" else int(watchdog), signal.SIGKILL)
        ended = gone(held)
        starter.kill()
    assert ended


def test_a_key_in_the_environment_is_not_the_childs(held: Path):
    """The key of a server elsewhere does not lock the one that is started here."""
    program = STARTER.format(tests=str(STAND_IN.parent), held=str(held), behaviour="well")
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"VLLM_API_KEY": "of another server"},
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline().startswith(b"http://127.0.0.1:")
        starter.kill()
    assert gone(held)


def run(server: VllmServer, *, fail: bool) -> list[str]:
    """One asset run with the server inside another resource; the URLs the asset saw."""
    seen = []

    class Engine(dg.ConfigurableResource):
        server: dg.ResourceDependency[VllmServer]

    @dg.asset(pool="gpu")
    def scores(engine: Engine) -> None:
        seen.append(engine.server.base_url())
        assert 200 == read(f"{seen[-1]}/models")
        if fail:
            raise RuntimeError("the step fails")

    resources = {"engine": Engine(server=server)}
    done = dg.materialize([scores], resources=resources, raise_on_error=False)
    assert done.success is not fail
    return seen


@OWN_WARNING
@pytest.mark.parametrize("fail", [False, True])
def test_a_run_stops_the_server_it_started(held: Path, fail: bool):  # noqa: FBT001 - a case
    """The resource is up within the step and down after the run, failed or not."""
    assert 1 == len(run(resource(held), fail=fail))
    assert not held_now(held)


@OWN_WARNING
def test_a_run_leaves_a_server_alone_that_it_attached_to(held: Path):
    """Attached to by URL, with or without ``/v1``, a server outlives the run."""
    with process(held) as server:
        url = server.base_url()
        for given in (url, url.removesuffix("/v1")):
            assert [url] == run(resource(held, attach_to=given), fail=False)
        assert held_now(held)


def test_attaching_explains_what_is_wrong(held: Path):
    """No server, another model and no URL are three errors; the first says what to start."""
    nowhere = resource(held, attach_to=f"http://127.0.0.1:{free_port()}", start_timeout_s=0.5)
    with pytest.raises(EngineError, match=r"within 0\.5 s; start one there.*serve org/tiny"):
        nowhere.base_url()
    with process(held) as server:
        other = resource(held, attach_to=server.base_url(), model="org/large")
        with pytest.raises(EngineError, match="serves org/tiny, not 'org/large'"):
            other.base_url()
    with pytest.raises(ConfigError, match="must begin with http"):
        resource(held, attach_to="127.0.0.1:8000").base_url()


def test_the_key_of_a_running_server_is_not_shown(held: Path):
    """Neither the resource's text nor an error has the key in it."""
    keyed = resource(
        held,
        attach_to=f"http://127.0.0.1:{free_port()}",
        api_key="sk-hidden-7391",
        start_timeout_s=0.1,
    )
    assert "7391" not in repr(keyed)
    with pytest.raises(EngineError) as caught:
        keyed.base_url()
    assert "7391" not in str(caught.value)
