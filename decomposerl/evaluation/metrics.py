"""Metrics of verdicts and of confidences, all 0..1.

Metrics of verdicts take tables of counts, shape (..., k, k + 1): the k labels by those verdicts and
none. The paper's k is 2, Supported and Refuted; a three-way test set has Not Enough Information,
too, which two-way is no verdict. They give an array of shape (...), so thousands of resampled
tables cost one call. A missing verdict counts as wrong; ``as_refuted`` gives the lenient reading.
An undefined metric (a label without claims) is NaN, never 0.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
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
CountMetric = Callable[[Counts], Numbers]
_CODES = {"Supported": SUPPORTED, "Refuted": REFUTED, "NotEnoughInfo": 2, None: 3}


def codes_of(verdicts: Sequence[str | None], classes: int = 2) -> Codes:
    """Labels or verdicts as numbers; None is ``classes``, as is a verdict beyond them.

    Raises:
        KeyError: another word.
    """
    codes = np.fromiter((_CODES[verdict] for verdict in verdicts), np.int64, len(verdicts))
    return np.minimum(codes, classes)


def indicators(labels: Codes, verdicts: Codes, classes: int = 2) -> Codes:
    """One row per claim with a single 1, shape (n, k (k + 1)): their sums are flattened tables."""
    cells = np.zeros((len(labels), classes * (classes + 1)), dtype=np.int64)
    cells[np.arange(len(labels)), labels * (classes + 1) + verdicts] = 1
    return cells


def outcome_table(labels: Codes, verdicts: Codes, classes: int = 2) -> Codes:
    """Counts of label by verdict, shape (k, k + 1)."""
    cells = np.bincount(labels * (classes + 1) + verdicts, minlength=classes * (classes + 1))
    return cells.reshape(classes, classes + 1)


def as_refuted(table: Counts) -> Counts:
    """The same outcomes with every missing verdict read as Refuted."""
    lenient = table.copy()
    lenient[..., REFUTED] += table[..., -1]
    lenient[..., -1] = 0
    return lenient


def treated(labels: Codes, verdicts: Codes, unread: Unread) -> Codes:
    """The verdicts with missing ones as ``unread`` says; claims to leave out keep ``NONE``."""
    if unread != "opposite":
        return verdicts
    return np.where(verdicts == NONE, 1 - labels, verdicts)


def recall(table: Counts, label: int) -> Numbers:
    """Share of a label's claims that got it as verdict."""
    return _ratio(table[..., label, label], table[..., label, :].sum(axis=-1))


def precision(table: Counts, label: int) -> Numbers:
    """Share of a verdict's claims that have it as label; 0 where no claim got the verdict."""
    given = table[..., :, label].sum(axis=-1)
    return np.where(given == 0, 0.0, _ratio(table[..., label, label], given))


def f1(table: Counts, label: int) -> Numbers:
    """Harmonic mean of a label's precision and recall."""
    has, given = table[..., label, :].sum(axis=-1), table[..., :, label].sum(axis=-1)
    return _ratio(2 * table[..., label, label], has + given)


def balanced_accuracy(table: Counts) -> Numbers:
    """Mean of the labels' recalls."""
    return _mean_over_labels(recall, table)


def macro_f1(table: Counts) -> Numbers:
    """Mean of the labels' F1."""
    return _mean_over_labels(f1, table)


def accuracy(table: Counts) -> Numbers:
    """Share of the claims whose verdict is their label."""
    right = np.trace(table, axis1=-2, axis2=-1)
    return _ratio(right, table.sum(axis=(-1, -2)))


def _mean_over_labels(metric: Callable[[Counts, int], Numbers], table: Counts) -> Numbers:
    labels = table.shape[-2]
    total: Numbers = metric(table, 0)
    for label in range(1, labels):
        total = total + metric(table, label)
    mean: Numbers = total / labels
    return mean


AS_REFUTED = "balanced_accuracy_as_refuted"
COUNT_METRICS: Mapping[str, CountMetric] = {
    "balanced_accuracy": balanced_accuracy,
    AS_REFUTED: lambda table: balanced_accuracy(as_refuted(table)),
    "recall_supported": lambda table: recall(table, SUPPORTED),
    "recall_refuted": lambda table: recall(table, REFUTED),
    "precision_supported": lambda table: precision(table, SUPPORTED),
    "precision_refuted": lambda table: precision(table, REFUTED),
    "f1_supported": lambda table: f1(table, SUPPORTED),
    "f1_refuted": lambda table: f1(table, REFUTED),
    "macro_f1": macro_f1,
    "accuracy": accuracy,
}
"""Name in ``SCORES`` to metric; ``balanced_accuracy`` is the paper's."""


def count_metrics(classes: int = 2) -> Mapping[str, CountMetric]:
    """``COUNT_METRICS``, of more classes with those of each further one."""
    kinds = {"recall": recall, "precision": precision, "f1": f1}
    further = {
        f"{kind}_{class_name(label)}": partial(metric, label=label)
        for label in range(len(LABELS), classes)
        for kind, metric in kinds.items()
    }
    return {**COUNT_METRICS, **further}


def class_name(label: int) -> str:
    """How the names of metrics call a label; those beyond the third are numbered."""
    names = ("supported", "refuted", "not_enough_info")
    return names[label] if label < len(names) else str(label)


def auroc(scores: Numbers, positive: NDArray[np.bool_]) -> float:
    """Chance that a positive row scores above a negative one, ties half; NaN without both."""
    if positive.all() or not positive.any():
        return np.nan
    _, rank = np.unique(scores, return_inverse=True)
    above = np.bincount(rank[positive], minlength=int(rank.max()) + 1)
    below = np.bincount(rank[~positive], minlength=int(rank.max()) + 1)
    wins = above * (np.cumsum(below) - below / 2)
    return float(wins.sum() / (above.sum() * below.sum()))


def brier(chances: Numbers, happened: NDArray[np.bool_]) -> float:
    """Mean square of probability minus what happened (1 or 0); NaN without rows."""
    return float(np.mean((chances - happened) ** 2)) if len(chances) else np.nan


def bin_numbers(chances: Numbers, kind: Literal["mass", "width"], bins: int = BINS) -> Codes:
    """The bin of each probability, 0..bins - 1.

    ``mass``: bins of equal size, as far as ties allow; equal probabilities share the bin of the
    first of them. ``width``: equal parts of 0..1, upper ends included.
    """
    if kind == "width":
        return np.searchsorted(np.linspace(0.0, 1.0, bins + 1)[1:-1], chances)
    ranks = np.searchsorted(np.sort(chances), chances)
    numbers: Codes = ranks * bins // max(len(chances), 1)
    return numbers


def calibration_error(
    chances: Numbers,
    happened: NDArray[np.bool_],
    kind: Literal["mass", "width"] = "mass",
    bins: int = BINS,
) -> float:
    """Expected calibration error: |mean probability - share that happened| by bin, row-weighted."""
    if not len(chances):
        return np.nan
    gaps = np.bincount(bin_numbers(chances, kind, bins), weights=chances - happened)
    return float(np.abs(gaps).sum() / len(chances))


def _ratio(above: Counts, below: Counts) -> Numbers:
    """Division that gives NaN where the denominator is 0."""
    ratio: Numbers = np.full(np.shape(below), np.nan)
    return np.divide(above, below, out=ratio, where=np.asarray(below) != 0)
