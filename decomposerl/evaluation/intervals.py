"""Confidence intervals in closed form for shares of claims and differences of shares.

Takes outcomes by claim with their clusters (``bootstrap.Clusters``), gives bounds 0..1 (differences
-1..1). They do not collapse: a percentile bootstrap of four right verdicts of four is [1, 1].

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

``studies/interval_coverage.py`` measures their coverage (table in
``docs/results/intervals.md``). Metrics that are no shares of claims (AUROC, calibration,
counts) have bootstrap intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations

import numpy as np

from decomposerl.evaluation.bootstrap import LEVEL, Clusters
from decomposerl.evaluation.metrics import (
    AS_REFUTED,
    Codes,
    Counts,
    Numbers,
    class_name,
    count_metrics,
    indicators,
)

Bounds = tuple[float, float]
_Cells = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """Claims in the cells ``hits`` among those in ``of``; ``f1``: transformed to 2J / (1 + J)."""

    hits: _Cells
    of: _Cells
    f1: bool = False


@lru_cache(maxsize=64)
def shares_of(metric: str, classes: int = 2) -> tuple[Share, ...]:
    """A metric of ``metrics.COUNT_METRICS``, or of the third label's, as the mean of shares.

    One share, or one a label: cells are numbered by label and verdict as in ``indicators``.
    """
    labels = range(classes)
    rows = [tuple(label * (classes + 1) + verdict for verdict in (*labels, classes))
            for label in labels]  # fmt: skip
    columns = [tuple(row[label] for row in rows) for label in labels]
    hits = [(rows[label][label],) for label in labels]
    kinds = {
        "recall": [Share(hit, row) for hit, row in zip(hits, rows, strict=True)],
        "precision": [Share(hit, column) for hit, column in zip(hits, columns, strict=True)],
        "f1": [
            Share(hit, tuple({*row, *column}), f1=True)
            for hit, row, column in zip(hits, rows, columns, strict=True)
        ],
    }
    means = {"balanced_accuracy": kinds["recall"], "macro_f1": kinds["f1"]}
    lenient = Share((*hits[1], rows[1][-1]), rows[1])
    means[AS_REFUTED] = [lenient if label == 1 else kinds["recall"][label] for label in labels]
    means["accuracy"] = [Share(tuple(chain(*hits)), tuple(chain(*rows)))]
    for kind, shares in kinds.items():
        means |= {f"{kind}_{class_name(label)}": [share] for label, share in enumerate(shares)}
    return tuple(means[metric])


@dataclass(frozen=True, slots=True, eq=False)
class _ShareEstimate:
    """A share with its bounds.

    ``spread`` (clusters,) is each cluster's deviation from it, ``sizes`` (clusters,) its claims.
    """

    estimate: float
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
    """The interval of a metric that ``shares_of`` has; NaN where the metric is not defined."""
    sums = clusters.sums(indicators(labels, verdicts, classes))
    table = sums.sum(axis=0).reshape(classes, classes + 1)
    if np.isnan(count_metrics(classes)[metric](table)):
        return math.nan, math.nan
    shares = shares_of(metric, classes)
    parts = [
        _share(sums[:, list(one.hits)].sum(axis=1), sums[:, list(one.of)].sum(axis=1), level)
        for one in shares
    ]
    return _mean(
        [_as_f1(part) if one.f1 else part for part, one in zip(parts, shares, strict=True)]
    )


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


def _mean(parts: Sequence[_ShareEstimate], least: float = 0.0) -> Bounds:
    """MOVER over parts on the same clusters."""
    if any(math.isnan(part.estimate) for part in parts):
        return math.nan, math.nan
    correlations = [_correlation(*pair) for pair in combinations(parts, 2)]
    estimate = sum(part.estimate for part in parts) / len(parts)
    below = _distance([part.estimate - part.low for part in parts], correlations)
    above = _distance([part.high - part.estimate for part in parts], correlations)
    return max(least, estimate - below), min(1.0, estimate + above)


def _distance(sides: Sequence[float], correlations: Sequence[float]) -> float:
    pairs = zip(combinations(sides, 2), correlations, strict=True)
    mixed = sum(2 * correlation * (one * other) for (one, other), correlation in pairs)
    square = sum(side * side for side in sides) + mixed
    return math.sqrt(max(square, 0.0)) / len(sides)


def _correlation(one: _ShareEstimate, other: _ShareEstimate) -> float:
    """The correlation of two shares over clusters; of their sizes where a share does not vary."""
    pair = one.spread, other.spread
    if not (pair[0].any() and pair[1].any()):
        pair = one.sizes, other.sizes
    norms = float(np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
    return float(pair[0] @ pair[1]) / norms if norms else 0.0


def _share(hits: Numbers, of: Numbers, level: float) -> _ShareEstimate:
    """Wilson's interval of a share over clusters; [0, 1] without a claim."""
    total = of.sum()
    if not total:
        return _ShareEstimate(0.0, 0.0, 1.0, hits, of)
    p = float(hits.sum() / total)
    spread = hits - p * of
    size, z = _effective(spread, of, p * (1 - p), level)
    middle = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(p * (1 - p) / size + z * z / (4 * size * size))
    return _ShareEstimate(p, min(p, middle - half), max(p, middle + half), spread, of)


def _paired(better: Numbers, worse: Numbers, of: Numbers, level: float) -> _ShareEstimate:
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
    return _ShareEstimate(difference, min(difference, low), max(difference, high), spread, of)


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


def _as_f1(part: _ShareEstimate) -> _ShareEstimate:
    """The share J transformed to 2J / (1 + J)."""
    estimate, low, high = (2 * j / (1 + j) for j in (part.estimate, part.low, part.high))
    return _ShareEstimate(estimate, low, high, part.spread, part.sizes)


@lru_cache(maxsize=256)
def _quantile(level: float, freedom: int) -> float:
    """The upper quantile: normal, or Student's t with ``freedom`` > 0 degrees of freedom."""
    from scipy.special import ndtri, stdtrit  # slow to import, and not every run needs it

    upper = (1 + level) / 2
    return float(stdtrit(freedom, upper) if freedom else ndtri(upper))
