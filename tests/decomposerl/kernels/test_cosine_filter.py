"""The searches by cosine: their definition and their split into blocks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.errors import ConfigError, EngineError
from decomposerl.kernels.cosine_filter import (
    best_cross_cosine,
    cosine_pairs,
    keep_first_cosine,
    unit_rows,
)
from decomposerl.kernels.cosine_parts import (
    VectorBlocks,
    best_cross_in_blocks,
    keep_first_in_blocks,
)
from decomposerl.kernels.engine_choice import Precision
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Tasks
from exact_cosines import exact_cosines
from fakes import MemoryArrays, ShuffledMapper
from perf.inputs import clustered_vectors
from strategies import LAW

Vectors = NDArray[np.float32]


def unit(rows: NDArray[np.float64]) -> Vectors:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(rows: int, dimensions: int = 24, seed: int = 3) -> Vectors:
    """Clusters of about six whose inner cosine runs from 0.4 to 0.95."""
    random = np.random.default_rng(seed)
    clusters = max(1, rows // 6)
    centres = unit(random.normal(size=(clusters, dimensions)))
    noise = unit(random.normal(size=(rows, dimensions)))
    return unit(centres[random.integers(clusters, size=rows)] + random.uniform(0.3, 1.2) * noise)


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """The cosine summed without any rounding but the last."""

    def dot(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
        return math.fsum((x.astype(np.float64) * y.astype(np.float64)).tolist())

    return round(dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)), 12)


def brute_force(vectors: Vectors, threshold: float) -> tuple[list[int], list[float]]:
    kept: list[int] = []
    matched, similarity = [], []
    for row, vector in enumerate(vectors):
        near = [(-c, i) for i in kept if (c := cosine(vector, vectors[i])) >= threshold]
        value, match = min(near, default=(0.0, -1))
        matched.append(match)
        similarity.append(-value)
        if match < 0:
            kept.append(row)
    return matched, similarity


@LAW
@given(
    shape=st.tuples(st.sampled_from((1, 2, 3, 40, 65)), st.sampled_from((2, 24, 130))),
    threshold=st.sampled_from((0.4, 0.7, 0.95, 1.0)),
    precision=st.sampled_from(("f32", "int8", "bf16")),
    threads=st.sampled_from((1, 3)),
    seed=st.integers(0, 50),
)
def test_no_precision_and_no_number_of_threads_changes_the_answer(
    shape: tuple[int, int], threshold: float, precision: Precision, threads: int, seed: int
):
    """Every way to rule pairs out gives the definition's removals, matches and cosines."""
    vectors = clustered(*shape, seed)
    vectors[::17] = vectors[0]
    matched, similarity = brute_force(vectors, threshold)
    found = keep_first_cosine(vectors, threshold, precision=precision, threads=threads)
    assert matched == found.matched.tolist()
    np.testing.assert_allclose(similarity, found.similarity, rtol=0, atol=2e-12)
    assert f"cosine_{precision}" == found.engine


@LAW
@given(
    st.lists(st.lists(st.sampled_from((-1, 0, 1, 2)), min_size=3, max_size=3), max_size=20),
    st.sampled_from((0.5, 0.7, 0.8, 1.0)),
)
def test_ties_and_copies_go_to_the_lowest_kept_row(grid: list[list[int]], threshold: float):
    """Small integer vectors, full of exact ties, agree with the definition."""
    rows = [row for row in grid if any(row)]
    vectors = unit(np.array(rows, float)) if rows else np.empty((0, 3), np.float32)
    matched, _ = brute_force(vectors, threshold)
    assert matched == keep_first_cosine(vectors, threshold).matched.tolist()


def test_pairs_that_all_but_touch_the_threshold_are_decided_exactly():
    """Cosines within 1e-6 of the threshold, on both sides, fall as the exact sum says."""
    random = np.random.default_rng(5)
    threshold, pairs = 0.7, 200
    first = unit(random.normal(size=(pairs, 768)))
    other = random.normal(size=(pairs, 768))
    other -= np.sum(other * first, axis=1, keepdims=True) * first
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    cosines = threshold + random.uniform(-1e-6, 1e-6, (pairs, 1))
    second = (cosines * first + np.sqrt(1 - cosines**2) * other).astype(np.float32)
    exact = np.array([cosine(*pair) for pair in zip(first, second, strict=True)])
    assert 1e-6 > np.abs(exact - threshold).max() > 1e-11
    assert 60 < np.sum(exact >= threshold) < 140
    for precision in ("f32", "int8", "bf16"):
        found = best_cross_cosine(second, first, threshold, precision=precision)
        np.testing.assert_array_equal(exact >= threshold, found.is_matched)
        both = keep_first_cosine(np.concatenate([first, second]), threshold, precision=precision)
        np.testing.assert_array_equal(found.is_matched, both.is_matched[pairs:])
        np.testing.assert_array_equal(found.similarity, both.similarity[pairs:])


@LAW
@given(
    rows=st.sampled_from((0, 1, 2, 30)),
    floor=st.sampled_from((0.3, 0.6, 1.0)),
    precision=st.sampled_from(("f32", "int8", "bf16")),
    seed=st.integers(0, 50),
)
def test_all_pairs_above_a_floor_are_given_once_in_order(
    rows: int, floor: float, precision: Precision, seed: int
):
    """By the later row, then the earlier, with the exact cosine."""
    vectors = clustered(rows, 24, seed) if rows else np.empty((0, 24), np.float32)
    vectors[1::9] = vectors[:1]
    expected = [
        (i, j, value)
        for j in range(rows)
        for i in range(j)
        if (value := cosine(vectors[i], vectors[j])) >= floor
    ]
    found = cosine_pairs(vectors, floor, precision=precision)
    places = list(zip(found.earlier.tolist(), found.later.tolist(), strict=True))
    assert [pair[:2] for pair in expected] == places
    np.testing.assert_allclose([pair[2] for pair in expected], found.similarity, atol=2e-12)


def test_too_many_pairs_are_refused_with_the_number_and_the_way_out():
    """2,000 equal rows make two million pairs: counted, not stored."""
    vectors = np.repeat(clustered(1), 2_000, axis=0)
    with pytest.raises(ConfigError, match=r"more than 1,000 pairs .* raise pairs_floor"):
        cosine_pairs(vectors, 0.9, most=1_000)


def test_the_cross_search_gives_the_nearest_row_of_the_other_set():
    """Best right row at or above the threshold, lowest index on ties, else -1."""
    left, right = clustered(90, seed=1), clustered(70, seed=1)
    right[40:45] = left[7]
    found = best_cross_cosine(left, right, 0.6)
    for row, vector in enumerate(left):
        near = [(-c, i) for i, other in enumerate(right) if (c := cosine(vector, other)) >= 0.6]
        value, match = min(near, default=(0.0, -1))
        assert match == found.matched[row]
        assert pytest.approx(-value, abs=2e-12) == found.similarity[row]


def test_copies_on_the_other_side_are_told_by_the_first_and_empty_sides_match_nobody():
    """A thousand copies of two rows, in turns: every match names one of the first two."""
    left, two = clustered(60, seed=4), clustered(60, seed=4)[[3, 9]]
    found = best_cross_cosine(left, np.tile(two, (500, 1)), 0.9)
    assert {0, 1} == set(found.matched[found.is_matched].tolist())
    assert [(0, 1.0), (1, 1.0)] == [(found.matched[row], found.similarity[row]) for row in (3, 9)]
    some, none = clustered(5), np.empty((0, 24), np.float32)
    assert [] == best_cross_cosine(none, some, 0.5).matched.tolist()
    assert [-1] * 5 == best_cross_cosine(some, none, 0.5).matched.tolist()


@pytest.mark.parametrize("dimensions", [1, 63, 64, 65, 384, 1_000])
def test_the_order_of_sums_is_the_documented_one(dimensions: int):
    """Lane k adds dimensions k, k + 64, ...; lanes are added in order; bit for bit."""
    a, b = clustered(20, dimensions, 1), clustered(20, dimensions, 2)

    def dot(x: Vectors, y: Vectors) -> NDArray[np.float64]:
        products = np.zeros((len(x), -(-dimensions // 64) * 64))
        products[:, :dimensions] = x.astype(np.float64) * y.astype(np.float64)
        lanes = products.reshape(len(x), -1, 64).cumsum(axis=1)[:, -1]
        return lanes.cumsum(axis=1)[:, -1]

    expected = np.minimum(np.round(dot(a, b) / np.sqrt(dot(a, a) * dot(b, b)), 12), 1)
    np.testing.assert_array_equal(expected, exact_cosines(a, b))


def test_vectors_that_are_no_unit_rows_are_refused_or_mended():
    """Broken rows are named; half-precision rows become unit rows; exact ones pass untouched."""
    not_a_number = np.array([[1.0, 0.0], [np.nan, 1.0]])
    broken = {"vector 0": np.ones((2, 3)), "vector 1": not_a_number}
    wrong = {"2 vectors": np.eye(3), "expected 2": np.ones(2)}
    for message, vectors in (broken | wrong).items():
        with pytest.raises(EngineError, match=message):
            unit_rows(vectors, 2)
    exact = clustered(4)
    np.testing.assert_array_equal(exact, unit_rows(exact, 4))
    mended = unit_rows(exact * np.float32(1.003), 4)
    np.testing.assert_allclose(1, np.linalg.norm(mended, axis=1), atol=1e-6)


coarse = st.lists(
    st.lists(st.sampled_from((-1.0, 0.0, 1.0, 2.0)), min_size=4, max_size=4).filter(any),
    max_size=40,
).map(lambda rows: unit(np.array(rows).reshape(len(rows), 4)))
sizes, orders = st.integers(1, 12), st.integers(0, 9)


def split(vectors: Vectors, size: int) -> list[Vectors]:
    return [vectors[start : start + size] for start in range(0, len(vectors), size)]


def tasks_in(order: int) -> Tasks:
    return Tasks(ShuffledMapper(order), MemoryArrays())


def same(expected: Matches, actual: Matches) -> bool:
    return np.array_equal(expected.matched, actual.matched) and np.array_equal(
        expected.similarity, actual.similarity
    )


@LAW
@given(coarse, st.sampled_from((0.3, 0.5, 0.7, 1.0)), sizes, orders)
def test_blocks_remove_the_rows_that_one_search_removes(
    vectors: Vectors, threshold: float, size: int, order: int
):
    """Ties, copies and chains included: same rows, same nearest kept row, same cosine."""
    tasks = tasks_in(order)
    blocks = VectorBlocks.write(tasks.arrays, "vectors", split(vectors, size))
    found = keep_first_in_blocks(blocks, threshold, tasks)
    assert same(keep_first_cosine(vectors, threshold, threads=1), found)


@LAW
@given(coarse, coarse, st.sampled_from((0.3, 0.7, 1.0)), sizes, orders)
def test_the_cross_search_in_blocks_is_one_search(
    left: Vectors, right: Vectors, threshold: float, size: int, order: int
):
    """Every left block against every block of the other side."""
    tasks = tasks_in(order)
    others = VectorBlocks.write(tasks.arrays, "right", split(right, 13 - size))
    found = best_cross_in_blocks(split(left, size), others, threshold, tasks)
    assert same(best_cross_cosine(left, right, threshold, threads=1), found)


def test_rows_are_taken_in_the_order_asked_for():
    """Across blocks, with repeats."""
    vectors = clustered_vectors(20, 8)
    blocks = VectorBlocks.write(MemoryArrays(), "vectors", split(vectors, 6))
    rows = np.array([19, 0, 7, 7, 5])
    assert np.array_equal(vectors[rows], blocks.take(rows))
