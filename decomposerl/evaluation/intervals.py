"""Estimates with 95 % confidence intervals in closed form, for claims that may share evidence.

An estimate is given by what each claim adds to it, summed by shared evidence (``shared_evidence``).
Bounds are 0..1, of differences -1..1, and NaN where there is no interval.

* A share: Wilson's score interval (Wilson, 1927; Brown, Cai and DasGupta, 2001), which does not
  collapse where all claims are right.
* F1 = 2J / (1 + J), with J the share TP / (TP + FP + FN): the interval of J, transformed
  (Hand, Christen and Kirielle, 2021).
* A mean of shares (balanced accuracy, macro-F1) or of test sets: MOVER, the distances to the
  bounds of the parts added in squares, with the parts' correlation (Zou and Donner, 2008).
* A difference of two systems within a label: Bonett and Price (2012), one claim added to either
  kind of disagreement; then MOVER over the labels.
* AUROC: placement values (DeLong, DeLong and Clarke-Pearson, 1988; Obuchowski, 1997), and Wilson's
  interval of a share with their variance.
* Other functions of sums (counts a claim, Brier, kappa): the jackknife, with Student's t.

Claims of shared documents: each share counts as its effective number of claims, by the linearized
variance over documents (Korn and Graubard, 1998; Dean and Pagano, 2015), with Student's t for few
documents. Where nothing varies (0 or 1) all claims of a document are taken to have one outcome.

``studies/interval_coverage.py`` measures their coverage (``docs/results/intervals.md``).
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.metrics import (
    AS_REFUTED,
    BALANCED,
    REFUTED,
    Codes,
    CountMetric,
    Counts,
    Numbers,
    Unread,
    count_metrics,
    indicators,
)
from decomposerl.schemas import LABELS

Bounds = tuple[float, float]
Interval = Callable[[float], Bounds]
"""Bounds by confidence level, 0..1."""
LEVEL = 0.95
LEAST_UNITS = 30
"""Least number of documents for an interval of Student's t: below it skewed values mislead it."""
_HALVINGS = 20  # down to p = 1e-7
_ROUNDING = 1e-12  # equal values may differ in their last bits


class Estimate(NamedTuple):
    """A value with its bounds; of a share also the deviation from it and the claims, by evidence.

    NaN where it is not defined.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    spread: Numbers = np.empty(0)
    sizes: Numbers = np.empty(0)


def shared_evidence(documents: Sequence[Hashable | None]) -> Codes:
    """The number of each claim's evidence; a claim without a document shares it with none."""
    numbers: dict[Hashable, int] = {}
    names = (row if name is None else ("document", name) for row, name in enumerate(documents))
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def summed(evidence: Codes, *columns: Counts) -> Numbers:
    """Sums of columns (n,) over the claims of each piece of evidence, shape (columns, pieces)."""
    return np.array([np.bincount(evidence, column) for column in columns])


def fewest(evidence: Codes, side: NDArray[np.bool_]) -> int:
    """Number of pieces of evidence with a claim of the rarer side of the mask (n,)."""
    return int((summed(evidence, side, ~side) > 0).sum(axis=1).min())


def verdict_estimates(
    labels: Codes, verdicts: Codes, evidence: Codes, classes: int = 2, unread: Unread = "opposite"
) -> dict[str, Estimate]:
    """Every metric of verdicts by its name in ``SCORES``.

    ``unread`` is what a missing verdict counts as where there are two classes; claims to leave out
    are not in the arrays. ``AS_REFUTED`` is balanced accuracy if it counts as Refuted.
    """
    missing = verdicts == classes
    opposite = missing & (classes == len(LABELS)) & (unread == "opposite")
    readings = np.where(opposite, 1 - labels, verdicts), np.where(missing, REFUTED, verdicts)
    cells, lenient = (
        summed(evidence, *indicators(labels, reading, classes).T) for reading in readings
    )
    metrics = count_metrics(classes)
    as_refuted = _of_cells(metrics[BALANCED], lenient, classes)
    first = {BALANCED: as_refuted, AS_REFUTED: as_refuted}  # their places; the former is replaced
    return first | {name: _of_cells(metric, cells, classes) for name, metric in metrics.items()}


def _of_cells(metric: CountMetric, cells: Numbers, classes: int) -> Estimate:
    value = float(metric(cells.sum(axis=1).reshape(classes, classes + 1)))
    if math.isnan(value):
        return Estimate(value)
    parts = []
    for part in metric.shares:
        estimate = _share(*(cells[list(places)].sum(axis=0) for places in (part.hits, part.of)))
        if part.f1:  # the share J transformed to 2J / (1 + J)
            value_of_f1, low, high = (2 * j / (1 + j) for j in estimate[:3])
            estimate = estimate._replace(value=value_of_f1, low=low, high=high)
        parts.append(estimate)
    return Estimate(value, *_mean(parts))


def share(hits: Counts, of: Counts, evidence: Codes) -> Estimate:
    """The share sum(hits) / sum(of), both (n,) by claim with 0 <= hits <= of."""
    return _share(*summed(evidence, hits, of)) if of.any() else Estimate(math.nan)


def auroc(scores: Numbers, positive: NDArray[np.bool_], evidence: Codes) -> Estimate:
    """Chance that a positive claim scores above a negative one, ties half.

    A side of a single document has no interval. Where no placement value differs from the others,
    the variance is that of a share of as many claims as the rarer side has documents.
    """
    if positive.all() or not positive.any():
        return Estimate(math.nan)
    value, influence = auroc_influence(scores, positive)
    (spread,) = summed(evidence, influence)
    documents, rarer = len(np.unique(evidence)), fewest(evidence, positive)
    if rarer < 2:  # noqa: PLR2004 - one has no spread
        return Estimate(value)
    variance = documents / (documents - 1) * float(spread @ spread)
    size = value * (1 - value) / variance if variance > 0 else float(rarer)
    return Estimate(value, *_wilson(value, size, _quantile(LEVEL, rarer - 1)))


def auroc_influence(scores: Numbers, positive: NDArray[np.bool_]) -> tuple[float, Numbers]:
    """AUROC, and what each claim adds to its deviation: its placement value less AUROC."""
    _, rank = np.unique(scores, return_inverse=True)
    above, below = (np.bincount(rank[side], minlength=rank.max() + 1)
                    for side in (positive, ~positive))  # fmt: skip
    beaten = np.cumsum(below) - below / 2
    beating = above.sum() - np.cumsum(above) + above / 2
    value = float((above * beaten).sum() / (above.sum() * below.sum()))
    placed = np.where(positive, (beaten / below.sum())[rank], (beating / above.sum())[rank])
    return value, (placed - value) / np.where(positive, above.sum(), below.sum())


def ratio(amounts: Counts, of: Counts, evidence: Codes) -> Estimate:
    """The ratio sum(amounts) / sum(of) of amounts without an upper bound."""
    return of_sums(lambda sums: {"": sums[0] / sums[1]}, summed(evidence, amounts, of))[""]


def of_sums(
    functions: Callable[[Numbers], Mapping[str, Numbers]], sums: Numbers
) -> dict[str, Estimate]:
    """Functions of sums, shape (columns, pieces of evidence), by the jackknife over the pieces.

    ``functions`` takes sums (columns, n) and gives values (n,). None has an interval below
    ``LEAST_UNITS`` pieces, or where leaving one out changes nothing or is not defined.
    """
    total, pieces = sums.sum(axis=1, keepdims=True), sums.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        values, without = functions(total), functions(total - sums)
    estimates: dict[str, Estimate] = {}
    for name, (value,) in values.items():
        error = math.sqrt(pieces - 1) * float(without[name].std()) if pieces else math.nan
        known = pieces >= LEAST_UNITS and error > _ROUNDING
        half = _quantile(LEVEL, pieces - 1) * error if known else math.nan
        estimates[name] = Estimate(float(value), float(value) - half, float(value) + half)
    return estimates


def difference_interval(
    labels: Codes,
    verdicts: Codes,
    others: Codes,
    evidence: Codes,
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
        ups, downs, of = summed(evidence, better & side, worse & side, side)
        parts.append(_paired(ups, downs, of, level))
    return _mean(parts, -1.0)


def inverted_p(interval: Interval) -> float:
    """The p-value of no difference: the least 1 - level whose interval excludes 0, never 0."""
    kept, excluded = 0.0, 1.0
    # The interval that is shown is tried first, so that p cannot disagree with it.
    tried = 1 - LEVEL
    for _ in range(_HALVINGS):
        low, high = interval(1 - tried)
        if low > 0 or high < 0:
            excluded = tried
        else:
            kept = tried
        tried = (kept + excluded) / 2
    return excluded


def mean_interval(scores: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> Bounds:
    """The interval of a uniform mean of independent scores from the bounds of each.

    MOVER (Zou and Donner, 2008): the distances to the bounds are added in squares.
    """
    mean = float(np.mean(scores))
    below = math.hypot(*(score - low for score, low in zip(scores, lows, strict=True)))
    above = math.hypot(*(high - score for score, high in zip(scores, highs, strict=True)))
    return mean - below / len(scores), mean + above / len(scores)


def _mean(parts: Sequence[Estimate], least: float = 0.0) -> Bounds:
    """MOVER over parts on the same evidence."""
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


def _correlation(one: Estimate, other: Estimate) -> float:
    """The correlation of two shares over evidence; of their sizes where a share does not vary."""
    pair = one.spread, other.spread
    if not (pair[0].any() and pair[1].any()):
        pair = one.sizes, other.sizes
    norms = float(np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
    return float(pair[0] @ pair[1]) / norms if norms else 0.0


def _share(hits: Numbers, of: Numbers) -> Estimate:
    """Wilson's interval of a share over evidence; [0, 1] without a claim."""
    total = of.sum()
    if not total:
        return Estimate(0.0, 0.0, 1.0, hits, of)
    p = float(hits.sum() / total)
    spread = hits - p * of
    return Estimate(p, *_wilson(p, *_effective(spread, of, p * (1 - p), LEVEL)), spread, of)


def _wilson(p: float, size: float, z: float) -> Bounds:
    """Wilson's interval of a share ``p`` of ``size`` independent claims."""
    middle = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(p * (1 - p) / size + z * z / (4 * size * size))
    return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def _paired(better: Numbers, worse: Numbers, of: Numbers, level: float) -> Estimate:
    """Bonett and Price's interval of a paired difference of shares over evidence."""
    total = of.sum()
    ups, downs = float(better.sum() / total), float(worse.sum() / total)
    difference = ups - downs
    spread = better - worse - difference * of
    size, z = _effective(spread, of, ups + downs - difference * difference, level)
    ups, downs = ((share * size + 1) / (size + 2) for share in (ups, downs))
    middle = ups - downs
    half = z * math.sqrt((ups + downs - middle * middle) / (size + 2))
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Estimate(difference, min(difference, low), max(difference, high), spread, of)


def _effective(spread: Numbers, of: Numbers, variance: float, level: float) -> tuple[float, float]:
    """The effective number of independent claims of the evidence, and the quantile to use.

    ``variance`` is that of a single claim.
    """
    total, count = float(of.sum()), int((of > 0).sum())
    # The design effect if all claims of a document had the same outcome: its greatest value.
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
