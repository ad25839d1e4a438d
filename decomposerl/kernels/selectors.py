"""The selectors behind one function: facility location and what it is compared with.

Every method reports the same f(S), so that they can be compared (paper, appendix
"Selector Comparison").
"""

import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.extras import not_installed, require
from decomposerl.kernels.facility_location import (
    Greedy,
    cosine_matrix,
    coverage_gains,
    facility_locations,
)
from decomposerl.kernels.threads import Team

Method = Literal["facility_location", "apricot", "k_means", "farthest_point", "random"]
METHODS: tuple[Method, ...] = get_args(Method)
SEEDED: frozenset[Method] = frozenset({"k_means", "random"})
"""The selectors that draw."""
APRICOT_ROWS = 32_768
"""Most rows in a cell for apricot: its matrix then takes 8 GiB."""
Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Selection = Greedy  # every selector says what it picked as the greedy does


def select_each(
    vectors: Vectors,
    cells: Sequence[tuple[Rows, int]],
    method: Method,
    seed: int = 42,
    *,
    threads: int = 0,
) -> list[Selection]:
    """Pick ``min(k, n)`` of the unit rows ``vectors[rows]`` in each cell ``(rows, k)``.

    ``apricot``: apricot-select's lazy greedy for the same f(S) on the same cosines, in float64;
    its sums are rounded in another order, which may decide a near tie. ``k_means``: the nearest
    unused row to each of k centroids; ``farthest_point``: row 0, then always the row least
    similar to its nearest pick; ``random``: uniform. ``seed``
    affects ``k_means`` and ``random`` only; ties go to the lowest index.

    Picks index ``rows``. A cell's selection depends neither on the other cells nor on the
    number of threads.

    Raises:
        EngineMissing: apricot-select is not installed.
        EngineError: a cell is too large for apricot's dense matrix.
    """
    if method == "apricot":
        _require_apricot(max((len(rows) for rows, _ in cells), default=0))
    if method == "facility_location":
        return facility_locations(vectors, cells, threads=threads)
    # The longest task first, so that it does not end alone after all others.
    largest_first = sorted(range(len(cells)), key=lambda cell: -len(cells[cell][0]))
    tasks = [partial(_select_one, vectors, *cells[cell], method, seed) for cell in largest_first]
    with Team(threads) as team, warnings.catch_warnings():
        # Rows equal up to rounding merge into one cluster; the picks stay distinct.
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        done = dict(zip(largest_first, team.run(tasks), strict=True))
    return [done[cell] for cell in range(len(cells))]


def missing_package(method: Method) -> str:
    """The sentence of the error that a selector would raise here, empty where it can run."""
    absent = method == "apricot" and find_spec("apricot") is None
    return not_installed("apricot") if absent else ""


def _select_one(vectors: Vectors, rows: Rows, k: int, method: Method, seed: int) -> Selection:
    part, k = vectors[rows], min(k, len(rows))
    if method == "k_means":
        picks = _k_means(part, k, seed)
    elif method == "farthest_point":
        picks = _farthest_point(part, k)
    elif method == "apricot":
        picks = _apricot(part, k)
    else:
        picks = np.random.default_rng(seed).permutation(len(part))[:k].astype(np.int64)
    gains, cover = coverage_gains(part, picks)
    return Selection(picks, gains, k, cover)


def _require_apricot(rows: int) -> None:
    require("apricot")
    if rows > APRICOT_ROWS:
        raise EngineError(
            f"apricot would hold {8 * rows**2 / 1024**3:,.0f} GiB for the cosines of {rows:,} "
            "claims; use facility_location, which has no such limit"
        )


def _apricot(vectors: Vectors, k: int) -> Rows:
    """As apricot ranks the rows; where it repeats one, the unused rows come last by index.

    Once no row adds anything, apricot picks a row again.
    """
    from apricot import FacilityLocationSelection

    if k == 0:
        return np.empty(0, np.int64)
    # Not its own metric "cosine", which is the square of the cosine.
    clipped = np.maximum(cosine_matrix(vectors), 0).astype(np.float64)
    fitted = FacilityLocationSelection(k, metric="precomputed", optimizer="lazy").fit(clipped)
    ranked = dict.fromkeys(int(row) for row in fitted.ranking)
    return np.array([*ranked, *(row for row in range(len(vectors)) if row not in ranked)][:k])


def _k_means(vectors: Vectors, k: int, seed: int) -> Rows:
    """Nearest unused row to each centroid; rows left to pick come in order of index.

    There are at most as many clusters as distinct rows.
    """
    if k in {0, len(vectors)}:
        return np.arange(k)
    unused = np.ones(len(vectors), np.bool_)
    picks: list[int] = []
    # Nearest by Euclidean distance: |x - c|^2 = |x|^2 - 2 x.c + |c|^2, and |c| is constant.
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

    # The thread limit of a team does not reach OpenMP inside its worker threads, and OpenMP
    # threads that spin next to a busy core are many times slower than one thread.
    with threadpool_limits(1, user_api="openmp"):
        fitted = KMeans(clusters, n_init=1, random_state=seed).fit(vectors)
    centres: Vectors = fitted.cluster_centers_
    return centres


def _farthest_point(vectors: Vectors, k: int) -> Rows:
    picks = np.empty(k, np.int64)
    nearest = np.full(len(vectors), -np.inf, np.float32)
    for rank in range(k):
        picks[rank] = 0 if rank == 0 else int(np.argmin(nearest))
        nearest = np.maximum(nearest, vectors @ vectors[picks[rank]])
        # Rounding may leave a pick's similarity to itself below that of another row.
        nearest[picks[: rank + 1]] = np.inf
    return picks
