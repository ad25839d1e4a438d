import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import LAW

from decomposerl.kernels import facility_location as kernel
from decomposerl.kernels.facility_location import (
    Greedy,
    coverage_gains,
    facility_location,
    lazy_greedy,
)

matrices = st.integers(0, 9).flatmap(
    lambda n: st.lists(
        st.lists(st.sampled_from((-0.5, 0.0, 0.25, 0.3, 0.7, 1.0)), min_size=n, max_size=n),
        min_size=n,
        max_size=n,
    ).map(lambda rows: np.array(rows, np.float32).reshape(n, n))
)


def unit_vectors(rows: int, dimensions: int = 16, seed: int = 2) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimensions)) + 0.5
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def plain_greedy(similarity: NDArray[np.float32], k: int) -> Greedy:
    """Every gain evaluated at every pick; the lowest index among the best."""
    cover = np.zeros(len(similarity))
    picks: list[int] = []
    gains: list[float] = []
    for _ in range(min(k, len(similarity))):
        every = [float(np.maximum(row - cover, 0.0).sum()) for row in similarity]
        left = [i for i in range(len(every)) if i not in picks]
        best = max(left, key=lambda i: (every[i], -i))
        picks.append(best)
        gains.append(every[best])
        cover = np.maximum(cover, similarity[best])
    return Greedy(np.array(picks, np.int64), np.array(gains), 0)


@LAW
@given(matrices, st.integers(0, 12))
def test_lazy_picks_equal_plain_greedy_picks(similarity: NDArray[np.float32], k: int):
    """Same rows in the same order with the same gains, ties and negatives included."""
    expected, actual = plain_greedy(similarity, k), lazy_greedy(similarity, k)
    assert expected.picks.tolist() == actual.picks.tolist()
    assert expected.gains.tolist() == actual.gains.tolist()


def test_lazy_picks_equal_plain_greedy_picks_on_vectors():
    """200 rows, 60 picks: identical order, a fraction of the evaluations."""
    vectors = unit_vectors(200)
    expected = plain_greedy(vectors @ vectors.T, 60)
    actual = facility_location(vectors, 60)
    assert expected.picks.tolist() == actual.picks.tolist()
    assert expected.gains.tolist() == actual.gains.tolist()
    assert actual.evaluations < 200 * 60 / 3


@LAW
@given(matrices)
def test_gains_never_grow_and_sum_to_the_objective(similarity: NDArray[np.float32]):
    """Submodularity: each pick adds at most what the one before did; f(S) is their sum."""
    greedy = lazy_greedy(similarity, len(similarity))
    assert sorted(greedy.gains, reverse=True) == greedy.gains.tolist()
    assert sorted(greedy.picks) == list(range(len(similarity)))
    objective = np.maximum(similarity, 0).max(axis=0, initial=0).sum(dtype=np.float64)
    assert pytest.approx(float(objective)) == float(greedy.gains.sum())


def test_rows_computed_when_asked_give_the_same_selection():
    """The form for cells too large for a matrix agrees with the matrix form."""
    vectors = unit_vectors(150)
    matrix = facility_location(vectors, 30)
    on_demand = kernel._lazy_greedy(150, 30, lambda row: vectors @ vectors[row])
    assert matrix.picks.tolist() == on_demand.picks.tolist()
    np.testing.assert_allclose(matrix.gains, on_demand.gains, rtol=1e-5)


def test_coverage_gains_are_the_greedy_gains():
    """Replaying the picks gives what the greedy recorded."""
    vectors = unit_vectors(80)
    greedy = facility_location(vectors, 20)
    np.testing.assert_allclose(
        greedy.gains, coverage_gains(vectors, greedy.picks.tolist()), rtol=1e-5
    )


@pytest.mark.parametrize(("rows", "k"), [(0, 3), (1, 1), (4, 0), (4, 9)])
def test_edge_sizes_are_answered(rows: int, k: int):
    """Never more picks than rows; nothing to pick is no error."""
    greedy = facility_location(unit_vectors(rows), k)
    assert min(rows, k) == len(greedy.picks) == len(greedy.gains)


def test_equal_rows_are_picked_in_order_with_one_gain():
    """All equal: the first row covers everything, the others add nothing."""
    greedy = facility_location(np.repeat(unit_vectors(1), 5, axis=0), 4)
    assert [0, 1, 2, 3] == greedy.picks.tolist()
    np.testing.assert_allclose([5, 0, 0, 0], greedy.gains, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_the_objective_equals_that_of_another_library():
    """f(S) of apricot's facility location on the clipped matrix, within 1e-6."""
    apricot = pytest.importorskip("apricot")
    vectors = unit_vectors(120)
    similarity = np.maximum(vectors @ vectors.T, 0).astype(np.float64)
    other = apricot.FacilityLocationSelection(25, metric="precomputed", optimizer="lazy")
    theirs = similarity[other.fit(similarity).ranking].max(axis=0).sum()
    ours = lazy_greedy(similarity, 25)
    assert pytest.approx(theirs, rel=1e-6) == ours.gains.sum()
