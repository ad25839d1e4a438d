"""The laws of the mappers, on Ray those of one node; those of two are in ``test_ray``."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from decomposerl.errors import EngineError
from decomposerl.ports import Mapper
from mapped_work import SENTENCES, Noting, gone, noted, process_of, squares, unpicklable
from ray_parts import ray_nodes
from resources.decomposer.rule_engine import RuleDecomposer
from resources.mapper.pools import AHEAD, InProcessMapper, ProcessMapper
from resources.mapper.ray_mapper import RayMapper
from resources.mapper.resource import MapperChoice, MapperResource
from resources.store.result_store import ResultStores
from resources.store.stored_ports import StoredDecomposer
from resources.tokens.resource import TalliedTokens
from resources.tokens.word_tokens import WordTokens

NUMBERS = [[n, n + 1] for n in range(9)]
SQUARES = [[n**2, (n + 1) ** 2] for n in range(9)]
_CHILD = """
from pathlib import Path
from mapped_work import Noting
from resources.mapper.pools import ProcessMapper
if __name__ == "__main__":
    for result in ProcessMapper(2).map(Noting(Path({folder!r}), 60.0), [[1], [2], [3]]):
        print(result)
"""


@pytest.fixture(params=["in_process", "processes"])
def mapper(request: pytest.FixtureRequest) -> Iterator[Mapper]:
    """Each mapper, two workers where there are workers."""
    opened = MapperChoice(where=request.param, workers=2).open()
    yield opened
    opened.close()


@pytest.fixture
def processes() -> Iterator[ProcessMapper]:
    """Two processes."""
    opened = ProcessMapper(2)
    yield opened
    opened.close()


def test_results_come_in_order_and_few_batches_are_taken_ahead(mapper: Mapper) -> None:
    """A source that is longer than memory is read as results are, not before."""
    taken: list[int] = []

    def batches() -> Iterator[list[int]]:
        for number, batch in enumerate(NUMBERS):
            taken.append(number)
            yield batch

    results = mapper.map(squares, batches())
    assert [] == taken
    assert next(results) == SQUARES[0]
    assert len(taken) <= 2 * AHEAD
    assert [*results] == SQUARES[1:]
    assert [*mapper.map(squares, [])] == []


def test_an_error_ends_the_map_and_names_its_batch(mapper: Mapper) -> None:
    """What came before is read first; then the engine's own exception, with a note."""
    results = mapper.map(squares, [[1], [], [2]])
    assert next(results) == [1]
    with pytest.raises(ValueError, match="an empty batch") as caught:
        next(results)
    assert caught.value.__notes__ == ["in batch 1"]
    assert [*results] == []


def test_an_exception_that_cannot_travel_arrives_with_its_words(processes: ProcessMapper) -> None:
    """As an engine's error; a function that cannot is refused before anything starts."""
    with pytest.raises(EngineError, match="UnpicklableError: no 3 and no 4"):
        [*processes.map(unpicklable, [[3, 4]])]
    with pytest.raises((AttributeError, TypeError)) as caught:
        next(ProcessMapper(2).map(lambda batch: batch, [[1]]))
    assert "picklable" in caught.value.__notes__[0]


def test_workers_load_once_and_stay_for_the_next_map(
    tmp_path: Path, processes: ProcessMapper
) -> None:
    """A worker is one process that unpickles the function once, however many batches and maps."""
    for _ in range(3):
        assert [*processes.map(Noting(tmp_path), NUMBERS)] == SQUARES
    loads = noted(tmp_path, "load")
    assert len(loads) == len(set(loads)) <= 2
    assert set(noted(tmp_path, "batch")) == set(loads)
    # One model at a time: idle workers end when another function starts.
    assert [*ProcessMapper(1).map(squares, NUMBERS)] == SQUARES
    assert all(gone(process) for process in loads)


def test_a_map_that_nobody_reads_on_ends_its_workers(
    tmp_path: Path, processes: ProcessMapper
) -> None:
    """Ctrl-C and errors close the results; what runs for a minute is not waited for."""
    results = processes.map(Noting(tmp_path, 60.0, slow=2), [[1], [2], [2]])
    next(results)
    started = time.monotonic()
    results.close()
    assert time.monotonic() - started < 10
    assert all(gone(process) for process in noted(tmp_path, "load"))


def test_a_batch_is_repeated_once_where_its_worker_is_killed(
    tmp_path: Path, processes: ProcessMapper
) -> None:
    """One that loses two is named; the next map has new workers."""
    once, twice = tmp_path / "once", tmp_path / "twice"
    once.mkdir()
    twice.mkdir()
    assert [*processes.map(Noting(once, deadly=5, deaths=1), NUMBERS)] == SQUARES
    work = Noting(twice, deadly=0, deaths=2)
    with pytest.raises(EngineError, match="batch 0 lost its worker process twice"):
        [*processes.map(work, NUMBERS)]
    assert [*processes.map(work, NUMBERS)] == SQUARES


def test_workers_end_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    """After ``kill -9`` no process is left with a model in memory."""
    script = tmp_path / "child.py"
    script.write_text(_CHILD.format(folder=str(tmp_path)))
    path = os.pathsep.join(filter(None, sys.path))
    child = subprocess.Popen([sys.executable, script], env=os.environ | {"PYTHONPATH": path})
    until = time.monotonic() + 60
    while len(noted(tmp_path, "batch")) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    workers = noted(tmp_path, "load")
    assert len(workers) == 2
    assert all(gone(process) for process in workers)


def test_a_worker_that_dies_between_batches_is_replaced(processes: ProcessMapper) -> None:
    """Noticed when a batch is sent or its result read, or when the next map begins."""
    results = processes.map(process_of, range(20))
    first = next(results)
    end_process(first)
    assert first not in [*results][-4:]
    before = [*processes.map(process_of, range(4))]
    end_process(before[0])
    after = [*processes.map(process_of, range(4))]
    assert not set(before) & set(after)


def end_process(process: int) -> None:
    """Kill it as the system does when memory is short, and wait until its pool has noticed."""
    os.kill(process, signal.SIGKILL)
    assert gone(process)
    time.sleep(0.5)


def test_without_the_extra_the_error_names_it() -> None:
    """One sentence with the command, in place of a failed import."""
    code = """
import sys
sys.modules["ray"] = None
from resources.mapper.ray_mapper import RayMapper
next(RayMapper().map(len, [[1]]))
"""
    path = os.pathsep.join(filter(None, sys.path))
    words, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": path}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "pip install -e '.[ray]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "auto"])
def test_no_cluster_at_an_address_is_said_at_once(address: str) -> None:
    """Ray itself tries for seven minutes."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    before = time.monotonic()
    with pytest.raises(EngineError, match=f"'{address}'"):
        next(RayMapper(address).map(len, [[1]]))
    assert time.monotonic() - before < 60


def test_a_ray_node_leaves_the_bytes_of_this_process(tmp_path: Path):
    """Results in order, one worker for two maps, the function's own error; the same files."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with ray_nodes(1) as nodes:
        mapper = RayMapper(nodes.address)
        assert (mapper.engine, mapper.workers) == ("ray (1 node)", 1)
        for _ in range(2):
            assert [*mapper.map(Noting(tmp_path), NUMBERS)] == SQUARES
        assert len(noted(tmp_path, "load")) == 1
        with pytest.raises(ValueError, match="an empty batch") as caught:
            [*mapper.map(squares, [[1], [], [2]])]
        assert caught.value.__notes__ == ["in batch 1"]
        written = [answers_of(tmp_path / each.engine, each) for each in (InProcessMapper(), mapper)]
        mapper.close()
    assert len(written[0]) > 1
    assert written[0] == written[1]


def answers_of(folder: Path, mapper: Mapper) -> dict[str, bytes]:
    """What rules wrote about sentences, by file."""
    pairs = [("", text) for text in SENTENCES]
    StoredDecomposer(RuleDecomposer(), ResultStores(folder), 16, mapper).decompose(pairs)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_counter_counts_elsewhere_what_it_counts_here(processes: ProcessMapper) -> None:
    """The same counts in order over several batches, none for no text, and one tally."""
    texts = [" ".join([f"w{number}"] * (number % 7 + 1)) for number in range(3_000)]
    here, there = TalliedTokens(WordTokens()), TalliedTokens(WordTokens(), processes)
    assert here.count(texts).tolist() == there.count(texts).tolist()
    assert there.count([]).tolist() == []
    assert here.counted == there.counted == len(texts)
    assert (InProcessMapper().engine, ProcessMapper(3).engine) == ("in process", "processes (3)")


CHOICES = {
    ("embedded", ""): ("in_process", 0, ""),
    ("local", ""): ("processes", 0, ""),
    ("paper", ""): ("ray", 0, ""),
    ("paper", "processes:3"): ("processes", 3, ""),
    ("embedded", "ray:10.0.0.1:6379"): ("ray", 0, "10.0.0.1:6379"),
}


@pytest.mark.parametrize(("profile", "value"), CHOICES)
def test_the_profile_chooses_and_single_claims_stay_here(
    tmp_path: Path, profile: str, value: str
) -> None:
    """Of the graph alone: verify, rewards and training open the same engines in their process."""
    expected = CHOICES[profile, value]
    env = {"DECOMPOSERL_PROFILE": profile, "DECOMPOSERL_DATA": str(tmp_path)}
    chosen = read_settings(env | ({"DECOMPOSERL_MACHINE__MAPPER": value} if value else {}))
    graph, single = (resources_for(chosen, mapped=mapped) for mapped in (True, False))
    for name in ("mapper", "entities"):
        at = getattr(graph[name], "mapper", None) or graph[name].choice
        assert (at.where, at.workers, at.address) == expected
    assert single["entities"].mapper == single["verifier"].mapper == MapperChoice()
    tasks = MapperResource(choice=graph["mapper"].choice).open()  # they share this machine's files
    assert isinstance(tasks, ProcessMapper) == (expected[0] == "processes")
    if profile == "paper":  # requests are sent from here
        assert graph["decomposer"].mapper == graph["embedder"].mapper == MapperChoice()
