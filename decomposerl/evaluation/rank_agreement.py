"""Whether several variants come in the same order as published ones: Kendall's tau-b.

Takes one value per seed and variant, and the published value of each variant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decomposerl.evaluation.intervals import LEVEL, Bounds
from decomposerl.evaluation.metrics import Numbers

LEAST_VARIANTS = 4
"""Of fewer, an order of chance agrees too often: of three, one in six."""
_DRAWS = 2_000
_PERMUTATIONS = 50_000  # exact for up to eight variants


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Kendall's tau-b, -1..1, its 95 % interval over seeds, and the p-value of no agreement.

    ``tau`` and ``p`` are NaN where all values of one side are equal, the bounds also for one seed.
    """

    tau: float
    over_seeds: Bounds
    p: float


def rank_agreement(
    values: Numbers, published: Sequence[float], rng: np.random.Generator
) -> RankAgreement:
    """The order of the means over seeds beside the published one; ``values`` (seeds, variants).

    ``p`` is exact for up to eight variants: the share of all orders, two-sided, that agree as much.
    It takes the means as they are; the interval resamples whole seeds (percentiles of the
    bootstrap, which few seeds make too narrow).
    """
    from scipy.stats import permutation_test  # slow to import, and not every run needs it

    printed = np.asarray(published, dtype=np.float64)
    means = values.mean(axis=0)
    tau = float(_tau(means, printed))
    if np.isnan(tau):
        return RankAgreement(tau, (np.nan, np.nan), np.nan)

    def statistic(ours: Numbers, axis: int) -> Numbers:
        return _tau(np.moveaxis(ours, axis, -1), printed)

    found: Any = permutation_test(
        (means,),
        statistic,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=_PERMUTATIONS,
        rng=rng,
    )
    return RankAgreement(tau, _over_seeds(values, printed, rng), float(found.pvalue))


def _over_seeds(values: Numbers, printed: Numbers, rng: np.random.Generator) -> Bounds:
    seeds = len(values)
    if seeds == 1:
        return np.nan, np.nan
    drawn = values[rng.integers(seeds, size=(_DRAWS, seeds))].mean(axis=1)
    taus = _tau(drawn, printed)
    low, high = np.nanquantile(taus, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _tau(ours: Numbers, printed: Numbers) -> Numbers:
    """Tau-b over the last axis of ``ours`` (..., variants); NaN where one side is all ties."""
    first, second = np.triu_indices(len(printed), 1)
    left = np.sign(ours[..., first] - ours[..., second])
    right = np.sign(printed[first] - printed[second])
    with np.errstate(invalid="ignore"):
        untied = np.sqrt((left != 0).sum(axis=-1) * (right != 0).sum())
        return np.asarray((left * right).sum(axis=-1) / untied)
