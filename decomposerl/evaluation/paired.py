"""Is one system better than another? Both on the same claims.

Takes labels and the two systems' verdicts as codes of ``evaluation.metrics``, gives the
difference in balanced accuracy with its interval (``evaluation.intervals``), the p-value of a
paired bootstrap, and McNemar's exact test; and Holm's correction for many such questions.

The bootstrap's p-value is never below ``2 ** (1 - m)``, the least that an exact sign test over the
m documents on which the systems differ can give. ``too_small`` says where no p-value should be
shown at all, and ``Difference.p`` is the one to correct: the larger of the two tests'.

Left out deliberately: joining two systems' predictions (``evaluation.comparison``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.bootstrap import DRAWS, Clusters, resampled_sums
from decomposerl.evaluation.intervals import difference_interval, mean_interval
from decomposerl.evaluation.metrics import (
    SUPPORTED,
    Codes,
    Numbers,
    balanced_accuracy,
    indicators,
    outcome_table,
)

LEAST_DIFFERING = 6
"""Documents on which two systems must differ: of five no sign test is below 2 / 2**5 = 0.06."""
LEAST_OF_A_LABEL = 10
"""Documents that each label must have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One system minus another: balanced accuracies 0..1, so -1..1, with 95 % interval.

    ``p_bootstrap`` and ``p_mcnemar`` are two-sided; the latter is None for a mean of several
    benchmarks, which have no claims in common to count. ``differing`` documents tell the two apart,
    and ``of_a_label`` have a claim of the rarer label (a mean: in the benchmark with the fewest).
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
        """The larger of the two p-values: each is too small where its assumptions fail."""
        return self.p_bootstrap if self.p_mcnemar is None else max(self.p_bootstrap, self.p_mcnemar)

    @property
    def too_small(self) -> str:
        """Why no p-value should be shown, empty where one may be."""
        if self.of_a_label < LEAST_OF_A_LABEL:
            return f"n = {self.of_a_label} of a label < {LEAST_OF_A_LABEL}"
        if self.differing < LEAST_DIFFERING:
            return f"n = {self.differing} differ < {LEAST_DIFFERING}"
        return ""


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
    differing, of_a_label = _documents(labels, verdicts, others, clusters)
    outcome = Difference(
        len(labels),
        difference,
        *difference_interval(labels, verdicts, others, clusters),
        max(p_two_sided(found), _least_p(differing)),
        mcnemar(verdicts == labels, others == labels),
        differing,
        of_a_label,
    )
    return outcome, found


def _documents(
    labels: Codes, verdicts: Codes, others: Codes, clusters: Clusters
) -> tuple[int, int]:
    """How many clusters tell the two apart, and how many have a claim of the rarer label."""
    gained = (verdicts == labels).astype(np.int64) - (others == labels)
    supported = labels == SUPPORTED
    sides = np.stack([gained * supported, gained * ~supported], axis=1)
    return int(clusters.sums(sides).any(axis=1).sum()), clusters.fewest(supported)


def _least_p(differing: int) -> float:
    return min(1.0, 2.0 ** (1 - differing))


def mean_difference(parts: Sequence[tuple[Difference, Numbers]]) -> Difference:
    """The difference of uniform means over benchmarks, each drawn independently.

    Raises:
        ValueError: no benchmark.
    """
    if not parts:
        raise ValueError("a mean over no benchmark")
    draws = np.mean([found for _, found in parts], axis=0)
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
