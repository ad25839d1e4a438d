"""The cosine searches in tasks: the same decisions as one process, for any blocks and workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine, unit_rows
from decomposerl.kernels.cosine_parts import (
    VectorBlocks,
    best_cross_in_blocks,
    keep_first_in_blocks,
)
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Tasks
from fakes import MemoryArrays, ShuffledMapper
from perf.inputs import clustered_vectors
from strategies import LAW

Vectors = NDArray[np.float32]
coarse = st.lists(
    st.lists(st.sampled_from((-1.0, 0.0, 1.0, 2.0)), min_size=4, max_size=4).filter(any),
    max_size=40,
).map(lambda rows: _unit(np.array(rows, np.float32).reshape(len(rows), 4)))
sizes, orders = st.integers(1, 12), st.integers(0, 9)


def _unit(rows: Vectors) -> Vectors:
    return unit_rows((rows / np.linalg.norm(rows, axis=1, keepdims=True)), len(rows))


def split(vectors: Vectors, size: int) -> list[Vectors]:
    return [vectors[start : start + size] for start in range(0, len(vectors), size)]


def tasks_in(order: int) -> Tasks:
    return Tasks(ShuffledMapper(order), MemoryArrays(), threads=1)


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


@pytest.mark.parametrize("size", [70, 500, 5_000])
def test_blocks_of_clustered_rows_leave_no_seam(size: int):
    """2,000 rows of which a third are near another one."""
    vectors, tasks = clustered_vectors(2_000, 96), tasks_in(3)
    blocks = VectorBlocks.write(tasks.arrays, "vectors", split(vectors, size))
    expected = keep_first_cosine(vectors, 0.7)
    assert 300 < expected.is_matched.sum() < 1_900
    assert same(expected, keep_first_in_blocks(blocks, 0.7, tasks))


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
