"""Facility location of a cell too large for the exact greedy, by stochastic greedy."""

import math
from functools import partial

import numpy as np

from decomposerl.kernels.facility_location import TILE, Doubles, Greedy, Rows, Singles
from decomposerl.kernels.threads import Team

EPSILON = 0.01
STRIP = 32  # sampled rows of one task


def stochastic_greedy(
    vectors: Singles, k: int, *, seed: int = 42, epsilon: float = EPSILON, threads: int = 0
) -> Greedy:
    """``min(k, n)`` unit rows that represent all rows: each is the best of a fresh random sample.

    Sampled are n/k * ln(1/epsilon) rows that are not picked yet, rounded up. Since f is monotone
    and submodular and f of nothing is 0, the expected f(S) is at least 1 - 1/e - epsilon times the
    best possible ("Lazier than Lazy Greedy", Mirzasoleiman et al. 2015, theorem 1). A sample that
    holds all rows gives the picks of ``facility_location``.

    ``vectors`` is (n, d), ``epsilon`` in (0, 1). The memory beyond the vectors is that of a sample.
    Result and ties (to the lowest index) depend on ``seed`` alone, not on ``threads``.
    """
    from decomposerl.kernels.facility_loops import raise_cover

    k = min(k, len(vectors))
    picks, gains, evaluations = np.empty(k, np.int64), np.empty(k), 0
    cover, generator = np.zeros(len(vectors), np.float32), np.random.default_rng(seed)
    size = math.ceil(len(vectors) / max(k, 1) * math.log(1 / epsilon))
    left = np.arange(len(vectors))
    with Team(threads) as team:
        for rank in range(k):
            sample = np.sort(generator.choice(left, min(size, len(left)), replace=False))
            strips = [sample[start : start + STRIP] for start in range(0, len(sample), STRIP)]
            found = np.concatenate(team.run([partial(_gains, vectors, s, cover) for s in strips]))
            best = int(np.argmax(found))  # the first of equal ones
            picks[rank], gains[rank] = sample[best], found[best]
            # Twice, because the library multiplies, and rounds, a single row in another way.
            products = (vectors[[picks[rank]] * 2] @ vectors.T)[0]
            products[picks[rank]] = 1
            raise_cover(products, cover)
            left = left[left != picks[rank]]
            evaluations += len(sample)
    return Greedy(picks, gains, evaluations, cover)


def _gains(vectors: Singles, rows: Rows, cover: Singles) -> Doubles:
    """What each of ``rows`` would add to f now, shape (rows,), summed as the exact greedy does."""
    from decomposerl.kernels.facility_loops import LANES, add_tile, sum_all_lanes

    chosen, numbers = vectors[rows], np.arange(len(rows))
    lanes, sums = np.zeros((len(rows), LANES)), np.empty(len(rows))
    for first in range(0, len(vectors), TILE):
        tile = chosen @ vectors[first : first + TILE].T
        own = np.flatnonzero((rows >= first) & (rows < first + TILE))
        tile[own, rows[own] - first] = 1
        add_tile(tile, numbers, first, cover, lanes)
    sum_all_lanes(lanes, sums)
    return sums
