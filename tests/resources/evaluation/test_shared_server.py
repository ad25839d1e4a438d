"""A run's test sets share one server, which ends with the run, on a card that holds no second."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluation_graph import claim_row, materialize
from evaluation_runs import frame_of_claims
from project import PYTHONPATH, ROOT
from resources.chat.endpoint import EndpointConfig
from resources.evaluation.model import EvaluationModelResource
from resources.store.parquet import DataFolder, write_parquet
from resources.verifier.resource import VerifierResource
from resources.vllm.process import ServerCommand, SharedServer
from resources.vllm.server import ServerFields
from stand_in_server import PATIENCE_S, WORDS, held, waited_for

OPEN, MINICHECK = "simple-qwen2.5-7b-faithful", "minicheck-7b"
NAMES = ("fever", "wice")
CHILD = """
import sys
from pathlib import Path
from evaluation_graph import materialize
from test_shared_server import OPEN, engines
folder = Path(sys.argv[1])
materialize(folder, OPEN, engines=engines(folder, sys.argv[2]))
"""


def words(folder: Path, behaviour: str = "well") -> list[str]:
    """What starts a server; all of a folder share one card."""
    return [*WORDS, "--holds", str(folder / "held"), "--stand-in", behaviour]


def engines(folder: Path, behaviour: str = "well") -> dict[str, object]:
    """Both engines of an evaluation that start servers."""
    results, logs = str(folder / "engine_results"), str(folder / "logs")
    own = ServerFields(vllm=words(folder, behaviour), log_dir=logs)
    hosted = {"engine": "minicheck_hosted", "allow_own_prompt": True, "vllm_arguments": []}
    return {
        "evaluation_model": EvaluationModelResource(
            results_dir=results, open_models=EndpointConfig(runs="server"), server=own
        ),
        "verifier": VerifierResource(
            results_dir=results, vllm=words(folder), log_dir=logs, **hosted
        ),
    }


def write_tests(data: Path) -> None:
    """Two test sets without a claim in common, so that each needs replies of its own."""
    for place, name in enumerate(NAMES):
        rows = (claim_row(100 * place + number) for number in range(4))
        write_parquet(frame_of_claims(*rows), data / f"benchmark/{name}.parquet")


def starts(folder: Path) -> int:
    """Servers that ever took memory of a card."""
    return len(list((folder / "held.cards").glob("[0-9]*")))


def server(folder: Path, model: str = "org/tiny") -> ServerCommand:
    fields = ServerFields(vllm=words(folder), log_dir=str(folder / "logs"))
    return fields.command_for(model, "")


@pytest.mark.parametrize("system", [OPEN, MINICHECK])
def test_the_test_sets_of_a_run_share_a_server(tmp_path: Path, system: str):
    """Every test set is predicted by the server that the first one started; none is left."""
    write_tests(tmp_path)
    assert materialize(tmp_path, system, engines=engines(tmp_path)).success
    folder = DataFolder(base_dir=str(tmp_path))
    assert [4, 4] == [folder.run(f"predictions/{name}/{system}")["engine_calls"] for name in NAMES]
    assert 1 == starts(tmp_path)
    assert not held(tmp_path / "held")


def test_a_run_that_fails_stops_its_server(tmp_path: Path):
    """Its other test set cannot be read; one that cannot start is tried once a test set."""
    write_tests(tmp_path)
    (tmp_path / "benchmark/wice.parquet").write_bytes(b"no Parquet")
    assert not materialize(tmp_path, OPEN, engines=engines(tmp_path)).success
    assert 1 == starts(tmp_path)
    assert not held(tmp_path / "held")
    dead = tmp_path / "dead"
    write_tests(dead)
    assert not materialize(dead, OPEN, engines=engines(dead, "dies")).success
    assert len(NAMES) == starts(dead)


@pytest.mark.parametrize("behaviour", ["sick", "silent"])
def test_an_interrupted_run_stops_its_server(tmp_path: Path, behaviour: str):
    """Ctrl-C while the server starts, or while a question waits: the run ends after its server."""
    write_tests(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), behaviour],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{Path(__file__).parent}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert waited_for(lambda: held(tmp_path / "held") or child.poll() is not None)
    assert child.poll() is None, "it ended before its server started"
    time.sleep(1)  # for the question that waits
    child.send_signal(signal.SIGINT)
    try:
        child.wait(PATIENCE_S)
        assert not held(tmp_path / "held")
    finally:
        child.kill()
        child.wait()


def test_another_model_takes_the_place_of_the_first(tmp_path: Path):
    """The same model starts none; after a death the next wish starts a new server."""
    shared, one = SharedServer(), server(tmp_path)
    try:
        first = shared.url(one)
        assert first == shared.url(server(tmp_path))
        other = server(tmp_path, "org/other")
        assert first != shared.url(other)
        assert 2 == starts(tmp_path)
        shared._watchdog.terminate()
        shared._watchdog.wait()
        assert shared.url(server(tmp_path, "org/other"))
    finally:
        shared.stop()
    assert 3 == starts(tmp_path)
    assert not held(tmp_path / "held")
