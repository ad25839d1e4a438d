"""Exact lazy greedy for facility location: which rows best represent all rows.

Takes a similarity matrix or unit vectors, gives the picks in order, what each added, and
how many gains were evaluated. f(S) = sum over rows i of max(0, max over s in S of sim(s, i))
(paper, "Diversity Selection"): similarities below 0 count as 0.

A gain computed earlier bounds the gain now, because every term only shrinks and sums of
fixed order are monotone in floating point; so laziness changes no pick, not even in ties.

Left out deliberately: approximate greedies, and cells, quotas and labels (``funnel/``).
"""

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]

MATRIX_ROWS = 20_000  # 1.6 GB of float32; a larger cell computes its rows when asked


class Greedy(NamedTuple):
    """``picks`` int64 (k,) in order of choice, ``gains`` float64 (k,), gains evaluated."""

    picks: NDArray[np.int64]
    gains: NDArray[np.float64]
    evaluations: int


def lazy_greedy(similarity: Floats, k: int) -> Greedy:
    """The ``min(k, n)`` rows that greedy facility location picks, ties to the lowest index.

    ``similarity`` is (n, n); row s says how well s represents each row. Gains are summed in
    float64 and the picks equal those of a greedy that evaluates every gain each time.
    """
    return _lazy_greedy(len(similarity), k, similarity.__getitem__)


def facility_location(vectors: NDArray[np.float32], k: int) -> Greedy:
    """``lazy_greedy`` on the cosines of unit rows, shape (n, d).

    Up to 20,000 rows hold the whole matrix; beyond, a row of it is computed when needed.
    """
    if len(vectors) <= MATRIX_ROWS:
        return lazy_greedy(vectors @ vectors.T, k)
    return _lazy_greedy(len(vectors), k, lambda row: vectors @ vectors[row])


def coverage_gains(vectors: NDArray[np.float32], picks: Sequence[int]) -> NDArray[np.float64]:
    """What each pick, in this order, adds to f(S); their sum is f(S). Shape (len(picks),)."""
    cover = np.zeros(len(vectors))
    gains = np.empty(len(picks))
    for place, pick in enumerate(picks):
        row = vectors @ vectors[pick]
        gains[place] = _gain(row, cover)
        np.maximum(cover, row, out=cover)
    return gains


def _gain(row: Floats, cover: NDArray[np.float64]) -> float:
    return float(np.maximum(row - cover, 0.0).sum())


def _lazy_greedy(rows: int, k: int, row_of: Callable[[int], Floats]) -> Greedy:
    k = min(k, rows)
    cover = np.zeros(rows)
    picks, gains = np.empty(k, np.int64), np.empty(k)
    if k == 0:
        return Greedy(picks, gains, 0)
    bounds = [(-_gain(row_of(row), cover), row) for row in range(rows)]
    fresh_at = [0] * rows
    evaluations = rows
    heapq.heapify(bounds)
    for place in range(k):
        while fresh_at[row := bounds[0][1]] != place:
            heapq.heapreplace(bounds, (-_gain(row_of(row), cover), row))
            fresh_at[row] = place
            evaluations += 1
        negative, row = heapq.heappop(bounds)
        picks[place], gains[place] = row, -negative
        np.maximum(cover, row_of(row), out=cover)
    return Greedy(picks, gains, evaluations)
