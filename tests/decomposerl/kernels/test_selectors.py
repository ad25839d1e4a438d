import numpy as np
import pytest
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.kernels.selectors import (
    APRICOT_ROWS,
    Method,
    Selection,
    missing_package,
    select_each,
)

METHODS: tuple[Method, ...] = ("facility_location", "k_means", "farthest_point", "random")
"""Those whose calls take no seconds: apricot compiles its loops in each."""


def unit_vectors(rows: int, seed: int = 4) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).normal(size=(rows, 8)) + 0.4
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def select(vectors: NDArray[np.float32], k: int, method: Method, seed: int = 42) -> Selection:
    """One cell of all rows."""
    return select_each(vectors, [(np.arange(len(vectors)), k)], method, seed)[0]


def objective(vectors: NDArray[np.float32], picks: NDArray[np.int64]) -> float:
    products = vectors.astype(np.float64) @ vectors[picks].T.astype(np.float64)
    return float(np.maximum(products, 0).max(axis=1, initial=0).sum())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "k"), [(0, 2), (1, 1), (30, 0), (30, 7), (30, 30), (30, 99)])
def test_every_selector_picks_distinct_rows_and_reports_the_same_objective(
    method: Method, rows: int, k: int
):
    """min(k, n) different rows; the gains sum to f(S) of the picks."""
    vectors = unit_vectors(rows)
    chosen = select(vectors, k, method, seed=1)
    assert min(k, rows) == len(set(chosen.picks.tolist())) == len(chosen.gains)
    assert pytest.approx(objective(vectors, chosen.picks), abs=1e-4) == chosen.objective
    assert pytest.approx(chosen.objective) == chosen.gains.sum()
    assert pytest.approx(chosen.objective, abs=1e-4) == chosen.cover.sum(dtype=np.float64)


@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_are_no_trouble(method: Method):
    """Copies of one row: as many distinct rows as asked, and no warning."""
    chosen = select(np.repeat(unit_vectors(1), 9, axis=0), 4, method)
    assert len(set(chosen.picks.tolist())) == 4


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_picks(method: Method):
    """Two calls agree."""
    vectors = unit_vectors(60)
    first, second = select(vectors, 9, method, 3), select(vectors, 9, method, 3)
    assert first.picks.tolist() == second.picks.tolist()


def test_facility_location_represents_best():
    """No other selector reaches a higher f(S) on the same rows."""
    vectors = unit_vectors(120)
    objectives = {method: select(vectors, 12, method).objective for method in METHODS}
    assert max(objectives, key=lambda method: objectives[method]) == "facility_location"


def test_farthest_point_starts_at_the_first_row_and_spreads():
    """Three tight groups: three picks, one in each."""
    groups = np.eye(3).repeat(4, axis=0) + np.random.default_rng(0).normal(0, 0.01, (12, 3))
    vectors = (groups / np.linalg.norm(groups, axis=1, keepdims=True)).astype(np.float32)
    picks = select(vectors, 3, "farthest_point").picks
    assert picks[0] == 0
    assert {0, 1, 2} == {int(pick) // 4 for pick in picks}


def test_k_means_picks_one_row_of_each_group():
    """Three tight groups and three clusters: one row of each."""
    groups = np.eye(3).repeat(4, axis=0) + np.random.default_rng(0).normal(0, 0.01, (12, 3))
    vectors = (groups / np.linalg.norm(groups, axis=1, keepdims=True)).astype(np.float32)
    assert {0, 1, 2} == {int(pick) // 4 for pick in select(vectors, 3, "k_means").picks}


@pytest.fixture(scope="module")
def ties() -> NDArray[np.float32]:
    """Pairs of rows that are each other's nearest and nobody else's: either one will do."""
    rng = np.random.default_rng(9)
    firsts = np.eye(40)[:20] + 0.02 * rng.normal(size=(20, 40))
    vectors = np.concatenate((firsts, firsts + 0.1 * rng.normal(size=(20, 40))))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_apricot_picks_the_same_rows_where_no_gains_tie():
    """In the same order: it is given the cosines that facility location reads, clipped at 0."""
    pytest.importorskip("apricot")
    vectors = unit_vectors(150)
    assert (vectors @ vectors.T).min() < 0
    ours, other = (select(vectors, 20, name) for name in ("facility_location", "apricot"))
    assert ours.picks.tolist() == other.picks.tolist()
    assert ours.objective == pytest.approx(other.objective, rel=1e-6)


def test_apricot_differs_only_where_gains_tie(ties: NDArray[np.float32]):
    """Then f(S) is the same: it adds up in another order, which decides between equal rows."""
    pytest.importorskip("apricot")
    ours, other = (select(ties, 20, name) for name in ("facility_location", "apricot"))
    assert ours.picks.tolist() != other.picks.tolist()
    assert {*range(20)} == {int(pick) % 20 for pick in other.picks}
    assert pytest.approx(ours.objective, rel=1e-6) == other.objective


def test_apricot_alone_would_pick_a_row_twice():
    """Once nothing is gained any more; here every pick is another row."""
    apricot = pytest.importorskip("apricot")
    copies = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)
    alone = apricot.FacilityLocationSelection(10, metric="precomputed", optimizer="lazy")
    ranking = alone.fit((copies @ copies.T).astype(np.float64)).ranking
    assert len({*ranking.tolist()}) < 10 == len({*select(copies, 10, "apricot").picks.tolist()})


def test_a_cell_that_apricot_cannot_hold_is_refused():
    """Before anything is allocated, with the memory it would take."""
    pytest.importorskip("apricot")
    rows = np.zeros(APRICOT_ROWS + 1, np.int64)
    with pytest.raises(EngineError, match=r"8 GiB .*use facility_location"):
        select_each(unit_vectors(1), [(rows, 2)], "apricot")


def test_a_selector_that_can_run_misses_nothing():
    """Only apricot needs a package that may be absent."""
    assert [""] * len(METHODS) == [missing_package(method) for method in METHODS]
