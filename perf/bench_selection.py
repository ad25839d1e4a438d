"""Facility location next to submodlib and to the bare product of similarities.

The objective f(S) of every answer is computed here, in double precision from one matrix.
Quotas and cells are not timed: they cost nothing.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.facility_location import facility_location, lazy_greedy
from perf import peers
from perf.inputs import Vectors, selection_vectors
from perf.machine import rates
from perf.sizes import Sizes
from perf.timing import Row, paired, quiet_and_busy

WARM = 300
LEAST_SHARE = 1 / 1.6


def cell_rows(sizes: Sizes) -> Iterator[Row]:
    """The paper's selector comparison: a cell of 3,482 claims, 430 picks."""
    rows, picks = sizes.cell
    vectors = selection_vectors(rows, sizes.dimensions)
    yield from _beside_product(vectors, picks)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, 1)
    both = paired(
        partial(lazy_greedy, similarity, picks),
        partial(peers.submodlib_picks, picks, similarity=similarity),
    )
    yield both.row(
        f"greedy step, {rows:,} / {picks:,}",
        "submodlib from a matrix",
        15.0,
        note=_compared(similarity, both.ours.picks.tolist(), both.peer),
    )
    if sizes.slow_peers:
        work = partial(facility_location, vectors, picks)
        slow = paired(work, partial(peers.submodlib_picks, picks, vectors=vectors), pairs=1)
        yield slow.row(
            f"facility location, {rows:,} / {picks:,} (2)",
            "submodlib from vectors",
            100.0,
            note=_compared(similarity, slow.ours.picks.tolist(), slow.peer),
        )


def large_cell_rows(sizes: Sizes) -> Iterator[Row]:
    """Everything as one cell: 17,328 claims, 5,000 picks."""
    rows, picks = sizes.large_cell
    yield from _beside_product(selection_vectors(rows, sizes.dimensions), picks)


def _beside_product(vectors: Vectors, picks: int) -> Iterator[Row]:
    facility_location(vectors[:WARM], WARM // 10)
    work = partial(facility_location, vectors, picks)
    out = np.empty((len(vectors), len(vectors)), np.float32)
    product = partial(np.matmul, vectors, vectors.T, out=out)
    quiet, busy = quiet_and_busy(work, product)
    similarity = product()
    np.fill_diagonal(similarity, 1)  # the selection defines it as 1
    oracle = _oracle(similarity, picks)
    note = f"float64: {_compared(similarity, quiet.ours.picks.tolist(), oracle)}"
    yield quiet.row(
        f"facility location, {len(vectors):,} / {picks:,}",
        "bare X @ X.T",
        LEAST_SHARE,
        limit_s=float(len(vectors)) ** 2 * vectors.shape[1] / rates().best,
        note=note,
        busy=busy,
    )


def _oracle(similarity: Vectors, picks: int) -> list[int]:
    """Lazy greedy with sums in double precision, ties to the lowest row."""
    cover = np.zeros(len(similarity))
    bounds = [
        (-float(np.maximum(row, 0).sum(dtype=float)), index) for index, row in enumerate(similarity)
    ]
    heapq.heapify(bounds)
    chosen: list[int] = []
    while len(chosen) < picks:
        _, row = bounds[0]
        gain = float(np.maximum(similarity[row] - cover, 0).sum())
        heapq.heapreplace(bounds, (-gain, row))
        if bounds[0] == (-gain, row):
            heapq.heappop(bounds)
            chosen.append(row)
            np.maximum(cover, similarity[row], out=cover)
    return chosen


def _compared(similarity: Vectors, ours: Sequence[int], other: Sequence[int]) -> str:
    a, b = _objective(similarity, ours), _objective(similarity, other)
    differing = [step for step, (x, y) in enumerate(zip(ours, other, strict=True)) if x != y]
    same = f"picks from step {differing[0]}" if differing else "picks equal"
    return f"f differs by {abs(a - b) / max(b, 1e-12):.1e}, {same}"


def _objective(similarity: Vectors, picks: Sequence[int]) -> float:
    cover: NDArray[np.float64] = np.zeros(len(similarity))
    for row in picks:
        np.maximum(cover, similarity[row], out=cover)
    return float(cover.sum())
