"""The mapper on a real Ray cluster of two nodes: the laws of the others, and lost nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from decomposerl.errors import EngineError
from mapped_work import Noting, WhereItRan, gone, noted, unpicklable
from ray_parts import RayNodes, two_nodes
from resources.mapper.pools import AHEAD
from resources.mapper.ray_actors import MOST_LOSSES
from resources.mapper.ray_mapper import RayMapper

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


def test_work_is_on_both_nodes_and_results_are_in_order(tmp_path: Path, mapper: RayMapper) -> None:
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


def test_errors_end_the_map_and_its_workers(tmp_path: Path, mapper: RayMapper) -> None:
    """The function's own exception with its batch, and no worker that goes on."""
    results = mapper.map(Noting(tmp_path), [[1], [], [2]])
    assert next(results) == [1]
    with pytest.raises(ValueError, match="an empty batch") as caught:
        next(results)
    assert caught.value.__notes__ == ["in batch 1"]
    with pytest.raises(EngineError, match="UnpicklableError: no 3 and no 4"):
        [*mapper.map(unpicklable, [[3, 4]])]
    assert all(gone(process) for process in noted(tmp_path, "load"))


def test_results_that_nobody_reads_on_end_the_workers(tmp_path: Path, mapper: RayMapper) -> None:
    """Ctrl-C closes the results; what runs for a minute is not waited for."""
    results = mapper.map(Noting(tmp_path, 60.0, slow=2), [[1], [2], [2]])
    next(results)
    results.close()
    assert all(gone(process) for process in noted(tmp_path, "load"))


def test_a_node_removed_in_the_middle_loses_nothing(
    tmp_path: Path, nodes: RayNodes, mapper: RayMapper
) -> None:
    """What the lost node had is run again on the other, in its place of the order."""
    source = Numbers()
    results = mapper.map(WhereItRan(tmp_path, 0.1), source)
    before = read_from_both(results)
    nodes.remove_second()
    source.enough = True
    after = [*results]
    assert [squared for _, squared in before + after] == source.squares
    assert len({node for node, _ in after[-3:]}) == 1


def test_a_dead_worker_is_replaced_but_not_for_ever(tmp_path: Path, mapper: RayMapper) -> None:
    """Its batch runs again; a batch that kills each worker ends the map by its number."""
    assert [*mapper.map(Noting(tmp_path, deadly=5, deaths=1), NUMBERS)] == SQUARES
    deadly = Noting(tmp_path, deadly=7, deaths=99)
    with pytest.raises(EngineError, match=rf"batch \d lost {MOST_LOSSES} workers"):
        [*mapper.map(deadly, [[7], [1]])]
