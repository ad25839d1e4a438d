"""From scores to verdicts: thresholds, given or chosen on other claims.

Scores are higher where a claim is better supported. A threshold is chosen to maximise the F1 of
Supported, or balanced accuracy.
"""

import math
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import finite_number
from decomposerl.evaluation.metrics import NONE, REFUTED, SUPPORTED, Codes, Numbers

Several = Literal["max", "mean", "min"]
_PERCENT, _LARGEST = 100, sys.float_info.max
_FORM = re.compile(
    r"(>=)?\s*(?:(f1|balanced_accuracy)(?::(midpoints|scores|hundredths))?|([^\s:]+))\s*"
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Scores above ``value``, or equal to it where ``inclusive``, are Supported.

    A threshold ``by`` a metric has yet to be chosen among ``candidates``: ``midpoints`` between
    neighbouring scores and beyond both ends, the ``scores``, or ``hundredths`` (0.00, ... 0.99).
    """

    value: float = 0.5
    inclusive: bool = False
    by: str = ""
    candidates: str = "midpoints"

    @classmethod
    def of(cls, text: str) -> Self:
        """``0.5``, ``f1`` or ``balanced_accuracy`` (of ``f1:hundredths``), also behind ``>=``.

        Raises:
            EvaluationError: it is none of them.
        """
        match: Any = _FORM.fullmatch(text) or ("",) * 5
        value = finite_number(match[4])
        if value is None and not match[2]:
            raise EvaluationError(
                f"--threshold is '{text}': neither a finite number nor f1 or balanced_accuracy"
            )
        if match[2]:
            return cls(math.nan, bool(match[1]), match[2], match[3] or "midpoints")
        return cls(value or 0.0, bool(match[1]))

    @classmethod
    def usual(cls, scores: Numbers, name: str) -> Self:
        """The threshold where none is given, which only halves scores of 0 to 1.

        Raises:
            EvaluationError: the scores, those of column ``name``, are others.
        """
        known = scores[~np.isnan(scores)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        if low < 0 or high > 1:
            middle = 0 if low < 0 else 50 if high <= _PERCENT else (low + high) / 2
            raise EvaluationError(
                f"{name} is from {low:g} to {high:g}, and not from 0 to 1: say from which score on "
                f"a claim is supported, such as\n--threshold {middle:g}"
            )
        return cls()

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


def choose_threshold(scores: Numbers, labels: Codes, wanted: Threshold) -> tuple[Threshold, float]:
    """The lowest of the best thresholds on these claims, and the metric's value there.

    Claims without a score always count as wrong.

    Raises:
        EvaluationError: no claim has a score, or one label has no claim.
    """
    known = np.unique(scores[~np.isnan(scores)])
    if not len(known) or len(np.unique(labels)) < 2:  # noqa: PLR2004 - both labels
        raise EvaluationError("a threshold needs claims of both labels and scores to be chosen by")
    if wanted.candidates == "scores":
        values = known
    elif wanted.candidates == "hundredths":
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
        below = np.searchsorted(scored, values, "left" if wanted.inclusive else "right")
        right[label] = below if label == REFUTED else len(scored) - below
        wrong[label] = len(scored) - right[label]
    counts = np.bincount(labels)[:, None]
    recalls = right / counts
    f1 = 2 * right[SUPPORTED] / (right[SUPPORTED] + counts[SUPPORTED] + wrong[REFUTED])
    metric = f1 if wanted.by == "f1" else recalls.mean(axis=0)
    best = int(np.argmax(metric))
    return Threshold(float(values[best]), wanted.inclusive), float(metric[best])
