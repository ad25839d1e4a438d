"""Confidence intervals: in closed form for shares of claims, by bootstrap for other metrics.

Outcomes are by claim, with the clusters of claims that share evidence (``Clusters``). Bounds are
0..1, of differences -1..1.

In closed form (these do not collapse: a percentile bootstrap of four right verdicts of four is
[1, 1]):

* A share: Wilson's score interval (Wilson, 1927; Brown, Cai and DasGupta, 2001).
* F1 = 2J / (1 + J), with J the share TP / (TP + FP + FN): the interval of J, transformed
  (Hand, Christen and Kirielle, 2021).
* A mean of shares (balanced accuracy, macro-F1) or of test sets: MOVER, the distances to the
  bounds of the parts added in squares, with the parts' correlation (Zou and Donner, 2008).
* A difference of two systems within a label: Bonett and Price (2012), one claim added to either
  kind of disagreement; then MOVER over the labels.
* Claims of shared documents: each share counts as its effective number of claims, by the
  linearized variance over documents (Korn and Graubard, 1998; Dean and Pagano, 2015), with
  Student's t for few documents. Where nothing varies (0 or 1) all claims of a document are taken
  to have the same outcome.

By bootstrap (AUROC, calibration, counts): sums of columns over resampled claims, shape (draws,
columns), seeded, exact, and without a Python loop over draws. A cluster is a document with all its
claims. Clusters with only Supported claims, with only Refuted ones, and with both (and so on for
three labels) are drawn separately, each as often as there are of them, which keeps the labels'
shares. With one claim a document this is the bootstrap within labels. Intervals are percentiles
without a bias correction.

``studies/interval_coverage.py`` measures their coverage (``docs/results/intervals.md``).
"""

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.metrics import Codes, Counts, Numbers, count_metrics, indicators

Bounds = tuple[float, float]
Interval = Callable[[float], Bounds]
"""Bounds by confidence level, 0..1."""
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
    numbers: dict[Hashable, int] = {}
    names: Iterable[Hashable] = range(len(labels))
    if documents is not None:
        rows = enumerate(documents)
        names = [("row", row) if name is None else ("document", name) for row, name in rows]
    first = np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.int64)
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
    for start, stop in pairwise(clusters.starts):
        total += _stratum_sums(sums[start:stop], rng, draws)
    return total


def interval(values: Numbers, level: float = LEVEL) -> Bounds:
    """The central ``level`` of the draws, without those that are NaN."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def safe_interval(values: Numbers, units: int, level: float = LEVEL) -> Bounds:
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
        parts = [_picks(int(stop - first), rng, some) for first, stop in pairwise(clusters.starts)]
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


class _Estimate(NamedTuple):
    """A share with its bounds; of each cluster the deviation from it, and its claims."""

    value: float
    low: float
    high: float
    spread: Numbers
    sizes: Numbers


def metric_interval(
    metric: str,
    labels: Codes,
    verdicts: Codes,
    clusters: Clusters,
    level: float = LEVEL,
    classes: int = 2,
) -> Bounds:
    """The interval of a metric of ``count_metrics``; NaN where the metric is not defined."""
    sums = clusters.sums(indicators(labels, verdicts, classes))
    measure = count_metrics(classes)[metric]
    if np.isnan(measure(sums.sum(axis=0).reshape(classes, classes + 1))):
        return math.nan, math.nan
    parts = []
    for share in measure.shares:
        hits, of = (sums[:, list(cells)].sum(axis=1) for cells in (share.hits, share.of))
        part = _share(hits, of, level)
        if share.f1:  # the share J transformed to 2J / (1 + J)
            value, low, high = (2 * j / (1 + j) for j in part[:3])
            part = part._replace(value=value, low=low, high=high)
        parts.append(part)
    return _mean(parts)


def share_interval(hits: Counts, of: Counts, clusters: Clusters, level: float = LEVEL) -> Bounds:
    """The interval of the share sum(hits) / sum(of), both (n,) by claim with 0 <= hits <= of."""
    sums = clusters.sums(np.stack([hits, of], axis=1))
    return _mean([_share(sums[:, 0], sums[:, 1], level)])


def difference_interval(
    labels: Codes,
    verdicts: Codes,
    others: Codes,
    clusters: Clusters,
    level: float = LEVEL,
    classes: int = 2,
) -> Bounds:
    """The interval of one balanced accuracy minus another on the same claims."""
    if len(np.unique(labels)) < classes:  # without a label there is no balanced accuracy
        return math.nan, math.nan
    better = (verdicts == labels) & (others != labels)
    worse = (others == labels) & (verdicts != labels)
    parts = []
    for side in (labels == label for label in range(classes)):
        sums = clusters.sums(np.stack([better & side, worse & side, side], axis=1))
        parts.append(_paired(sums[:, 0], sums[:, 1], sums[:, 2], level))
    return _mean(parts, -1.0)


def mean_interval(scores: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> Bounds:
    """The interval of a uniform mean of independent scores from the bounds of each.

    MOVER (Zou and Donner, 2008): the distances to the bounds are added in squares.
    """
    mean = float(np.mean(scores))
    below = math.hypot(*(score - low for score, low in zip(scores, lows, strict=True)))
    above = math.hypot(*(high - score for score, high in zip(scores, highs, strict=True)))
    return mean - below / len(scores), mean + above / len(scores)


def _mean(parts: Sequence[_Estimate], least: float = 0.0) -> Bounds:
    """MOVER over parts on the same clusters."""
    if any(math.isnan(part.value) for part in parts):
        return math.nan, math.nan
    value = sum(part.value for part in parts) / len(parts)

    def distance(sides: Sequence[float]) -> float:
        """The parts' distances to their bounds, added in squares with their correlation."""
        square = sum(side * side for side in sides)
        for (one, part), (other, another) in combinations(zip(sides, parts, strict=True), 2):
            square += 2 * _correlation(part, another) * (one * other)
        return math.sqrt(max(square, 0.0)) / len(sides)

    below = distance([part.value - part.low for part in parts])
    above = distance([part.high - part.value for part in parts])
    return max(least, value - below), min(1.0, value + above)


def _correlation(one: _Estimate, other: _Estimate) -> float:
    """The correlation of two shares over clusters; of their sizes where a share does not vary."""
    pair = one.spread, other.spread
    if not (pair[0].any() and pair[1].any()):
        pair = one.sizes, other.sizes
    norms = float(np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
    return float(pair[0] @ pair[1]) / norms if norms else 0.0


def _share(hits: Numbers, of: Numbers, level: float) -> _Estimate:
    """Wilson's interval of a share over clusters; [0, 1] without a claim."""
    total = of.sum()
    if not total:
        return _Estimate(0.0, 0.0, 1.0, hits, of)
    p = float(hits.sum() / total)
    spread = hits - p * of
    size, z = _effective(spread, of, p * (1 - p), level)
    middle = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(p * (1 - p) / size + z * z / (4 * size * size))
    return _Estimate(p, min(p, middle - half), max(p, middle + half), spread, of)


def _paired(better: Numbers, worse: Numbers, of: Numbers, level: float) -> _Estimate:
    """Bonett and Price's interval of a paired difference of shares over clusters."""
    total = of.sum()
    ups, downs = float(better.sum() / total), float(worse.sum() / total)
    difference = ups - downs
    spread = better - worse - difference * of
    size, z = _effective(spread, of, ups + downs - difference * difference, level)
    ups, downs = ((share * size + 1) / (size + 2) for share in (ups, downs))
    middle = ups - downs
    half = z * math.sqrt((ups + downs - middle * middle) / (size + 2))
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return _Estimate(difference, min(difference, low), max(difference, high), spread, of)


def _effective(spread: Numbers, of: Numbers, variance: float, level: float) -> tuple[float, float]:
    """The effective number of independent claims in the clusters, and the quantile to use.

    ``variance`` is that of a single claim.
    """
    total, count = float(of.sum()), int((of > 0).sum())
    # The design effect if all claims of a cluster had the same outcome: its greatest value.
    identical = float((of * of).sum()) / total
    if identical <= 1:
        return total, _quantile(level, 0)
    effect = identical
    if variance > 0 and count > 1:  # where nothing varies, the data say nothing: take the greatest
        linearized = count / (count - 1) * float((spread * spread).sum()) / total
        effect = min(max(linearized / variance, 1.0), identical)
    return total / effect, _quantile(level, count - 1)


@lru_cache(maxsize=256)
def _quantile(level: float, freedom: int) -> float:
    """The upper quantile: normal, or Student's t with ``freedom`` > 0 degrees of freedom."""
    from scipy.special import ndtri, stdtrit  # slow to import, and not every run needs it

    upper = (1 + level) / 2
    return float(stdtrit(freedom, upper) if freedom else ndtri(upper))
