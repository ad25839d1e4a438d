"""Codes of labels and verdicts, and metrics without an interval, all 0..1.

The paper's labels are two, Supported and Refuted; a three-way test set has Not Enough Information,
too, which two-way is no verdict. An undefined metric (no rows, a label without claims) is NaN,
never 0.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
