"""Metrics of verdicts, 0..1, with 95 % confidence intervals.

The paper's labels are two, Supported and Refuted; a three-way test set has Not Enough Information,
too, which two-way is no verdict. An undefined metric (no rows, a label without claims) is NaN,
never 0.

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
* Other smooth functions of sums (counts a claim, Brier, kappa): the jackknife, with Student's t.
* Functions that are not smooth (the calibration error): percentiles of the bootstrap.

How well a judge agrees with another one is measured over the table of counts (class of the teacher
by that of the student), and what that does to rewards by how often two rollouts of a group change
places, since GRPO only compares the rollouts of a group.

Claims of shared documents: each share counts as its effective number of claims, by the linearized
variance over documents (Korn and Graubard, 1998; Dean and Pagano, 2015), with Student's t for few
documents. Where nothing varies (0 or 1) all claims of a document are taken to have one outcome.

``studies/interval_coverage.py`` measures their coverage (``docs/results/intervals.md``).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.schemas import LABELS

SUPPORTED, REFUTED, NONE = 0, 1, 2
"""Codes; no verdict is 2 two-way, and k in general (three-way 2 is Not Enough Information)."""
BINS = 15
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
Counts = NDArray[Any]
Unread = Literal["opposite", "class", "leave-out"]
"""What a missing verdict counts as: the opposite of the claim's label, a third verdict (means stay
over the two labels), or a claim to leave out."""
BALANCED = "balanced_accuracy"
AS_REFUTED = "balanced_accuracy_as_refuted"
"""The lenient reading: a missing verdict counts as Refuted."""
NAMES = ("supported", "refuted", "not_enough_info")
"""How metrics call the labels."""
_CODES = {"Supported": SUPPORTED, "Refuted": REFUTED, "NotEnoughInfo": 2, None: 3}
Bounds = tuple[float, float]
Interval = Callable[[float], Bounds]
"""Bounds by confidence level, 0..1."""
LEVEL = 0.95
LEAST_UNITS = 30
"""Least number of documents for an interval of Student's t: below it skewed values mislead it."""
_DRAWS, _AT_ONCE = 1_000, 100  # of the bootstrap
_HALVINGS = 20  # down to p = 1e-7
_ROUNDING = 1e-12  # equal values may differ in their last bits


def codes_of(verdicts: Sequence[str | None], classes: int = 2) -> Codes:
    """Labels or verdicts as numbers; None is ``classes``, as is a verdict beyond them.

    Raises:
        KeyError: another word.
    """
    codes = np.fromiter((_CODES[verdict] for verdict in verdicts), np.int64, len(verdicts))
    return np.minimum(codes, classes)


def balanced_accuracy(labels: Codes, verdicts: Codes, classes: int = 2) -> float:
    """Mean of the labels' recalls; a missing verdict counts as wrong."""
    right, every = (np.bincount(one, minlength=classes) for one in
                    (labels[labels == verdicts], labels))  # fmt: skip
    return float(np.mean(right / every)) if every.all() else math.nan


def macro_f1(table: Counts) -> Numbers:
    """Mean F1 of the classes that either side gives, of tables (..., k, k)."""
    right = np.diagonal(table, axis1=-2, axis2=-1)
    given = table.sum(axis=-1) + table.sum(axis=-2)
    of_class = np.divide(2 * right, given, out=np.zeros(given.shape), where=given > 0)
    mean: Numbers = of_class.sum(axis=-1) / (given > 0).sum(axis=-1)
    return mean


def brier(chances: Numbers, happened: NDArray[np.bool_]) -> float:
    """Mean square of probability minus what happened (1 or 0); NaN without rows."""
    return float(np.mean((chances - happened) ** 2)) if len(chances) else np.nan


def bin_numbers(chances: Numbers, bins: int = BINS) -> Codes:
    """The bin of each probability, 0..bins - 1: bins of equal size, as far as ties allow.

    Equal probabilities share the bin of the first of them.
    """
    ranks = np.searchsorted(np.sort(chances), chances)
    numbers: Codes = ranks * bins // max(len(chances), 1)
    return numbers


def calibration_error(chances: Numbers, happened: NDArray[np.bool_]) -> float:
    """Expected calibration error: |mean probability - share that happened| by bin, row-weighted."""
    if not len(chances):
        return np.nan
    gaps = np.bincount(bin_numbers(chances), weights=chances - happened)
    return float(np.abs(gaps).sum() / len(chances))


class Estimate(NamedTuple):
    """A value with its bounds; of shares and AUROC the deviation and the claims by evidence.

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
    labels: Codes,
    verdicts: Codes,
    evidence: Codes,
    names: Sequence[str] = NAMES[:2],
    unread: Unread = "opposite",
) -> dict[str, Estimate]:
    """Every metric of verdicts by its name in ``SCORES``; ``names`` are those of the labels.

    ``unread`` is what a missing verdict counts as where there are two labels; claims to leave out
    are not in the arrays. ``AS_REFUTED`` is balanced accuracy if it counts as Refuted. A precision
    is 0 where no claim got the verdict, other metrics are undefined where a label has no claim.
    """
    classes = len(names)
    missing = verdicts == classes
    opposite = missing & (classes == len(LABELS)) & (unread == "opposite")
    counted = np.where(opposite, 1 - labels, verdicts)
    lenient = np.where(missing, REFUTED, verdicts)
    lenient_recalls = []
    kinds: dict[str, list[Estimate]] = {"recall": [], "precision": [], "f1": []}
    for label in range(classes):
        own, given = labels == label, counted == label
        precision = share(own & given, given, evidence) if given.any() else Estimate(0.0, 0.0, 1.0)
        kinds["recall"].append(share(own & given, own, evidence))
        kinds["precision"].append(precision)
        kinds["f1"].append(share(own & given, own | given, evidence, f1=True))
        lenient_recalls.append(share(own & (lenient == label), own, evidence))
    estimates = {
        BALANCED: mean_of(kinds["recall"], independent=False),
        AS_REFUTED: mean_of(lenient_recalls, independent=False),
    }
    for kind, parts in kinds.items():
        estimates |= {f"{kind}_{name}": part for name, part in zip(names, parts, strict=True)}
    right = share(counted == labels, np.ones(len(labels)), evidence)
    return estimates | {"macro_f1": mean_of(kinds["f1"], independent=False), "accuracy": right}


def share(hits: Counts, of: Counts, evidence: Codes, *, f1: bool = False) -> Estimate:
    """The share J = sum(hits) / sum(of), both (n,) by claim with 0 <= hits <= of.

    ``f1``: 2J / (1 + J) instead.
    """
    by_evidence, sizes = summed(evidence, hits, of)
    right, total = float(by_evidence.sum()), float(sizes.sum())
    if not total:
        return Estimate(math.nan)
    p = right / total
    spread = by_evidence - p * sizes
    low, high = _wilson(p, *_effective(spread, sizes, p * (1 - p), LEVEL))
    if f1:
        p, low, high = 2 * right / (total + right), 2 * low / (1 + low), 2 * high / (1 + high)
    return Estimate(p, min(low, p), max(p, high), spread, sizes)


def auroc(scores: Numbers, positive: NDArray[np.bool_], evidence: Codes) -> Estimate:
    """Chance that a positive claim scores above a negative one, ties half.

    A side of a single document has no interval. Where no placement value differs from the others,
    the variance is that of a share of as many claims as the rarer side has documents.
    """
    if positive.all() or not positive.any():
        return Estimate(math.nan)
    _, rank = np.unique(scores, return_inverse=True)
    above, below = (
        np.bincount(rank[side], minlength=rank.max() + 1) for side in (positive, ~positive)
    )
    beaten, beating = np.cumsum(below) - below / 2, above.sum() - np.cumsum(above) + above / 2
    value = float((above * beaten).sum() / (above.sum() * below.sum()))
    # A claim adds its placement value less AUROC, over the size of its side.
    placed = np.where(positive, (beaten / below.sum())[rank], (beating / above.sum())[rank])
    added = (placed - value) / np.where(positive, above.sum(), below.sum())
    spread, sizes = summed(evidence, added, np.ones(len(scores)))
    documents, rarer = int((sizes > 0).sum()), fewest(evidence, positive)
    if rarer < 2:  # noqa: PLR2004 - one has no spread
        return Estimate(value, spread=spread, sizes=sizes)
    variance = documents / (documents - 1) * float(spread @ spread)
    size = value * (1 - value) / variance if variance > 0 else float(rarer)
    return Estimate(value, *_wilson(value, size, _quantile(LEVEL, rarer - 1)), spread, sizes)


def ratio(amounts: Counts, of: Counts, evidence: Codes) -> Estimate:
    """The ratio sum(amounts) / sum(of) of amounts without an upper bound."""
    return of_sums(lambda sums: sums[0] / sums[1], summed(evidence, amounts, of))


def of_sums(function: Callable[[Numbers], Numbers], sums: Numbers) -> Estimate:
    """A function of sums, shape (columns, pieces of evidence), by the jackknife over the pieces.

    It takes sums (columns, n) and gives values (n,). It has no interval below ``LEAST_UNITS``
    pieces, or where leaving one out changes nothing or is not defined.
    """
    sums = sums[:, sums.any(axis=0)]
    total, pieces = sums.sum(axis=1, keepdims=True), sums.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        value, without = float(function(total)[0]), function(total - sums)
    error = math.sqrt(pieces - 1) * float(without.std()) if pieces >= LEAST_UNITS else math.nan
    half = _quantile(LEVEL, pieces - 1) * error if error > _ROUNDING else math.nan
    return Estimate(value, value - half, value + half)


def bootstrapped(function: Callable[[Numbers], Numbers], sums: Numbers) -> Estimate:
    """A function of sums, as for ``of_sums``, by the bootstrap over the pieces: the same each time.

    It has no interval below ``LEAST_UNITS`` pieces.
    """
    sums = sums[:, sums.any(axis=0)]
    value, pieces = float(function(sums.sum(axis=1, keepdims=True))[0]), sums.shape[1]
    if pieces < LEAST_UNITS:
        return Estimate(value)
    rng, even = np.random.default_rng(42), np.full(pieces, 1 / pieces)
    counts = (rng.multinomial(pieces, even, _AT_ONCE) for _ in range(_DRAWS // _AT_ONCE))
    drawn = np.concatenate([function(sums @ count.T) for count in counts])
    return Estimate(value, *np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist())


def agreement(
    teacher: Codes, student: Codes, classes: int, documents: Sequence[str]
) -> dict[str, Estimate]:
    """Agreement, macro-F1, kappa, and the share of the teacher's most common class.

    ``teacher`` and ``student`` (n,) are class numbers below ``classes``. A class that neither gives
    is left out of macro-F1; kappa is undefined where both give one and the same class.
    """
    evidence, each = shared_evidence(documents), np.ones(len(teacher))
    cells = np.eye(classes * classes)[teacher * classes + student]
    sums = summed(evidence, *cells.T)

    def kappa(sums: Numbers) -> Numbers:
        table = sums.T.reshape(-1, classes, classes)
        total = table.sum(axis=(1, 2))
        agree = np.trace(table, axis1=1, axis2=2) / total
        chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / total**2
        corrected: Numbers = (agree - chance) / (1 - chance)
        return corrected

    common = teacher == np.bincount(teacher).argmax()
    return {
        "agreement": share(teacher == student, each, evidence),
        "macro_f1": of_sums(lambda sums: macro_f1(sums.T.reshape(-1, classes, classes)), sums),
        "kappa": of_sums(kappa, sums),
        "most_common": share(common, each, evidence),
    }


def reward_agreement(rewards: pl.DataFrame) -> dict[str, Estimate]:
    """How one reward differs between two judges.

    ``rewards`` has ``group``, ``teacher`` and ``student``, one row per rollout, without nulls.
    ``reversed_pairs``: of the pairs of a group that the teacher orders, those that the student
    orders the other way round. ``reordered_groups``: groups with a pair that the two judges do not
    order alike, ties included.
    """
    rows = rewards.with_row_index("row")
    # Every pair of rollouts of a group, and each rollout with itself, which no side orders.
    pairs = rows.join(rows, on="group", suffix="_2").filter(pl.col("row") <= pl.col("row_2"))
    same, shift = pl.col("row") == pl.col("row_2"), pl.col("student") - pl.col("teacher")
    first, second = (
        (pl.col(judge) - pl.col(f"{judge}_2")).round(9).sign() for judge in ("teacher", "student")
    )
    sums = pairs.group_by("group", maintain_order=True).agg(
        rows=same.sum(),
        shift=shift.filter(same).sum(),
        ordered=(first != 0).sum(),
        reversed=(first * second < 0).sum(),
        reordered=(first != second).any().cast(pl.Int64),
    )
    of = {name: sums[name].to_numpy().astype(np.float64) for name in sums.columns[1:]}
    groups = np.arange(sums.height)
    spearman = rewards.select(pl.corr("teacher", "student", method="spearman")).item()
    return {
        "rank_correlation": Estimate(math.nan if spearman is None else spearman),
        "mean_shift": ratio(of["shift"], of["rows"], groups),
        "reversed_pairs": share(of["reversed"], of["ordered"], groups),
        "reordered_groups": share(of["reordered"], np.ones(sums.height), groups),
    }


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
    _, low, high, *_ = mean_of(parts, independent=False)
    return low, high


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


def mean_of(parts: Sequence[Estimate], *, independent: bool = True) -> Estimate:
    """The uniform mean of estimates: independent ones, or those of the same evidence.

    MOVER (Zou and Donner, 2008): the distances to the bounds are added in squares.
    """
    values, lows, highs = zip(*(part[:3] for part in parts), strict=True)
    mean = float(np.mean(values))
    if math.isnan(mean):
        return Estimate(mean)

    def distance(ends: Sequence[float]) -> float:
        """The parts' distances to their bounds, added in squares with their correlation."""
        sides = [abs(value - end) for value, end in zip(values, ends, strict=True)]
        square = sum(side * side for side in sides)
        pairs = [] if independent else combinations(zip(sides, parts, strict=True), 2)
        for (one, part), (other, another) in pairs:
            square += 2 * _correlation(part, another) * (one * other)
        return math.sqrt(max(square, 0.0)) / len(sides)

    low, high = max(min(lows), mean - distance(lows)), min(max(highs), mean + distance(highs))
    return Estimate(mean, low, high)


def _correlation(one: Estimate, other: Estimate) -> float:
    """The correlation of two shares over evidence; of their sizes where a share does not vary."""
    pair = one.spread, other.spread
    if not (pair[0].any() and pair[1].any()):
        pair = one.sizes, other.sizes
    norms = float(np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
    return float(pair[0] @ pair[1]) / norms if norms else 0.0


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
