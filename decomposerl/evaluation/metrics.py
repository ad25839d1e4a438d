"""Codes of labels and verdicts, metrics without an interval, all 0..1, and thresholds.

The paper's labels are two, Supported and Refuted; a three-way test set has Not Enough Information,
too, which two-way is no verdict. An undefined metric (no rows, a label without claims) is NaN,
never 0. Scores are higher where a claim is better supported: a threshold, given or chosen on other
claims to maximise the F1 of Supported or balanced accuracy, makes verdicts of them.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EvaluationError

SUPPORTED, REFUTED, NONE = 0, 1, 2
"""Codes; no verdict is 2 two-way, and k in general (three-way 2 is Not Enough Information)."""
BINS = 15
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
Counts = NDArray[Any]
Several = Literal["max", "mean", "min"]
ThresholdMetric = Literal["f1", "balanced_accuracy"]
Candidates = Literal["midpoints", "scores", "hundredths"]
Unread = Literal["opposite", "class", "leave-out"]
"""What a missing verdict counts as: the opposite of the claim's label, a third verdict (means stay
over the two labels), or a claim to leave out."""
BALANCED = "balanced_accuracy"
AS_REFUTED = "balanced_accuracy_as_refuted"
"""The lenient reading: a missing verdict counts as Refuted."""
_LARGEST = sys.float_info.max
_CODES = {"Supported": SUPPORTED, "Refuted": REFUTED, "NotEnoughInfo": 2, None: 3}


def codes_of(verdicts: Sequence[str | None], classes: int = 2) -> Codes:
    """Labels or verdicts as numbers; None is ``classes``, as is a verdict beyond them.

    Raises:
        KeyError: another word.
    """
    codes = np.fromiter((_CODES[verdict] for verdict in verdicts), np.int64, len(verdicts))
    return np.minimum(codes, classes)


def class_names(classes: int) -> list[str]:
    """How the names of metrics call the labels; those beyond the third are numbered."""
    names = ["supported", "refuted", "not_enough_info"]
    return [*names, *map(str, range(len(names), classes))][:classes]


def balanced_accuracy(labels: Codes, verdicts: Codes, classes: int = 2) -> float:
    """Mean of the labels' recalls; a missing verdict counts as wrong."""
    right, every = (np.bincount(one, minlength=classes) for one in
                    (labels[labels == verdicts], labels))  # fmt: skip
    return float(np.mean(right / every)) if every.all() else math.nan


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


@dataclass(frozen=True, slots=True)
class Threshold:
    """Scores above ``value``, or equal to it where ``inclusive``, are Supported."""

    value: float
    inclusive: bool = False

    def verdicts(self, scores: Numbers) -> Codes:
        """Codes of verdicts, shape (n,); a NaN score gives none."""
        above = scores >= self.value if self.inclusive else scores > self.value
        codes: Codes = np.where(np.isnan(scores), NONE, np.where(above, SUPPORTED, REFUTED))
        return codes


def combined(scores: Sequence[float], several: Several) -> float:
    """One score from the several of a claim, independent of their order."""
    if several == "mean":
        return statistics.mean(scores)  # exact: a float sum of the largest numbers overflows
    return max(scores) if several == "max" else min(scores)


def choose_threshold(
    scores: Numbers,
    labels: Codes,
    by: ThresholdMetric,
    candidates: Candidates = "midpoints",
    *,
    inclusive: bool = False,
) -> tuple[Threshold, float]:
    """The lowest of the best thresholds on these claims, and the metric's value there.

    Candidates are ``midpoints`` between neighbouring scores and beyond both ends, the ``scores``
    themselves, or ``hundredths`` (0.00, 0.01, ... 0.99). Claims without a score always count as
    wrong.

    Raises:
        EvaluationError: no claim has a score, or one label has no claim.
    """
    known = np.unique(scores[~np.isnan(scores)])
    if not len(known) or len(np.unique(labels)) < 2:  # noqa: PLR2004 - both labels
        raise EvaluationError("a threshold needs claims of both labels and scores to be chosen by")
    if candidates == "scores":
        values = known
    elif candidates == "hundredths":
        # Exactly the numbers of numpy.arange(0, 1, 0.01), which others use.
        values = np.arange(100, dtype=np.float64) * 0.01
    else:
        middles = known[:-1] / 2 + known[1:] / 2  # halves first: the sum may overflow
        # Beyond 2**53 the number a step away is the same: then the next one.
        low = min(known[0] - 1.0, math.nextafter(known[0], -_LARGEST))
        high = max(known[-1] + 1.0, math.nextafter(known[-1], _LARGEST))
        values = np.array([low, *middles, high])
    right, wrong = np.zeros((2, 2, len(values)))
    for label in (SUPPORTED, REFUTED):
        own = scores[labels == label]
        scored = np.sort(own[~np.isnan(own)])
        below = np.searchsorted(scored, values, "left" if inclusive else "right")
        right[label] = below if label == REFUTED else len(scored) - below
        wrong[label] = len(scored) - right[label]
    counts = np.bincount(labels)[:, None]
    recalls = right / counts
    f1 = 2 * right[SUPPORTED] / (right[SUPPORTED] + counts[SUPPORTED] + wrong[REFUTED])
    metric = f1 if by == "f1" else recalls.mean(axis=0)
    best = int(np.argmax(metric))
    return Threshold(float(values[best]), inclusive), float(metric[best])
