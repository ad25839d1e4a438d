"""Is one system better than another? Both on the same claims.

Takes labels and the two systems' verdicts as codes of ``evaluation.metrics``, gives the
difference in balanced accuracy with the interval of a paired bootstrap, its p-value, and
McNemar's exact test; and Holm's correction for many such questions.

Left out deliberately: joining two systems' predictions (``evaluation.comparison``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.bootstrap import DRAWS, Clusters, interval, resampled_sums
from decomposerl.evaluation.metrics import (
    Codes,
    Numbers,
    balanced_accuracy,
    indicators,
    outcome_table,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One system minus another: balanced accuracies 0..1, so -1..1, with 95 % interval.

    ``p_bootstrap`` and ``p_mcnemar`` are two-sided; the latter is None for a mean of several
    benchmarks, which have no claims in common to count.
    """

    rows: int
    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_mcnemar: float | None


def compare(  # noqa: PLR0913, PLR0917 - two systems, and how to draw
    labels: Codes,
    verdicts: Codes,
    others: Codes,
    clusters: Clusters,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> tuple[Difference, Numbers]:
    """The difference of two systems on the same claims, and its draws, shape (draws,)."""
    ours, theirs = outcome_table(labels, verdicts), outcome_table(labels, others)
    difference = float(balanced_accuracy(ours) - balanced_accuracy(theirs))
    both = np.hstack([indicators(labels, verdicts), indicators(labels, others)])
    tables = resampled_sums(both, clusters, rng, draws).reshape(draws, 2, 2, 3)
    found = balanced_accuracy(tables[:, 0]) - balanced_accuracy(tables[:, 1])
    p_mcnemar = mcnemar(verdicts == labels, others == labels)
    told = Difference(len(labels), difference, *interval(found), p_two_sided(found), p_mcnemar)
    return told, found


def mean_difference(parts: Sequence[tuple[Difference, Numbers]]) -> Difference:
    """The difference of uniform means over benchmarks, each drawn independently.

    Raises:
        ValueError: no benchmark.
    """
    if not parts:
        raise ValueError("a mean over no benchmark")
    draws = np.mean([found for _, found in parts], axis=0)
    difference = float(np.mean([told.difference for told, _ in parts]))
    rows = sum(told.rows for told, _ in parts)
    return Difference(rows, difference, *interval(draws), p_two_sided(draws), None)


def p_two_sided(differences: Numbers) -> float:
    """Twice the share of draws on the far side of 0 or on it, never 0, at most 1."""
    found = differences[~np.isnan(differences)]
    if not len(found):
        return np.nan
    far = min(int((found <= 0).sum()), int((found >= 0).sum()))
    return min(1.0, 2 * (far + 1) / (len(found) + 1))


def mcnemar(right: NDArray[np.bool_], other_right: NDArray[np.bool_]) -> float:
    """Exact two-sided p of equal error rates: a sign test on the claims that tell them apart."""
    better = int((right & ~other_right).sum())
    worse = int((other_right & ~right).sum())
    every, fewer = better + worse, min(better, worse)
    ways = total = 1
    for k in range(fewer):
        ways = ways * (every - k) // (k + 1)
        total += ways
    return min(1.0, float(Fraction(2 * total, 2**every)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of a family of p-values, in the order given."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = least
    return corrected
