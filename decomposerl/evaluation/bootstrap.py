"""Bootstrap over claims, with claims that share evidence drawn together.

Takes columns of numbers, one row per claim, gives their sums over resampled claims, shape (draws,
columns), from which metrics and their percentile intervals follow. Seeded, exact, and without a
Python loop over draws.

A cluster is a document with all its claims. Clusters with only Supported claims, with only Refuted
ones, and with both (and so on for three labels) are drawn separately, each as often as there are of
them, which keeps the labels' shares. With one claim a document this is the bootstrap within labels.
Intervals are percentiles without a bias correction.
"""

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.metrics import Codes, Counts, Numbers

DRAWS = 10_000
LEVEL = 0.95
LEAST_UNITS = 30
"""Least number of clusters for an interval of percentiles."""
_BLOCK = 1 << 17
"""Numbers in memory at once: what fits a core's cache."""
_FEW = 8
"""Least clusters per kind on average: below it drawing clusters one by one is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Which claims are drawn together. The clusters of a stratum are numbered consecutively.

    ``of_row`` (n,) is the cluster of each claim, ``starts`` (strata + 1,) the first cluster of
    each stratum, and the number of clusters at the end.
    """

    of_row: Codes
    starts: Codes

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.starts[-1])

    def sums(self, columns: Counts) -> Numbers:
        """Sums of columns (n, k) over the claims of each cluster, shape (clusters, k)."""
        rows = [np.bincount(self.of_row, column, self.count) for column in columns.T]
        return np.stack(rows, axis=1)

    def fewest(self, sides: NDArray[np.bool_]) -> int:
        """Number of clusters with a claim of the rarer side of the mask (n,)."""
        both = self.sums(np.stack([sides, ~sides], axis=1)) > 0
        return int(both.sum(axis=0).min())


def generator(seed: int, *names: str) -> np.random.Generator:
    """The generator for these names: the same each time, independent of those of other names."""
    digest = hashlib.sha256("\x1f".join(names).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])


def clusters_of(labels: Codes, documents: Sequence[Hashable | None] | None = None) -> Clusters:
    """Clusters of claims by document; a claim without one is a separate cluster."""
    if documents is None:
        first = np.arange(len(labels))
    else:
        numbers: dict[Hashable, int] = {}
        named = (
            ("row", row) if document is None else ("document", document)
            for row, document in enumerate(documents)
        )
        first = np.fromiter((numbers.setdefault(name, len(numbers)) for name in named), np.int64)
    classes = int(labels.max(initial=0)) + 1
    has_label = np.zeros((int(first.max(initial=-1)) + 1, classes), dtype=np.bool_)
    has_label[first, labels] = True
    # 1: Supported only, 2: Refuted only, 3: both; three-way 4 to 7 with the third label, and so on
    strata = has_label @ (1 << np.arange(classes))
    order = np.argsort(strata, kind="stable")
    renumbered = np.empty(len(order), dtype=np.int64)
    renumbered[order] = np.arange(len(order))
    sizes = np.bincount(strata)
    return Clusters(renumbered[first], np.concatenate([[0], np.cumsum(sizes[sizes > 0])]))


def resampled_sums(
    columns: Counts, clusters: Clusters, rng: np.random.Generator, draws: int = DRAWS
) -> Numbers:
    """Sums of ``columns`` (n, k) over the claims of each draw, shape (draws, k)."""
    total = np.zeros((draws, columns.shape[1]))
    sums = clusters.sums(columns)
    for start, stop in zip(clusters.starts[:-1], clusters.starts[1:], strict=True):
        total += _stratum_sums(sums[start:stop], rng, draws)
    return total


def interval(values: Numbers, level: float = LEVEL) -> tuple[float, float]:
    """The central ``level`` of the draws, without those that are NaN."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def safe_interval(values: Numbers, units: int, level: float = LEVEL) -> tuple[float, float]:
    """``interval`` of draws over ``units`` clusters; NaN below ``LEAST_UNITS`` or without spread.

    Percentiles of few clusters, or of equal draws, are narrower than the data justify.
    """
    low, high = interval(values, level)
    return (low, high) if units >= LEAST_UNITS and low < high else (np.nan, np.nan)


def auroc_draws(
    scores: Numbers,
    positive: NDArray[np.bool_],
    clusters: Clusters,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Numbers:
    """AUROC of each draw, shape (draws,); NaN where a draw lacks one side."""
    above, below = np.flatnonzero(positive), np.flatnonzero(~positive)
    below = below[np.argsort(scores[below], kind="stable")]
    beaten = [np.searchsorted(scores[below], scores[above], side) for side in ("left", "right")]
    above_cluster, below_cluster = clusters.of_row[above], clusters.of_row[below]
    blocks = [np.empty(0)]
    for picks in _all_picks(clusters, rng, draws):
        # Column j: how many drawn negatives are among the j lowest, counted with their picks.
        lowest = np.zeros((len(picks), len(below) + 1))
        np.cumsum(picks[:, below_cluster], axis=1, out=lowest[:, 1:])
        weights = picks[:, above_cluster]
        wins = np.einsum("dn,dn->d", weights, lowest[:, beaten[0]] + lowest[:, beaten[1]]) / 2
        pairs = weights.sum(axis=1) * lowest[:, -1]
        blocks.append(np.divide(wins, pairs, out=np.full(len(wins), np.nan), where=pairs > 0))
    return np.concatenate(blocks)


def _all_picks(
    clusters: Clusters, rng: np.random.Generator, draws: int
) -> Iterator[NDArray[np.float64]]:
    """How often each cluster is picked, in blocks of draws, shape (some draws, clusters)."""
    size = max(1, _BLOCK // max(clusters.count, 1))
    for start in range(0, draws, size):
        some = min(size, draws - start)
        parts = [
            _picks(int(stop - first), rng, some)
            for first, stop in zip(clusters.starts[:-1], clusters.starts[1:], strict=True)
        ]
        yield np.concatenate([np.empty((some, 0)), *parts], axis=1)


def _stratum_sums(sums: Numbers, rng: np.random.Generator, draws: int) -> Numbers:
    # Clusters with equal sums are exchangeable, so the number of picks of each kind is multinomial.
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    one_by_one = len(kinds) * _FEW > len(sums)
    size = max(1, _BLOCK // (len(sums) if one_by_one else len(kinds)))
    blocks = [np.empty((0, sums.shape[1]))]
    for start in range(0, draws, size):
        some = min(size, draws - start)
        if one_by_one:
            blocks.append(_picks(len(sums), rng, some) @ sums)
        else:
            blocks.append(rng.multinomial(len(sums), counts / len(sums), size=some) @ kinds)
    return np.concatenate(blocks)


def _picks(count: int, rng: np.random.Generator, draws: int) -> NDArray[np.int64]:
    """How often each of ``count`` is picked in ``count`` picks, shape (draws, count)."""
    picks = rng.integers(0, count, size=(draws, count), dtype=np.int32).astype(np.int64)
    # One bincount for all draws: each draw counts in a separate range.
    picks += np.arange(draws)[:, None] * count
    return np.bincount(picks.ravel(), minlength=draws * count).reshape(draws, count)
