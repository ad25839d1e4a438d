"""Facility location: the greedy by definition, on random samples, and other selectors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from decomposerl.errors import EngineError
from decomposerl.kernels.facility_location import (
    Greedy,
    coverage_gains,
    facility_location,
    facility_locations,
    lazy_greedy,
)
from decomposerl.kernels.selectors import (
    APRICOT_ROWS,
    Method,
    Selection,
    missing_package,
    select_each,
)
from decomposerl.kernels.stochastic_greedy import EPSILON, stochastic_greedy
from perf.inputs import selection_vectors
from strategies import LAW

LANES = 32
matrices = st.integers(0, 9).flatmap(
    lambda n: st.lists(
        st.lists(st.sampled_from((-0.5, 0.0, 0.25, 0.3, 0.7, 1.0)), min_size=n, max_size=n),
        min_size=n,
        max_size=n,
    ).map(lambda rows: np.array(rows, np.float32).reshape(n, n))
)


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def unit_vectors(rows: int, dimensions: int = 16) -> NDArray[np.float32]:
    return unit(np.random.default_rng(2).normal(size=(rows, dimensions)) + 0.5)


def coarse_vectors(rows: int, seed: int, shift: float = 0.0) -> NDArray[np.float32]:
    """Rows of few bits: every product is exact in float32, whoever multiplies; many ties."""
    numbers = np.random.default_rng(seed).normal(shift, 1, (rows, 12))
    return np.clip(np.round(numbers * 2) / 8, -1, 1).astype(np.float32)


def cosines(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row with each row, and exactly 1 with itself."""
    with threadpool_limits(1):  # as in a team: more threads may round a product differently
        products = vectors @ vectors.T
    np.fill_diagonal(products, 1)
    return products


def summed(terms: NDArray[np.float64]) -> float:
    """Column c into lane c mod 32, columns ascending; then the lanes in order."""
    lanes = np.zeros(LANES)
    for start in range(0, len(terms), LANES):
        part = terms[start : start + LANES]
        lanes[: len(part)] += part
    return float(sum(lanes.tolist()))


def plain_greedy(similarity: NDArray[np.float32], k: int) -> Greedy:
    """Every gain evaluated in float64 at every pick; the lowest index among the best."""
    cover = np.zeros(len(similarity))
    picks: list[int] = []
    gains: list[float] = []
    for _ in range(min(k, len(similarity))):
        every = [summed(np.maximum(row - cover, 0.0)) for row in similarity]
        left = [i for i in range(len(every)) if i not in picks]
        best = max(left, key=lambda i: (every[i], -i))
        picks.append(best)
        gains.append(every[best])
        cover = np.maximum(cover, similarity[best])
    return Greedy(np.array(picks, np.int64), np.array(gains), 0, cover)


def same(expected: Greedy, actual: Greedy) -> bool:
    """Equal to the last bit: picks, gains and cover."""
    return all(
        np.array_equal(getattr(expected, field), getattr(actual, field))
        for field in ("picks", "gains", "cover")
    )


@LAW
@given(matrices, st.integers(0, 12))
def test_lazy_picks_equal_plain_greedy_picks(similarity: NDArray[np.float32], k: int):
    """Same rows in the same order with the same gains, ties and negatives included."""
    assert same(plain_greedy(similarity, k), lazy_greedy(similarity, k))


@pytest.mark.parametrize("rows", [31, 32, 33, 200])
def test_lazy_picks_equal_plain_greedy_picks_on_vectors(rows: int):
    """Identical to the last bit around the number of lanes, with a fraction of the work."""
    vectors = unit_vectors(rows)
    actual = facility_location(vectors, 60)
    assert same(plain_greedy(cosines(vectors), 60), actual)
    assert actual.evaluations < max(rows * min(rows, 60) / 3, 4 * rows)


def test_the_order_of_columns_in_memory_changes_nothing():
    """A transposed view of a symmetric matrix, and float64, are read alike."""
    vectors = unit_vectors(70)
    similarity = vectors @ vectors.T
    expected = lazy_greedy(similarity, 20)
    assert same(expected, lazy_greedy(np.asfortranarray(similarity), 20))
    assert same(expected, lazy_greedy(similarity.astype(np.float64), 20))


@LAW
@given(matrices)
def test_gains_never_grow_and_sum_to_the_objective(similarity: NDArray[np.float32]):
    """Submodularity: each pick adds at most what the one before did; f(S) is their sum."""
    greedy = lazy_greedy(similarity, len(similarity))
    assert sorted(greedy.gains, reverse=True) == greedy.gains.tolist()
    assert sorted(greedy.picks) == list(range(len(similarity)))
    covered = np.maximum(similarity, 0).max(axis=0, initial=0)
    assert covered.tolist() == greedy.cover.tolist()
    assert pytest.approx(float(covered.sum(dtype=np.float64))) == float(greedy.gains.sum())


@LAW
@given(
    st.integers(1, 90),
    st.integers(1, 40),
    st.integers(0, 99),
    st.sampled_from((-0.3, 0.0, 0.6)),
    st.sampled_from((8, 600, 3_000, 20_000)),
)
def test_without_a_matrix_the_selection_is_the_same(
    rows: int, k: int, seed: int, shift: float, list_bytes: int
):
    """Lists of one entry or of all, wrong guesses and ties: equal to plain greedy."""
    vectors = coarse_vectors(rows, seed, shift)
    actual = facility_location(vectors, k, matrix_bytes=min(list_bytes, rows * rows * 4 - 1))
    assert same(plain_greedy(cosines(vectors), k), actual)


@pytest.mark.parametrize("list_bytes", [20_000, 400_000, 4_000_000])
def test_without_a_matrix_several_tiles_agree(list_bytes: int):
    """1,300 rows are three bands: lists too short, short and long enough."""
    vectors = coarse_vectors(1_300, seed=5, shift=0.3)
    expected = facility_location(vectors, 300)
    actual = facility_location(vectors, 300, matrix_bytes=list_bytes)
    assert same(expected, actual)
    assert 1_300 < actual.evaluations


def test_the_selection_does_not_depend_on_threads():
    """One, two and five threads: the same bits, with and without a matrix."""
    vectors = unit_vectors(1_100, 24)
    for limit in (2**30, 10**6):
        one, *others = (
            facility_location(vectors, 150, threads=threads, matrix_bytes=limit)
            for threads in (1, 2, 5)
        )
        assert all(same(one, other) for other in others)


def test_cells_together_equal_cells_alone():
    """Order and memory limit change nothing; an empty cell and a large one are no trouble."""
    vectors = coarse_vectors(400, seed=3)
    rows = np.random.default_rng(1).permutation(400)
    cells = [(rows[:40], 9), (rows[40:300], 50), (rows[:0], 3), (rows[300:], 100), (rows[5:6], 4)]
    for limit in (4, 50_000, 150_000, 2**30):
        together = facility_locations(vectors, cells, threads=2, matrix_bytes=limit)
        for (part, k), greedy in zip(cells, together, strict=True):
            assert same(plain_greedy(cosines(vectors[part]), k), greedy)


def test_coverage_gains_are_the_greedy_gains_and_a_pick_covers_itself_whole():
    """Its similarity to itself is 1, as in the greedy, whatever its product with itself is."""
    vectors = coarse_vectors(700, seed=8, shift=0.2)
    greedy = facility_location(vectors, 600)
    gains, cover = coverage_gains(vectors, greedy.picks.tolist())
    assert np.array_equal(greedy.gains, gains)
    assert np.array_equal(greedy.cover, cover)


@pytest.mark.parametrize("limit", [1, 2**30])
def test_edge_sizes_and_equal_rows_are_answered(limit: int):
    """Never more picks than rows; of equal rows the first covers all, the others add nothing."""
    for rows, k in ((0, 3), (1, 1), (4, 0), (4, 9)):
        greedy = facility_location(unit_vectors(rows), k, matrix_bytes=limit)
        assert min(rows, k) == len(greedy.picks) == len(greedy.gains)
        assert rows == len(greedy.cover)
    equal = np.repeat(np.eye(1, 12, dtype=np.float32), 300, axis=0)
    greedy = facility_location(equal, 4, matrix_bytes=limit)
    assert [0, 1, 2, 3] == greedy.picks.tolist()
    assert [300.0, 0, 0, 0] == greedy.gains.tolist()


@pytest.mark.parametrize("limit", [1, 2**30])
def test_rounding_decides_nothing_between_two_rows_nearest_to_each_other(limit: int):
    """Pairs on axes of their own tie; noise in the last bits, as processors have, moves no pick."""
    pairs = np.repeat(np.eye(40, dtype=np.float32), 2, axis=0)
    pairs[1::2] += np.roll(pairs[1::2], 40 // 2, axis=1) * np.float32(0.01)
    for seed in range(5):
        noise = 1 + np.random.default_rng(seed).normal(0, 6e-8, (80, 1))
        noisy = (pairs / np.linalg.norm(pairs, axis=1, keepdims=True) * noise).astype(np.float32)
        greedy = facility_location(noisy[:40], 20, matrix_bytes=limit)
        assert list(range(0, 40, 2)) == sorted(greedy.picks.tolist()), seed


def value(similarity: NDArray[np.floating], picks: NDArray[np.int64]) -> float:
    """f(S) by its definition."""
    return float(similarity[picks].max(axis=0, initial=0).sum(dtype=np.float64))


@LAW
@given(st.integers(0, 60), st.integers(0, 70), st.integers(0, 99), st.sampled_from((0.0, 0.6)))
def test_a_sample_of_all_rows_is_the_exact_greedy(rows: int, k: int, seed: int, shift: float):
    """The same picks, gains and cover to the last bit, ties included; every gain evaluated."""
    vectors = coarse_vectors(rows, seed, shift)
    sampled = stochastic_greedy(vectors, k, seed=seed, epsilon=1e-300)
    assert same(facility_location(vectors, k), sampled)
    assert sampled.evaluations == sum(range(rows - len(sampled.picks) + 1, rows + 1))


@pytest.mark.parametrize(("rows", "k"), [(1_500, 60), (1_500, 600), (700, 7), (400, 390)])
def test_on_random_samples_the_guarantee_holds(rows: int, k: int):
    """No greedy is above the best f(S), so the bound is asked of the mean over seeds against it."""
    vectors = selection_vectors(rows, 64)
    exact = facility_location(vectors, k)
    sampled = [stochastic_greedy(vectors, k, seed=seed) for seed in range(5)]
    for greedy in sampled:
        assert k == len(set(greedy.picks.tolist()))
        gains, cover = coverage_gains(vectors, greedy.picks)
        assert np.allclose(greedy.gains, gains, atol=1e-4)
        assert np.allclose(greedy.cover, cover, atol=1e-6)
        assert greedy.evaluations <= k * math.ceil(rows / k * math.log(1 / EPSILON))
    reached = [greedy.gains.sum() / exact.gains.sum() for greedy in sampled]
    best_at_most = 1 / (1 - math.exp(-1))  # of the exact greedy's f(S)
    assert np.mean(reached) >= (1 - math.exp(-1) - EPSILON) * best_at_most
    assert min(reached) > 0.97


def test_random_samples_depend_on_the_seed_alone():
    """Not on threads; another seed gives other picks, and a rougher sample a lower f(S)."""
    vectors = selection_vectors(1_500, 64)
    one, *others = (stochastic_greedy(vectors, 60, seed=3, threads=n) for n in (1, 2, 5))
    assert all(same(one, other) for other in others)
    assert one.picks.tolist() != stochastic_greedy(vectors, 60, seed=4).picks.tolist()
    rough = [stochastic_greedy(vectors, 60, seed=seed, epsilon=0.5) for seed in range(5)]
    assert max(greedy.gains.sum() for greedy in rough) < one.gains.sum()


METHODS: tuple[Method, ...] = ("facility_location", "k_means", "farthest_point", "random")
"""Those whose calls take no seconds: apricot compiles its loops in each."""


def select(vectors: NDArray[np.float32], k: int, method: Method, seed: int = 42) -> Selection:
    """One cell of all rows."""
    return select_each(vectors, [(np.arange(len(vectors)), k)], method, seed)[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "k"), [(0, 2), (1, 1), (30, 0), (30, 7), (30, 30), (30, 99)])
def test_every_selector_picks_distinct_rows_and_reports_the_same_objective(
    method: Method, rows: int, k: int
):
    """min(k, n) different rows; the gains sum to f(S) of the picks."""
    vectors = unit_vectors(rows, 8)
    chosen = select(vectors, k, method, seed=1)
    assert min(k, rows) == len(set(chosen.picks.tolist())) == len(chosen.gains)
    exact = vectors.astype(np.float64)
    assert pytest.approx(value(exact @ exact.T, chosen.picks), abs=1e-4) == chosen.objective
    assert pytest.approx(chosen.objective) == chosen.gains.sum()
    assert pytest.approx(chosen.objective, abs=1e-4) == chosen.cover.sum(dtype=np.float64)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_picks(method: Method):
    """Two calls agree; of copies of one row as many distinct ones as asked, and no warning."""
    assert "" == missing_package(method)  # apricot alone needs a package that may be absent
    chosen = select(np.repeat(unit_vectors(1, 8), 9, axis=0), 4, method)
    assert len(set(chosen.picks.tolist())) == 4
    vectors = unit_vectors(60, 8)
    first, second = select(vectors, 9, method, 3), select(vectors, 9, method, 3)
    assert first.picks.tolist() == second.picks.tolist()


def test_facility_location_represents_best():
    """No other selector reaches a higher f(S) on the same rows."""
    vectors = unit_vectors(120, 8)
    objectives = {method: select(vectors, 12, method).objective for method in METHODS}
    assert max(objectives, key=lambda method: objectives[method]) == "facility_location"


def test_farthest_point_and_k_means_pick_one_row_of_each_group():
    """Three tight groups: three picks, one in each; farthest point starts at the first row."""
    groups = np.eye(3).repeat(4, axis=0) + np.random.default_rng(0).normal(0, 0.01, (12, 3))
    vectors = unit(groups)
    farthest = select(vectors, 3, "farthest_point").picks
    assert farthest[0] == 0
    for picks in (farthest, select(vectors, 3, "k_means").picks):
        assert {0, 1, 2} == {int(pick) // 4 for pick in picks}


def test_apricot_picks_the_same_rows_where_no_gains_tie():
    """It is given the same cosines, clipped at 0; where gains tie or end, f(S) is the same."""
    pytest.importorskip("apricot")
    vectors = unit_vectors(150, 8)
    assert (vectors @ vectors.T).min() < 0
    ours, other = (select(vectors, 20, name) for name in ("facility_location", "apricot"))
    assert ours.picks.tolist() == other.picks.tolist()
    assert ours.objective == pytest.approx(other.objective, rel=1e-6)
    rng = np.random.default_rng(9)
    firsts = np.eye(40)[:20] + 0.02 * rng.normal(size=(20, 40))
    ties = unit(np.concatenate((firsts, firsts + 0.1 * rng.normal(size=(20, 40)))))
    ours, other = (select(ties, 20, name) for name in ("facility_location", "apricot"))
    assert ours.picks.tolist() != other.picks.tolist()
    assert {*range(20)} == {int(pick) % 20 for pick in other.picks}
    assert pytest.approx(ours.objective, rel=1e-6) == other.objective
    copies = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)
    assert 10 == len({*select(copies, 10, "apricot").picks.tolist()})


def test_a_cell_that_apricot_cannot_hold_is_refused():
    """Before anything is allocated, with the memory it would take."""
    pytest.importorskip("apricot")
    rows = np.zeros(APRICOT_ROWS + 1, np.int64)
    with pytest.raises(EngineError, match=r"8 GiB .*facility_location"):
        select_each(unit_vectors(1, 8), [(rows, 2)], "apricot")
