"""From scores to verdicts: several scores of a claim made one, and the threshold they are held to.

Takes numbers that are higher where a claim is better supported, gives verdicts' codes. A threshold
is given, or chosen where F1 of Supported or balanced accuracy is best on other claims.

Left out deliberately: where scores come from (``evaluation.matching``).
"""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import (
    NONE,
    REFUTED,
    SUPPORTED,
    Codes,
    Numbers,
    balanced_accuracy,
    f1,
)

Several = Literal["max", "mean", "min"]
ThresholdMetric = Literal["f1", "balanced_accuracy"]
_LARGEST = sys.float_info.max
Candidates = Literal["midpoints", "scores", "hundredths"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Supported is what scores above ``value``, or at it where ``inclusive``."""

    value: float
    inclusive: bool = False

    def verdicts(self, scores: Numbers) -> Codes:
        """Codes of verdicts, shape (n,); a NaN score gives none."""
        above = scores >= self.value if self.inclusive else scores > self.value
        found: Codes = np.where(np.isnan(scores), NONE, np.where(above, SUPPORTED, REFUTED))
        return found


def combined(scores: Sequence[float], several: Several) -> float:
    """One score of the several that a claim has, in whatever order."""
    if several == "mean":
        return statistics.mean(scores)  # exact: a sum of the largest numbers has no end
    return max(scores) if several == "max" else min(scores)


def choose_threshold(
    scores: Numbers,
    labels: Codes,
    by: ThresholdMetric,
    candidates: Candidates = "midpoints",
    *,
    inclusive: bool = False,
) -> tuple[Threshold, float]:
    """The threshold that is best on these claims, the lowest where several are, and how good.

    ``midpoints`` stand between neighbouring scores, before the first and after the last;
    ``scores`` are the scores themselves, ``hundredths`` 0.00, 0.01, ... 0.99. Claims
    without a score are wrong at each of them.

    Raises:
        EvaluationError: no claim has a score, or one label has no claim.
    """
    found = np.unique(scores[~np.isnan(scores)])
    if not len(found) or len(np.unique(labels)) < 2:  # noqa: PLR2004 - both labels
        raise EvaluationError("a threshold needs claims of both labels and scores to be chosen by")
    places = _places(found, candidates)
    tables = np.zeros((len(places), 2, 3), dtype=np.int64)
    for label in (SUPPORTED, REFUTED):
        own = scores[labels == label]
        there = np.sort(own[~np.isnan(own)])
        below = np.searchsorted(there, places, "left" if inclusive else "right")
        tables[:, label, SUPPORTED] = len(there) - below
        tables[:, label, REFUTED] = below
        tables[:, label, NONE] = len(own) - len(there)
    values = f1(tables, SUPPORTED) if by == "f1" else balanced_accuracy(tables)
    best = int(np.argmax(values))
    return Threshold(float(places[best]), inclusive), float(values[best])


def _places(scores: Numbers, candidates: Candidates) -> Numbers:
    """What is tried, in rising order; ``scores`` are distinct and sorted."""
    if candidates == "scores":
        return scores
    if candidates == "hundredths":
        # Exactly the numbers of numpy.arange(0, 1, 0.01), which others use.
        return np.arange(100, dtype=np.float64) * 0.01
    middles = scores[:-1] / 2 + scores[1:] / 2  # halves first: a sum may have no end
    return np.concatenate([[_beyond(scores[0], -1.0)], middles, [_beyond(scores[-1], 1.0)]])


def _beyond(score: float, step: float) -> float:
    """The number a step away, or the next there is where numbers stand further apart."""
    moved = float(score) + step
    return moved if moved != score else math.nextafter(moved, math.copysign(_LARGEST, step))
