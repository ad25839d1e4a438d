"""Metrics of verdicts and of confidences, all 0..1.

Metrics of verdicts take tables of counts, shape (..., k, k + 1): the k labels by those verdicts and
none. The paper's k is 2, Supported and Refuted; a three-way test set has Not Enough Information,
too, which two-way is no verdict. Each is a share of claims or a mean of shares, which ``intervals``
relies on. A missing verdict counts as wrong. An undefined metric (a label without claims) is NaN,
never 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

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
BALANCED = "balanced_accuracy"
AS_REFUTED = "balanced_accuracy_as_refuted"
"""The lenient reading: a missing verdict counts as Refuted."""
_CODES = {"Supported": SUPPORTED, "Refuted": REFUTED, "NotEnoughInfo": 2, None: 3}


class Share(NamedTuple):
    """Claims in the cells ``hits`` among those in ``of``, numbered as in ``indicators``.

    With ``f1`` it is 2J / (1 + J) of that share J. ``empty`` is its value where ``of`` has no
    claim.
    """

    hits: tuple[int, ...]
    of: tuple[int, ...]
    f1: bool = False
    empty: float = math.nan


@dataclass(frozen=True, slots=True)
class CountMetric:
    """A metric of verdicts: the mean of ``shares``, one or one a label."""

    shares: tuple[Share, ...]

    def __call__(self, table: Counts) -> Numbers:
        """The metric of each table, shape (...)."""
        cells = table.reshape(*table.shape[:-2], -1)
        values = []
        for share in self.shares:
            hits, of = (cells[..., list(part)].sum(axis=-1) for part in (share.hits, share.of))
            if share.f1:
                hits, of = 2 * hits, of + hits
            value = np.full(np.shape(of), share.empty)
            values.append(np.divide(hits, of, out=value, where=np.asarray(of) != 0))
        mean: Numbers = np.mean(values, axis=0)
        return mean


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


def balanced_accuracy(table: Counts) -> Numbers:
    """Mean of the labels' recalls."""
    return count_metrics(table.shape[-2])[BALANCED](table)


@lru_cache
def count_metrics(classes: int = 2) -> Mapping[str, CountMetric]:
    """The metrics of verdicts by their names in ``SCORES``; ``BALANCED`` is the paper's.

    Those of more classes end with those of each further label. A precision is 0 where no claim got
    the verdict.
    """
    cells = np.arange(classes * (classes + 1)).reshape(classes, -1)
    shares: dict[str, list[Share]] = {"recall": [], "precision": [], "f1": []}
    for label in range(classes):
        row, column = cells[label].tolist(), cells[:, label].tolist()
        hits = (int(cells[label, label]),)
        shares["recall"].append(Share(hits, tuple(row)))
        shares["precision"].append(Share(hits, tuple(column), empty=0.0))
        shares["f1"].append(Share(hits, tuple({*row, *column}), f1=True))
    first, further = (
        {f"{kind}_{class_name(n)}": (one[n],) for kind, one in shares.items() for n in labels}
        for labels in (range(len(LABELS)), range(len(LABELS), classes))
    )
    metrics = {
        BALANCED: tuple(shares["recall"]),
        **first,
        "macro_f1": tuple(shares["f1"]),
        "accuracy": (Share(tuple(cells.diagonal().tolist()), tuple(range(cells.size))),),
        **further,
    }
    return {name: CountMetric(parts) for name, parts in metrics.items()}


def class_name(label: int) -> str:
    """How the names of metrics call a label; those beyond the third are numbered."""
    names = ("supported", "refuted", "not_enough_info")
    return names[label] if label < len(names) else str(label)


COUNT_METRICS = count_metrics()
"""Those of the paper's two labels."""


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
