"""What runs on a real Ray cluster of two nodes: batches of the mapper, training as jobs.

The laws of the mappers that need no cluster or one node are in ``tests/resources/mapper``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from dagster import DagsterInstance

from dagster_project.run_errors import failure_of
from decomposerl.errors import EngineError
from decomposerl.ports import Mapper
from decomposerl.progress import watched
from ledger_runs import run_program, write_training_claims
from ledger_stores import command_words
from mapped_work import (
    SENTENCES,
    Noting,
    WhereItRan,
    gone,
    noted,
    unpicklable,
)
from project import PYTHONPATH, SUPPORT
from ray_parts import RayNodes, ray_nodes
from resources.decomposer.rule_engine import RuleDecomposer
from resources.embedder.minilm import MiniLM
from resources.mapper.pools import AHEAD, InProcessMapper, ProcessMapper
from resources.mapper.ray_mapper import MOST_LOSSES, RayMapper
from resources.store.result_store import ResultStores
from resources.store.stored_ports import StoredDecomposer, StoredEmbedder
from training_graph import materialize, write_claims
from training_stand_in import STEPS

pytest.importorskip("ray", reason="the extra ray is not installed")
from ray.job_submission import JobSubmissionClient

NUMBERS = [[n, n + 1] for n in range(9)]
SQUARES = [[n**2, (n + 1) ** 2] for n in range(9)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """One cluster for the file: it takes ten seconds to start."""
    with ray_nodes(2) as cluster:
        yield cluster


@pytest.fixture
def mapper(nodes: RayNodes) -> Iterator[RayMapper]:
    """A mapper over both nodes."""
    nodes.restore()
    opened = RayMapper(nodes.address)
    yield opened
    opened.close()


class Numbers:
    """A source of batches that goes on until ``enough`` is set, and a few more."""

    def __init__(self) -> None:
        self.enough = False
        self.taken = 0

    def __iter__(self) -> Iterator[list[int]]:
        """Batches of one number."""
        rest = 6
        while rest:
            rest -= self.enough
            self.taken += 1
            yield [self.taken - 1]

    @property
    def squares(self) -> list[list[int]]:
        """Of all that were taken."""
        return [[number**2] for number in range(self.taken)]


def read_from_both(results: Iterator[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    """Results until two nodes have given one: a second worker may take long to start."""
    read = [next(results)]
    while len({node for node, _ in read}) < 2:
        read.append(next(results))
    return read


def test_work_is_on_both_nodes_and_results_are_in_order(tmp_path: Path, mapper: RayMapper):
    """One worker a node, loaded once for two maps; few batches are taken ahead."""
    assert (mapper.engine, mapper.workers) == ("ray (2 nodes)", 2)
    source, work = Numbers(), WhereItRan(tmp_path, 0.05)
    results = mapper.map(work, source)
    read = read_from_both(results)
    assert source.taken <= len(read) + 2 * AHEAD
    source.enough = True
    assert [squared for _, squared in [*read, *results]] == source.squares
    assert [squared for _, squared in mapper.map(work, NUMBERS)] == SQUARES
    assert len(noted(tmp_path, "load")) == len({*noted(tmp_path, "load")}) == 2


def test_errors_and_results_that_nobody_reads_end_the_map_and_its_workers(
    tmp_path: Path, mapper: RayMapper
):
    """The function's own exception with its batch; what runs for a minute is not waited for."""
    results = mapper.map(Noting(tmp_path), [[1], [], [2]])
    assert next(results) == [1]
    with pytest.raises(ValueError, match="an empty batch") as caught:
        next(results)
    assert caught.value.__notes__ == ["in batch 1"]
    with pytest.raises(EngineError, match="UnpicklableError: no 3 and no 4"):
        [*mapper.map(unpicklable, [[3, 4]])]
    left = mapper.map(Noting(tmp_path, 60.0, slow=2), [[1], [2], [2]])
    next(left)
    left.close()
    assert all(gone(process) for process in noted(tmp_path, "load"))


def test_a_node_removed_in_the_middle_loses_nothing(
    tmp_path: Path, nodes: RayNodes, mapper: RayMapper
):
    """What the lost node had is run again on the other, in its place of the order."""
    source = Numbers()
    results = mapper.map(WhereItRan(tmp_path, 0.1), source)
    read = read_from_both(results)
    nodes.remove_second()
    rest = [next(results) for _ in range(6)]
    while len({node for node, _ in rest[-6:]}) > 1:  # a worker dies some time later
        rest.append(next(results))
    source.enough = True
    assert [squared for _, squared in [*read, *rest, *results]] == source.squares


def test_a_dead_worker_is_replaced_but_not_for_ever(tmp_path: Path, mapper: RayMapper):
    """Its batch runs again; a batch that kills each worker ends the map by its number."""
    assert [*mapper.map(Noting(tmp_path, deadly=5, deaths=1), NUMBERS)] == SQUARES
    deadly = Noting(tmp_path, deadly=7, deaths=99)
    with pytest.raises(EngineError, match=f"batch 1 lost {MOST_LOSSES} workers"):
        [*mapper.map(deadly, [[1], [7], [2], [3], [4]])]


def test_all_mappers_leave_the_same_bytes(tmp_path: Path, mapper: RayMapper):
    """Answers and stored files of a real model and of rules, wherever the batches ran."""
    mappers: dict[str, Mapper] = {
        "here": InProcessMapper(),
        "processes": ProcessMapper(2),
        "ray": mapper,
    }
    vectors, questions = {}, {}
    for name, one in mappers.items():
        stores = ResultStores(tmp_path / name)
        embedder = StoredEmbedder(MiniLM(), stores, 8, one)
        vectors[name] = embedder.embed([*SENTENCES, *SENTENCES[:3]]).tobytes()
        assert (embedder.calls, embedder.hits) == (len(SENTENCES), 3)
        pairs = [("", text) for text in SENTENCES]
        questions[name] = StoredDecomposer(RuleDecomposer(), stores, 16, one).decompose(pairs)
    assert vectors["here"] == vectors["processes"] == vectors["ray"]
    assert questions["here"] == questions["processes"] == questions["ray"]
    files = [files_of(tmp_path / name) for name in mappers]
    assert len(files[0]) > 2
    assert files[0] == files[1] == files[2]


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # Ray's
def test_training_as_a_job_reports_as_a_process_does(tmp_path: Path, nodes: RayNodes):
    """Steps in the run's log, bars, the same policy and data version."""
    made = {}
    for name, dashboard in (("here", ""), ("job", nodes.dashboard)):
        data, looks = tmp_path / name, list[list[str]]()
        write_claims(data)
        with DagsterInstance.ephemeral() as instance:
            with watched(lambda bars, looks=looks: looks.append([one.what for one in bars])):
                result = materialize("good", data, instance, dashboard)
            assert result.success
            log = "\n".join(one.user_message for one in instance.all_logs(result.run_id))
        assert f"step {STEPS} of {STEPS}" in log
        assert ["training"] in looks
        (made[name],) = result.asset_materializations_for_node("policy")
    same = ("steps", "stopped early", "attempts", "held out greedy/balanced accuracy after")
    here, job = ({key: one.metadata[key].value for key in same} for one in made.values())
    assert here == job
    tags = [one.tags["dagster/data_version"] for one in made.values()]
    assert len({*tags}) == 1


def test_trl_trains_the_tiny_policy_as_a_job(tmp_path: Path, nodes: RayNodes):
    """The command of a user: two steps on the cluster leave an adapter, curves and the job."""
    data = tmp_path / "data"
    data.mkdir()
    write_training_claims(data)
    environment = {"DECOMPOSERL_TRAINING_JOBS": nodes.dashboard, "PYTHONPATH": PYTHONPATH}
    for words in (["run", "base_policy"], ["train", "tiny", "--steps", "2"]):
        run_program([*command_words(), *words], tmp_path, **environment)
    curves = pl.read_parquet(data / "policy/tiny/curves.parquet")
    assert curves.filter(split="train")["step"].n_unique() == 2
    assert (data / "policy/tiny/adapter/adapter_model.safetensors").stat().st_size
    jobs = JobSubmissionClient(nodes.dashboard).list_jobs()
    assert [job.status for job in jobs if "dagster_project.worker" in job.entrypoint] == [
        "SUCCEEDED"
    ]


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
def test_a_job_that_is_killed_or_cannot_start_says_so(tmp_path: Path, nodes: RayNodes):
    """The exit status; the address of no cluster."""
    write_claims(tmp_path)
    assert "137" in failure_of(materialize("killed", tmp_path, dashboard=nodes.dashboard))
    said = failure_of(materialize("good", tmp_path, dashboard="http://127.0.0.1:9"))
    assert "http://127.0.0.1:9" in said


def test_an_interrupted_run_stops_its_job(tmp_path: Path, nodes: RayNodes):
    """The job gets SIGTERM and time to leave a checkpoint."""
    write_claims(tmp_path)
    program = [sys.executable, str(SUPPORT / "training_graph.py"), "slow", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    child = subprocess.Popen([*program, nodes.dashboard], env=environment)
    wait_until((tmp_path / "policy/slow/waiting").exists)
    child.send_signal(signal.SIGINT)
    assert child.wait(240)
    wait_until((tmp_path / "policy/slow/checkpoint").exists)
    assert (tmp_path / "policy/slow/checkpoint").read_text() == "SIGTERM"


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    every = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in every}


def wait_until(holds: Callable[[], bool], within_s: float = 240.0):
    """Wait for what another process does."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
