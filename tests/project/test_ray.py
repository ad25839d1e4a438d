"""What runs on a real Ray cluster of two nodes: batches of the mapper, training as jobs.

The laws of the mappers that need no cluster are in ``tests/resources/mapper``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from dagster import DagsterInstance

from chat_parts import request, settings
from dagster_project.run_errors import failure_of
from decomposerl.chat import ChatReply
from decomposerl.errors import EngineError, TrainingError
from decomposerl.ports import Mapper
from decomposerl.progress import watched
from fault_server import HANGING, SLOW, WELL, FaultServer
from mapped_chat import mapped_chat
from mapped_work import (
    SENTENCES,
    Noting,
    PaidWords,
    WhereItRan,
    WordsOf,
    gone,
    noted,
    silver_length,
    unpicklable,
)
from project import PYTHONPATH, SUPPORT
from ray_parts import RayNodes, two_nodes
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE
from resources.decomposer.resource import StoredDecomposer
from resources.decomposer.rule_engine import RuleDecomposer
from resources.embedder.minilm import MiniLM
from resources.embedder.resource import StoredEmbedder
from resources.mapper.in_process import InProcessMapper
from resources.mapper.pools import AHEAD
from resources.mapper.processes import ProcessMapper
from resources.mapper.ray_actors import MOST_LOSSES
from resources.mapper.ray_mapper import RayMapper
from resources.store.chat_replies import replies_in
from resources.store.result_store import ResultStores
from resources.training.ray_jobs import TrainingJobs
from training_graph import materialize, write_claims
from training_stand_in import STEPS

pytest.importorskip("ray", reason="the extra ray is not installed")
NUMBERS = [[n, n + 1] for n in range(9)]
SQUARES = [[n**2, (n + 1) ** 2] for n in range(9)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """One cluster for the file: it takes ten seconds to start."""
    with two_nodes() as cluster:
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


def test_paid_answers_are_stored_by_workers_in_one_place(tmp_path: Path, mapper: RayMapper):
    """They go to the store of this process, which no worker opens; none is asked twice."""
    stores = ResultStores(tmp_path / "results")
    first, second = (PaidWords(WordsOf(tmp_path), stores, 4, mapper) for _ in range(2))
    assert first.ask(SENTENCES) == second.ask(SENTENCES) == [text.split() for text in SENTENCES]
    assert (first.calls, first.hits) == (len(SENTENCES), 0)
    assert (second.calls, second.hits) == (0, len(SENTENCES))
    assert len(noted(tmp_path, "asked")) == len(SENTENCES) // 4
    assert os.getpid() not in noted(tmp_path, "asked")


def test_a_chat_client_counts_what_its_workers_did(tmp_path: Path, mapper: RayMapper):
    """The same replies and counters as without workers, within the limit of all together."""
    requests = [request(number) for number in (*range(30), 0, 1)]
    plain = ("asked", "calls", "hits", "shared", "prompt_tokens", "completion_tokens")
    with FaultServer(usual=SLOW) as server:
        with ChatClient(settings(server.url), tmp_path / "here") as alone:
            expected = alone.complete(requests, silver_length)
        with mapped_chat(server.url, tmp_path / "ray", mapper) as chat:
            outcomes = chat.complete(requests, silver_length)
            counted = chat.details()
            assert [one.value for one in chat.recall(requests, silver_length)] == [
                one.value for one in outcomes
            ]
        assert server.most_in_flight <= 16
        assert sorted(server.prompts) == sorted([f"q {number}" for number in range(30)] * 2)
    assert [one.text for one in outcomes] == [one.text for one in expected]
    assert [counted[f"chat {name}"] for name in plain] == [
        alone.details()[f"chat {name}"] for name in plain
    ]


def test_a_killed_driver_pays_for_no_reply_twice(
    tmp_path: Path, nodes: RayNodes, mapper: RayMapper
):
    """After ``kill -9`` the next run asks for what had no reply, and for nothing else."""
    total, answered = 40, 11
    words = [sys.executable, "-m", "mapped_chat"]
    environment = os.environ | {"RAY_ADDRESS": nodes.address}
    with FaultServer([WELL] * answered, usual=HANGING) as server:
        arguments = [server.url, str(tmp_path), str(total)]
        driver = subprocess.Popen([*words, *arguments], env=environment)
        try:
            wait_until(lambda: stored_replies(tmp_path) == answered)
            wait_until(lambda: server.in_flight > 0)
        finally:
            driver.kill()
            driver.wait()
        paid = server.prompts[:answered]
    with FaultServer() as server, mapped_chat(server.url, tmp_path, mapper) as chat:
        outcomes = chat.complete([request(number) for number in range(total)])
        assert len(server.asked) == total - answered
        assert not {*paid} & {*server.prompts}
        assert sum(isinstance(one, ChatReply) for one in outcomes) == total


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # Ray's
def test_training_as_a_job_reports_as_a_process_does(tmp_path: Path, nodes: RayNodes):
    """Steps in the run's log, bars, the same policy and data version; the job's output is kept."""
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
    assert "== run" in (tmp_path / "job/policy_runs/good/worker.log").read_text("utf-8")


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
def test_a_job_that_is_killed_or_cannot_start_says_so(tmp_path: Path, nodes: RayNodes):
    """The exit status and where the log is; the address of no cluster."""
    write_claims(tmp_path)
    said = failure_of(materialize("killed", tmp_path, dashboard=nodes.dashboard))
    assert "137" in said
    assert "worker.log" in said
    with pytest.raises(TrainingError, match=r"http://127\.0\.0\.1:9"):
        TrainingJobs(address="http://127.0.0.1:9").run(["true"], Path("unused"), 1, "a run")


def test_an_interrupted_run_stops_its_job(tmp_path: Path, nodes: RayNodes):
    """The job gets SIGTERM and time to leave a checkpoint before the run ends."""
    write_claims(tmp_path)
    program = [sys.executable, str(SUPPORT / "training_graph.py"), "slow", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    child = subprocess.Popen([*program, nodes.dashboard], env=environment)
    wait_until((tmp_path / "policy/slow/waiting").exists)
    child.send_signal(signal.SIGINT)
    assert child.wait(240)
    assert (tmp_path / "policy/slow/checkpoint").read_text() == "SIGTERM"


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    every = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in every}


def stored_replies(data: Path) -> int:
    """How many are on disk; none before the file is there as a whole."""
    with suppress(EngineError):
        return replies_in(data / REPLIES_FILE).height
    return 0


def wait_until(holds: Callable[[], bool], within_s: float = 240.0):
    """Wait for what another process does."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
