"""The selectors behind one function: facility location and what it is compared with.

Takes unit vectors and a number of rows to pick, gives a ``Selection``. Every method
reports the same f(S), so that they can be compared on equal terms (paper, appendix
"Selector Comparison").
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.facility_location import (
    Floats,
    coverage_gains,
    facility_locations,
)
from decomposerl.kernels.threads import Team

Method = Literal["facility_location", "k_means", "farthest_point", "random"]
Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Gains = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector picked.

    ``picks`` int64 (k,) are row numbers in order of choice, all different; ``gains``
    float64 (k,) is what each added to f(S); ``objective`` is f(S); ``evaluations`` counts
    the gains that were computed; ``cover`` (n,) is each row's cosine to the pick
    nearest to it, 0 where that is negative.
    """

    picks: Rows
    gains: Gains
    objective: float
    evaluations: int
    cover: Floats


def select(
    vectors: Vectors, k: int, method: Method, seed: int = 42, *, threads: int = 0
) -> Selection:
    """Pick ``min(k, n)`` of the unit rows ``vectors``, shape (n, d).

    ``k_means``: the nearest unused row to each of k centroids; ``farthest_point``: from row
    0 on, always the row least similar to its nearest pick; ``random``: uniform. ``seed``
    matters to ``k_means`` and ``random`` alone; ties go to the lowest index.
    """
    whole = [(np.arange(len(vectors)), k)]
    return select_each(vectors, whole, method, seed, threads=threads)[0]


def select_each(
    vectors: Vectors,
    cells: Sequence[tuple[Rows, int]],
    method: Method,
    seed: int = 42,
    *,
    threads: int = 0,
) -> list[Selection]:
    """``select`` within each cell ``(rows, k)``, several cells at a time.

    Picks are places in ``rows``. Neither the cells beside it nor the number of threads
    changes a cell's selection.
    """
    if method == "facility_location":
        greedies = facility_locations(vectors, cells, threads=threads)
        return [_selection(g.picks, g.gains, g.evaluations, g.cover) for g in greedies]
    largest_first = sorted(range(len(cells)), key=lambda cell: -len(cells[cell][0]))
    tasks = [partial(_select_one, vectors, *cells[cell], method, seed) for cell in largest_first]
    with Team(threads) as team, warnings.catch_warnings():
        # Rows equal up to rounding merge into one cluster; the picks stay distinct.
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        done = dict(zip(largest_first, team.run(tasks), strict=True))
    return [done[cell] for cell in range(len(cells))]


def _selection(picks: Rows, gains: Gains, evaluations: int, cover: Floats) -> Selection:
    return Selection(picks, gains, float(gains.sum()), evaluations, cover)


def _select_one(vectors: Vectors, rows: Rows, k: int, method: Method, seed: int) -> Selection:
    part, k = vectors[rows], min(k, len(rows))
    if method == "k_means":
        picks = _k_means(part, k, seed)
    elif method == "farthest_point":
        picks = _farthest_point(part, k)
    else:
        picks = np.random.default_rng(seed).permutation(len(part))[:k].astype(np.int64)
    gains, cover = coverage_gains(part, picks)
    return _selection(picks, gains, k, cover)


def _k_means(vectors: Vectors, k: int, seed: int) -> Rows:
    """Nearest unused row to each centroid; rows left to pick come in order of index.

    There are at most as many clusters as distinct rows.
    """
    if k in {0, len(vectors)}:
        return np.arange(k)
    unused = np.ones(len(vectors), np.bool_)
    picks: list[int] = []
    half_squares = (vectors**2).sum(axis=1) / 2
    for centre in _centres(vectors, min(k, len(np.unique(vectors, axis=0))), seed):
        closeness = np.where(unused, vectors @ centre - half_squares, -np.inf)
        picks.append(int(np.argmax(closeness)))
        unused[picks[-1]] = False
    rest = np.flatnonzero(unused)[: k - len(picks)]
    return np.concatenate((np.array(picks, np.int64), rest))


def _centres(vectors: Vectors, clusters: int, seed: int) -> Vectors:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    # The team's limit does not reach OpenMP in its own threads, and an OpenMP team that spins
    # beside a busy core is many times slower than one thread.
    with threadpool_limits(1, user_api="openmp"):
        fitted = KMeans(clusters, n_init=1, random_state=seed).fit(vectors)
    centres: Vectors = fitted.cluster_centers_
    return centres


def _farthest_point(vectors: Vectors, k: int) -> Rows:
    picks = np.empty(k, np.int64)
    nearest = np.full(len(vectors), -np.inf, np.float32)
    for place in range(k):
        picks[place] = 0 if place == 0 else int(np.argmin(nearest))
        nearest = np.maximum(nearest, vectors @ vectors[picks[place]])
        nearest[picks[: place + 1]] = np.inf
    return picks
