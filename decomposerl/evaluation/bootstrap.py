"""Bootstrap intervals: claims drawn anew, with those that share evidence drawn together.

Takes columns of numbers, one row per claim, gives their sums over resampled claims, shape
(draws, columns), from which metrics and intervals follow. Seeded, exact and without a loop
over draws: clusters of a stratum with the same sums are exchangeable, so how often each kind
is drawn is one multinomial number per kind; where nearly every cluster is of its own kind,
clusters are drawn by number.

A cluster is a document with all its claims. Strata keep the labels' shares: clusters that
hold only Supported claims, only Refuted ones, and both are drawn apart, each as often as there
are of them. With one claim per document this is the bootstrap within labels.

Percentiles of few clusters, or of draws that are all the same, are narrower than what is known:
``safe_interval`` gives none there.

Left out deliberately: which metric (``evaluation.metrics``), shares of claims, whose intervals have
a closed form (``evaluation.intervals``), and corrections of bias: the interval is the percentiles
of the draws.
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
"""Clusters of which percentiles of draws are taken at least."""
_BLOCK = 1 << 17
"""Numbers held at once: what fits a core's cache."""
_FEW = 8
"""A kind must stand for so many clusters, or drawing by number is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Which claims are drawn together. Clusters of a stratum have numbers in a row.

    ``of_row`` (n,) is the cluster of each claim, ``starts`` (strata + 1,) the first cluster of
    each stratum and their number at the end.
    """

    of_row: Codes
    starts: Codes

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(self.starts[-1])

    def sums(self, columns: Counts) -> Numbers:
        """Sums of columns (n, k) over the claims of each cluster, shape (clusters, k)."""
        rows = [np.bincount(self.of_row, column, self.count) for column in columns.T]
        return np.stack(rows, axis=1)

    def fewest(self, sides: NDArray[np.bool_]) -> int:
        """Clusters with a claim of the side (n,) that fewer have."""
        both = self.sums(np.stack([sides, ~sides], axis=1)) > 0
        return int(both.sum(axis=0).min())


def generator(seed: int, *names: str) -> np.random.Generator:
    """The generator of one figure: the same for the same names, independent for others."""
    digest = hashlib.sha256("\x1f".join(names).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])


def clusters_of(labels: Codes, documents: Sequence[Hashable | None] | None = None) -> Clusters:
    """Clusters of claims by document; a claim without one stands alone."""
    if documents is None:
        first = np.arange(len(labels))
    else:
        numbers: dict[Hashable, int] = {}
        named = (
            ("row", row) if document is None else ("document", document)
            for row, document in enumerate(documents)
        )
        first = np.fromiter((numbers.setdefault(name, len(numbers)) for name in named), np.int64)
    held = np.zeros((int(first.max(initial=-1)) + 1, 2), dtype=np.bool_)
    held[first, labels] = True
    strata = held @ np.array([1, 2])
    order = np.argsort(strata, kind="stable")
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    sizes = np.bincount(strata, minlength=4)
    return Clusters(places[first], np.concatenate([[0], np.cumsum(sizes[sizes > 0])]))


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
    """The middle ``level`` of the draws; draws without a value (NaN) are left out."""
    found = values[~np.isnan(values)]
    if not len(found):
        return np.nan, np.nan
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def safe_interval(values: Numbers, units: int, level: float = LEVEL) -> tuple[float, float]:
    """``interval`` of draws over so many clusters; NaN below ``LEAST_UNITS`` or without spread."""
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
    found = [np.empty(0)]
    for picks in _all_picks(clusters, rng, draws):
        passed = np.zeros((len(picks), len(below) + 1))
        np.cumsum(picks[:, below_cluster], axis=1, out=passed[:, 1:])
        weights = picks[:, above_cluster]
        wins = np.einsum("dn,dn->d", weights, passed[:, beaten[0]] + passed[:, beaten[1]]) / 2
        pairs = weights.sum(axis=1) * passed[:, -1]
        found.append(np.divide(wins, pairs, out=np.full(len(wins), np.nan), where=pairs > 0))
    return np.concatenate(found)


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
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    many = len(kinds) * _FEW > len(sums)
    size = max(1, _BLOCK // (len(sums) if many else len(kinds)))
    found = [np.empty((0, sums.shape[1]))]
    for start in range(0, draws, size):
        some = min(size, draws - start)
        if many:
            found.append(_picks(len(sums), rng, some) @ sums)
        else:
            found.append(rng.multinomial(len(sums), counts / len(sums), size=some) @ kinds)
    return np.concatenate(found)


def _picks(count: int, rng: np.random.Generator, draws: int) -> NDArray[np.int64]:
    """How often each of ``count`` is picked in ``count`` picks, shape (draws, count)."""
    picks = rng.integers(0, count, size=(draws, count), dtype=np.int32).astype(np.int64)
    picks += np.arange(draws)[:, None] * count
    return np.bincount(picks.ravel(), minlength=draws * count).reshape(draws, count)
