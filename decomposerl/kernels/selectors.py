"""The selectors behind one function: facility location and what it is compared with.

Takes unit vectors and a number of rows to pick, gives a ``Selection``. Every method
reports the same f(S), so that they can be compared on equal terms (paper, appendix
"Selector Comparison").

Left out deliberately: cells, quotas and labels (``funnel/selection.py``).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.facility_location import coverage_gains, facility_location

Method = Literal["facility_location", "k_means", "farthest_point", "random"]
Vectors = NDArray[np.float32]
Picks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector picked.

    ``picks`` int64 (k,) are row numbers in order of choice, all different; ``gains``
    float64 (k,) is what each added to f(S); ``objective`` is f(S); ``evaluations`` counts
    the gains that were computed.
    """

    picks: Picks
    gains: NDArray[np.float64]
    objective: float
    evaluations: int


def select(vectors: Vectors, k: int, method: Method, seed: int = 42) -> Selection:
    """Pick ``min(k, n)`` of the unit rows ``vectors``, shape (n, d).

    ``k_means``: the nearest unused row to each of k centroids; ``farthest_point``: from row
    0 on, always the row least similar to its nearest pick; ``random``: uniform. ``seed``
    matters to ``k_means`` and ``random`` alone; ties go to the lowest index.
    """
    k = min(k, len(vectors))
    if method == "facility_location":
        greedy = facility_location(vectors, k)
        return Selection(*greedy[:2], float(greedy.gains.sum()), greedy.evaluations)
    if method == "k_means":
        picks = _k_means(vectors, k, seed)
    elif method == "farthest_point":
        picks = _farthest_point(vectors, k)
    else:
        picks = np.random.default_rng(seed).permutation(len(vectors))[:k]
    gains = coverage_gains(vectors, picks.tolist())
    return Selection(picks.astype(np.int64), gains, float(gains.sum()), k)


def _k_means(vectors: Vectors, k: int, seed: int) -> Picks:
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
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Rows equal up to rounding merge into one cluster; the picks below stay distinct.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(clusters, n_init=1, random_state=seed).fit(vectors)
    centres: Vectors = fitted.cluster_centers_
    return centres


def _farthest_point(vectors: Vectors, k: int) -> Picks:
    picks = np.empty(k, np.int64)
    nearest = np.full(len(vectors), -np.inf, np.float32)
    for place in range(k):
        picks[place] = 0 if place == 0 else int(np.argmin(nearest))
        nearest = np.maximum(nearest, vectors @ vectors[picks[place]])
        nearest[picks[: place + 1]] = np.inf
    return picks
