"""The selectors on the same cells, and what their picks have in common with the pool.

The paper's appendix "Diversity Selector Ablation". Measures are on the whole pool, as there;
quotas and cells are those of ``selection``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.funnel.selection import label_source_cells
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.selectors import (
    METHODS,
    SEEDED,
    Method,
    Rows,
    Selection,
    Vectors,
    missing_package,
    select_each,
)
from decomposerl.schemas import SELECTOR_STUDY

BINS = 50
NEIGHBOURS, MOST_ISOLATED = 10, 0.05
PAPER_POOL, PAPER_BUDGET = 17_328, 5_000
_PAPER_CELL = (3_482, 430)
_PAPER_ENGINE = "text-embedding-3-large"
_PAPER = (
    ("facility_location", 66.6, 0.467, 0.653, 7.6, 3.28, 23.7),
    ("k_means", 68.3, 0.473, 0.659, 7.0, 3.28, 103.2),
    ("farthest_point", 56.6, 0.531, 0.667, 12.5, 3.28, 0.1),
)
"""As printed; the seconds are those of the largest cell."""
_BLOCK = 512
Distances = NDArray[np.float64]
Clocks = Mapping[str, Callable[[], float]]
_Cell = tuple[Rows, int]


class PickMeasures(NamedTuple):
    """``bins`` and ``isolated`` in percent, cosine distances, ``source_entropy`` in bits."""

    bins: float
    distance_median: float
    distance_95: float
    isolated: float
    source_entropy: float


@dataclass(frozen=True, slots=True)
class Pool:
    """The claims to select from, and what does not depend on the selector.

    ``vectors`` (n, d) are unit rows and ``sources`` (n,) the corpora. ``plane`` (n, 2) are the
    first two principal components, ``bins`` (n,) numbers the bin of each claim on a grid of
    50 × 50 over their extent, ``isolated`` (n,) flags the 5 % with the greatest mean cosine
    distance to their 10 nearest neighbours, ``sample`` (m,) are rows whose distances count.
    """

    vectors: Vectors
    sources: Sequence[str]
    plane: Vectors
    bins: Rows
    isolated: NDArray[np.bool_]
    sample: Rows

    @classmethod
    def of(cls, vectors: Vectors, sources: Sequence[str], sample: int, seed: int) -> "Pool":
        """The pool of unit rows, with ``sample`` of them drawn by ``seed``, all where fewer."""
        plane = principal_plane(vectors)
        drawn = np.random.default_rng(seed).permutation(len(vectors))[:sample]
        isolated = np.zeros(len(vectors), np.bool_)
        order = np.argsort(-isolation(vectors), kind="stable")
        isolated[order[: round(MOST_ISOLATED * len(vectors))]] = True
        return cls(vectors, sources, plane, grid_bins(plane), isolated, np.sort(drawn))

    def distances(self, picks: Rows) -> Distances:
        """The cosine distance of each row of the sample to the pick nearest to it, (m,).

        Infinite without picks; a pick's own is 0.
        """
        nearest = np.full(len(self.sample), -np.inf, np.float32)
        chosen = np.zeros(len(self.vectors), np.bool_)
        chosen[picks] = True
        for start in range(0, len(picks), _BLOCK):
            block = self.vectors[picks[start : start + _BLOCK]]
            products = self.vectors[self.sample] @ block.T
            np.maximum(nearest, products.max(axis=1), out=nearest)
        distances = 1 - nearest.astype(np.float64)
        return np.where(chosen[self.sample], 0.0, distances)

    def measures(self, picks: Rows, distances: Distances) -> PickMeasures:
        """The measures of some picks; ``distances`` are theirs. NaN where there are no rows."""
        occupied = np.unique(self.bins).size
        return PickMeasures(
            bins=100 * np.unique(self.bins[picks]).size / occupied if occupied else np.nan,
            distance_median=_quantile(distances, 0.5),
            distance_95=_quantile(distances, 0.95),
            isolated=100 * float(self.isolated[picks].mean()) if picks.size else np.nan,
            source_entropy=entropy_bits([self.sources[pick] for pick in picks.tolist()]),
        )


def principal_plane(vectors: Vectors) -> Vectors:
    """Each row's first two principal components, (n, 2); zeros where there are no two."""
    from sklearn.decomposition import PCA

    if min(vectors.shape) < 2:  # noqa: PLR2004 - a plane
        return np.zeros((len(vectors), 2), np.float32)
    plane: Vectors = PCA(2, svd_solver="covariance_eigh").fit_transform(vectors)
    return plane


def grid_bins(plane: Vectors) -> Rows:
    """The number of each row's bin on a grid of 50 × 50 from the least to the greatest value."""
    if not len(plane):
        return np.empty(0, np.int64)
    low, extent = plane.min(axis=0), np.ptp(plane, axis=0)
    places = (plane - low) / np.where(extent > 0, extent, 1) * BINS
    columns = np.minimum(places.astype(np.int64), BINS - 1)
    numbers: Rows = columns[:, 0] * BINS + columns[:, 1]
    return numbers


def isolation(vectors: Vectors) -> Distances:
    """The mean cosine distance of each row to its 10 nearest others, or to all where fewer."""
    means, others = np.zeros(len(vectors)), min(NEIGHBOURS, len(vectors) - 1)
    if others < 1:
        return means
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        own = np.arange(len(cosines))
        cosines[own, start + own] = -np.inf
        nearest = np.partition(cosines, -others, axis=1)[:, -others:]
        means[start : start + _BLOCK] = 1 - nearest.mean(axis=1, dtype=np.float64)
    return means


def entropy_bits(names: Sequence[str]) -> float:
    """The Shannon entropy of the names' frequencies, in bits; 0 for none."""
    _, counts = np.unique(np.asarray(names, dtype=str), return_counts=True)
    shares = counts / max(len(names), 1)
    return float(-(shares * np.log2(shares)).sum()) + 0.0  # of one name 0, not -0


def _quantile(distances: Distances, share: float) -> float:
    return float(np.quantile(distances, share)) if distances.size else np.nan


@dataclass(frozen=True, slots=True)
class SelectorComparison:
    """``table`` is ``SELECTOR_STUDY``; ``picks`` (k,), ``distances`` (m,) of each first seed.

    ``missing`` are sentences, one for each selector that could not run.
    """

    table: pl.DataFrame
    pool: Pool
    picks: Mapping[Method, Rows]
    distances: Mapping[Method, Distances]
    missing: Sequence[str] = ()


def compare_selectors(
    vectors: Vectors,
    claims: pl.DataFrame,
    settings: SelectorStudySettings,
    engine: str,
    clocks: Clocks,
) -> SelectorComparison:
    """Select from the same cells with each selector, and measure; the paper's rows come last.

    ``vectors`` (n, d) are the unit rows of ``claims``, which needs ``label`` and ``source``;
    ``engine`` made them. ``clocks`` give seconds by column of the table. A selector whose package
    is not installed is left out.
    """
    pool = Pool.of(vectors, claims["source"].to_list(), settings.sample, settings.seed)
    cells = _quotas(claims, settings.budget_per_label)
    chosen = [method for method in METHODS if method in settings.selectors]
    absent = {method: said for method in chosen if (said := missing_package(method))}
    picks: dict[Method, Rows] = {}
    distances: dict[Method, Distances] = {}
    rows = []
    for method in (one for one in chosen if one not in absent):
        for run in _runs(vectors, cells, method, settings, clocks):
            found = pool.distances(run.picks)
            picks.setdefault(method, run.picks)
            distances.setdefault(method, found)
            facility = picks.get("facility_location")
            shared = None if facility is None else _shared(run.picks, facility)
            measured = pool.measures(run.picks, found)._asdict()
            rows.append({**run.row, **measured, "engine": engine, "shared": shared})
    table = pl.DataFrame([*rows, *_paper_rows()], schema=SELECTOR_STUDY.schema)
    return SelectorComparison(table, pool, picks, distances, tuple(absent.values()))


class _Run(NamedTuple):
    picks: Rows
    row: Mapping[str, object]


def _runs(
    vectors: Vectors,
    cells: Sequence[_Cell],
    method: Method,
    settings: SelectorStudySettings,
    clocks: Clocks,
) -> Iterator[_Run]:
    """A run for each seed: all cells, then the largest one alone."""
    largest = max(cells, key=lambda cell: len(cell[0]), default=(np.empty(0, np.int64), 0))
    timed = partial(_timed, vectors, method, settings.threads, clocks)
    timed([(largest[0][:8], 2)], settings.seed)  # loops are compiled before the clocks count
    for seed in range(settings.seed, settings.seed + (settings.seeds if method in SEEDED else 1)):
        selections, took = timed(cells, seed)
        _, alone = timed([largest], seed)
        picks = _pool_rows(cells, selections)
        row = {
            "origin": "here",
            "selector": method,
            "seed": seed if method in SEEDED else None,
            "pool": len(vectors),
            "selected": len(picks),
            "mean_cover": sum(one.objective for one in selections) / max(len(vectors), 1),
            **took,
            "largest_cell": len(largest[0]),
            "largest_budget": largest[1],
            **{f"largest_{name}": seconds for name, seconds in alone.items()},
        }
        yield _Run(picks, row)


def _timed(
    vectors: Vectors,
    method: Method,
    threads: int,
    clocks: Clocks,
    cells: Sequence[_Cell],
    seed: int,
) -> tuple[list[Selection], dict[str, float]]:
    started = {name: clock() for name, clock in clocks.items()}
    made = select_each(vectors, cells, method, seed, threads=threads)
    return made, {name: clocks[name]() - since for name, since in started.items()}


def _quotas(claims: pl.DataFrame, budget_per_label: int) -> list[_Cell]:
    share = PAPER_BUDGET / PAPER_POOL
    budget = budget_per_label or round(share * claims.height / 2)
    cells = label_source_cells(claims, budget)
    return [
        (np.array(rows, np.int64), min(k, len(rows)))
        for rows, k in cells.select("rows", "budget").iter_rows()
    ]


def _pool_rows(cells: Sequence[_Cell], selections: Sequence[Selection]) -> Rows:
    """The picks of all cells as rows of the pool."""
    parts = [rows[one.picks] for (rows, _), one in zip(cells, selections, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _shared(picks: Rows, others: Rows) -> float:
    return 100 * float(np.isin(picks, others).mean()) if picks.size else np.nan


def _paper_rows() -> list[dict[str, object]]:
    names = (*PickMeasures._fields, "largest_seconds")
    return [
        {
            "origin": "paper",
            "selector": selector,
            "engine": _PAPER_ENGINE,
            "pool": PAPER_POOL,
            "selected": PAPER_BUDGET,
            **dict(zip(names, printed, strict=True)),
            "largest_cell": _PAPER_CELL[0],
            "largest_budget": _PAPER_CELL[1],
        }
        for selector, *printed in _PAPER
    ]
