"""Paired comparison of two systems on the same claims, and Holm's correction for many.

Gives the difference in balanced accuracy with its interval (``evaluation.intervals``), the p-value
of a paired bootstrap, and McNemar's exact test. Verdicts are codes of ``evaluation.metrics``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.bootstrap import DRAWS, Clusters, resampled_sums
from decomposerl.evaluation.intervals import difference_interval, mean_interval
from decomposerl.evaluation.metrics import (
    Codes,
    Numbers,
    balanced_accuracy,
    indicators,
    outcome_table,
)

LEAST_DIFFERING = 6
"""Documents on which two systems must differ: with five no sign test is below 2 / 2**5 = 0.06."""
LEAST_OF_A_LABEL = 10
"""Documents that each label must have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One system's balanced accuracy minus another's, -1..1, with its 95 % interval.

    ``p_bootstrap`` and ``p_mcnemar`` are two-sided; the latter is None for a mean of several
    benchmarks. ``differing`` counts the documents on which the systems differ, ``of_a_label`` those
    with a claim of the rarer label (for a mean: in the benchmark with the fewest).
    """

    rows: int
    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_mcnemar: float | None
    differing: int
    of_a_label: int

    @property
    def p(self) -> float:
        """The larger p-value: each test is too small where its assumptions fail."""
        return self.p_bootstrap if self.p_mcnemar is None else max(self.p_bootstrap, self.p_mcnemar)

    @property
    def too_small(self) -> str:
        """Why no p-value should be shown; empty if one may be shown."""
        if self.of_a_label < LEAST_OF_A_LABEL:
            return f"n = {self.of_a_label} of a label < {LEAST_OF_A_LABEL}"
        if self.differing < LEAST_DIFFERING:
            return f"n = {self.differing} differ < {LEAST_DIFFERING}"
        return ""


def compare(
    labels: Codes,
    verdicts: Codes,
    others: Codes,
    clusters: Clusters,
    rng: np.random.Generator,
    draws: int = DRAWS,
    classes: int = 2,
) -> tuple[Difference, Numbers]:
    """The difference of two systems on the same claims, and its draws, shape (draws,)."""
    ours, theirs = (outcome_table(labels, one, classes) for one in (verdicts, others))
    difference = float(balanced_accuracy(ours) - balanced_accuracy(theirs))
    both = np.hstack([indicators(labels, one, classes) for one in (verdicts, others)])
    drawn_sums = resampled_sums(both, clusters, rng, draws)
    tables = drawn_sums.reshape(draws, 2, classes, classes + 1)
    drawn = balanced_accuracy(tables[:, 0]) - balanced_accuracy(tables[:, 1])
    differing, of_a_label = _documents(labels, verdicts, others, clusters, classes)
    outcome = Difference(
        len(labels),
        difference,
        *difference_interval(labels, verdicts, others, clusters, classes=classes),
        max(p_two_sided(drawn), _least_p(differing)),
        mcnemar(verdicts == labels, others == labels),
        differing,
        of_a_label,
    )
    return outcome, drawn


def _documents(
    labels: Codes, verdicts: Codes, others: Codes, clusters: Clusters, classes: int
) -> tuple[int, int]:
    """On how many clusters the systems differ, and how many have a claim of the rarer label."""
    gained = (verdicts == labels).astype(np.int64) - (others == labels)
    of_label = [labels == label for label in range(classes)]
    sides = np.stack([gained * own for own in of_label], axis=1)
    return int(clusters.sums(sides).any(axis=1).sum()), min(map(clusters.fewest, of_label))


def _least_p(differing: int) -> float:
    """The least p of an exact sign test over ``differing`` documents, a floor for any bootstrap."""
    return min(1.0, 2.0 ** (1 - differing))


def mean_difference(parts: Sequence[tuple[Difference, Numbers]]) -> Difference:
    """The difference of uniform means over benchmarks, each drawn independently.

    Raises:
        ValueError: no benchmark.
    """
    if not parts:
        raise ValueError("a mean over no benchmark")
    draws = np.mean([drawn for _, drawn in parts], axis=0)
    every = [outcome for outcome, _ in parts]
    differing = sum(outcome.differing for outcome in every)
    differences, lows, highs = zip(*((t.difference, t.low, t.high) for t in every), strict=True)
    return Difference(
        sum(outcome.rows for outcome in every),
        float(np.mean(differences)),
        *mean_interval(differences, lows, highs),
        max(p_two_sided(draws), _least_p(differing)),
        None,
        differing,
        min(outcome.of_a_label for outcome in every),
    )


def p_two_sided(differences: Numbers) -> float:
    """Twice the share of draws at or beyond 0, never 0, at most 1."""
    defined = differences[~np.isnan(differences)]
    if not len(defined):
        return np.nan
    beyond = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(defined) + 1))


def mcnemar(right: NDArray[np.bool_], other_right: NDArray[np.bool_]) -> float:
    """Exact two-sided p of equal error rates: a sign test on the claims where one is wrong."""
    better = int((right & ~other_right).sum())
    worse = int((other_right & ~right).sum())
    every, fewer = better + worse, min(better, worse)
    ways = total = 1
    for k in range(fewer):  # binomial coefficients as whole numbers: exact for any count
        ways = ways * (every - k) // (k + 1)
        total += ways
    return min(1.0, float(Fraction(2 * total, 2**every)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of a family of p-values, in the order given."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = least
    return corrected
