import numpy as np
import pytest
from numpy.typing import NDArray

from decomposerl.kernels.selectors import Method, Selection, select_each

METHODS: tuple[Method, ...] = ("facility_location", "k_means", "farthest_point", "random")


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
