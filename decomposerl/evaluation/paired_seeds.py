"""Two training recipes compared on the same claims, each trained with the same seeds.

Takes one value per seed and claim of either recipe. A difference has two 95 % intervals: over
claims (claims that share evidence together) says whether other claims would show it, over seeds
whether training again would. Only what both show is called a difference; its p-value is the larger
of both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from decomposerl.evaluation.comparison import compare
from decomposerl.evaluation.metrics import (
    LEVEL,
    Bounds,
    Codes,
    Numbers,
    balanced_accuracy,
    shared_evidence,
    summed,
)

_NO_BOUNDS = (math.nan, math.nan)
Order = Literal["same", "opposite", "not resolved"]
"""How a difference lies to a published one."""


@dataclass(frozen=True, slots=True)
class SeedDifference:
    """One recipe's mean minus another's, with its intervals over claims and over seeds.

    Bounds and ``p`` are NaN where there are too few seeds or claims for them.
    """

    difference: float
    over_claims: Bounds
    over_seeds: Bounds
    p: float

    @property
    def resolved(self) -> bool:
        """Whether both intervals lie on the difference's side of 0."""
        bounds = (self.over_claims, self.over_seeds)
        return all(low > 0 or high < 0 for low, high in bounds)

    def order(self, published: float) -> Order | None:
        """Whether this difference has the sign of a published one; None where that is 0."""
        if published == 0:
            return None
        if not self.resolved:
            return "not resolved"
        return "same" if (self.difference > 0) == (published > 0) else "opposite"


def mean_over_seeds(values: Numbers) -> tuple[float, Bounds]:
    """The mean of one value per seed, shape (seeds,), with Student's interval."""
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, _NO_BOUNDS
    mean = float(known.mean())
    bounds, _ = _student(mean, _standard_error(known), len(known) - 1)
    return mean, bounds


def accuracies(labels: Codes, verdicts: Codes) -> Numbers:
    """Balanced accuracy by seed, 0..1; ``verdicts`` (seeds, claims), ``labels`` (claims,)."""
    return np.array([balanced_accuracy(labels, row) for row in verdicts])


def compare_accuracy(
    labels: Codes, verdicts: Codes, others: Codes, documents: Sequence[str]
) -> SeedDifference:
    """The difference in balanced accuracy; ``verdicts`` and ``others`` (seeds, claims).

    Over claims as ``evaluation.comparison`` compares two systems; all runs of a claim share its
    document.
    """
    seeds = len(verdicts)
    by_run = np.tile(labels, seeds)
    evidence = np.tile(shared_evidence(documents), seeds)
    found = compare(by_run, verdicts.ravel(), others.ravel(), evidence)
    by_seed = accuracies(labels, verdicts) - accuracies(labels, others)
    bounds, p = _student(found.difference, _standard_error(by_seed), seeds - 1)
    larger = float(np.maximum(found.p, p))
    return SeedDifference(found.difference, found.bounds, bounds, larger)


def compare_means(values: Numbers, others: Numbers, documents: Sequence[str]) -> SeedDifference:
    """The difference of means of a reward; both (seeds, claims), NaN where it has no value.

    Over claims by the linearized variance over documents. A pair with a NaN is left out, and a
    document or a seed without any pair adds no degree of freedom.
    """
    both = values - others
    known = ~np.isnan(both)
    if not known.any():
        return SeedDifference(math.nan, _NO_BOUNDS, _NO_BOUNDS, math.nan)
    seeds, claims = (np.flatnonzero(known.any(axis=axis)) for axis in (1, 0))
    both, known = (one[np.ix_(seeds, claims)] for one in (both, known))
    evidence = shared_evidence([documents[claim] for claim in claims.tolist()])
    middle = float(both[known].mean())
    (sums,) = summed(evidence, np.where(known, both - middle, 0.0).sum(axis=0))
    error = _sum_error(sums) / int(known.sum())
    over_claims, claims_p = _student(middle, error, len(sums) - 1)
    by_seed = np.array([row[seen].mean() for row, seen in zip(both, known, strict=True)])
    over_seeds, seeds_p = _student(middle, _standard_error(by_seed), len(by_seed) - 1)
    return SeedDifference(middle, over_claims, over_seeds, float(np.maximum(claims_p, seeds_p)))


def _standard_error(values: Numbers) -> float:
    """Of the mean of independent values; NaN for fewer than two."""
    count = len(values)
    return float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan


def _sum_error(sums: Numbers) -> float:
    """The standard error of the sum of independent deviations; NaN for fewer than two."""
    count = len(sums)
    return math.sqrt(count / (count - 1) * float(sums @ sums)) if count > 1 else math.nan


def _student(mean: float, error: float, freedom: int) -> tuple[Bounds, float]:
    """Student's interval, and the two-sided p of a mean of 0.

    NaN without a standard error, also where it is 0: equal values do not show their spread.
    """
    from scipy.special import stdtr, stdtrit  # slow to import, and not every run needs it

    if freedom < 1 or not error > 0:
        return _NO_BOUNDS, math.nan
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return (mean - half, mean + half), float(2 * stdtr(freedom, -abs(mean) / error))
