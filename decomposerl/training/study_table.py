"""The table of a study: every variant's measures over its seeds, and its differences.

Takes one row per variant, seed, claim, end of the run and split (``OUTCOMES``), gives
``schemas.TRAINING_STUDY``. Accuracies are in percent, rewards in their own unit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from decomposerl.evaluation.comparison import holm
from decomposerl.evaluation.metrics import LEVEL, Bounds, Codes, Numbers, codes_of
from decomposerl.evaluation.paired_seeds import (
    SeedDifference,
    accuracies,
    compare_accuracy,
    compare_means,
    mean_over_seeds,
)
from decomposerl.evaluation.published import ablation_of, domain_means
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import TRAINING_STUDY
from decomposerl.training.curves import Split
from decomposerl.training.studies import Study, Variant

ACCURACY = "balanced_accuracy"
GREEDY: Split = "held_out_greedy"
SAMPLED: Split = "held_out_sampled"
SCORED = (*(reward.name for reward in REWARDS if reward.weight), "total", "questions")
"""The measures of a sampled trace: the rewards of the full ensemble, their sum, its questions."""
OUTCOMES = pl.Schema(
    {name: pl.String() for name in ("variant", "end", "split", "claim_id", "document", "label")}
    | {"verdict": pl.String(), "seed": pl.Int64(), "steps": pl.Int64()}
    | dict.fromkeys(SCORED, pl.Float64())
)
"""``variant`` is a title, ``end`` is before or after, ``steps`` are a run's optimizer steps; the
greedy split has no rewards."""
ALL_VARIANTS = "all variants"
UNTRAINED = "before training"
"""``against`` of the rows that compare a variant with its own start."""
TAUS = {"paper_in_domain": "tau_in_domain", "paper_out_of_domain": "tau_out_of_domain"}
"""The measure of the rows ``ALL_VARIANTS``, by the paper's column: Kendall's tau-b of the greedy
accuracies with the paper's means, over the variants that it has; ``p`` is exact."""
GAINS = (ACCURACY, "total")
"""Measures of which a variant's end is compared with its start."""
_BEFORE, _AFTER = "before", "after"
_PERCENT = 100.0
_MEASURES: tuple[tuple[str, Split], ...] = (
    (ACCURACY, GREEDY),
    (ACCURACY, SAMPLED),
    *((name, SAMPLED) for name in SCORED),
)
LEAST_VARIANTS = 4
"""Of fewer, an order of chance agrees too often: of three, one in six."""
_DRAWS = 2_000
_PERMUTATIONS = 50_000  # exact for up to eight variants
_Key = tuple[str, str, str]  # variant, end, split


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """The claims in one order, and by variant, end and split each measure, (seeds, claims)."""

    labels: Codes
    documents: list[str]
    seeds: int
    steps: Mapping[str, int]
    verdicts: Mapping[_Key, Codes]
    values: Mapping[_Key, Mapping[str, Numbers]]
    differences: dict[tuple[_Key, _Key, str], SeedDifference] = field(default_factory=dict)

    def by_seed(self, key: _Key, measure: str) -> Numbers:
        """The measure's value of each seed; an accuracy in percent."""
        if measure == ACCURACY:
            return _PERCENT * accuracies(self.labels, self.verdicts[key])
        values = self.values[key][measure]
        return np.array([row[~np.isnan(row)].mean() if (~np.isnan(row)).any() else math.nan
                         for row in values])  # fmt: skip

    def difference(self, one: _Key, other: _Key, measure: str) -> SeedDifference:
        """One variant at one end less another; an accuracy in percent."""
        known = (one, other, measure)
        if known not in self.differences:
            if measure == ACCURACY:
                verdicts = self.verdicts[one], self.verdicts[other]
                found = _in_percent(compare_accuracy(self.labels, *verdicts, self.documents))
            else:
                values = self.values[one][measure], self.values[other][measure]
                found = compare_means(*values, self.documents)
            self.differences[known] = found
        return self.differences[known]


def study_table(study: Study, outcomes: pl.DataFrame, engine: str) -> pl.DataFrame:
    """The rows of ``schemas.TRAINING_STUDY``: by measure, each variant, then the other pairs.

    Claims and seeds that not every variant has are left out. P-values are corrected by Holm over
    the variants of a measure. Pairs without the first variant are compared in accuracy alone, and
    accuracy and the sum of rewards also with their start (``UNTRAINED``). At the end ``TAUS``,
    where the paper has enough of the variants to be in an order.

    Raises:
        ValueError: a variant has no run.
    """
    runs = _runs(study, outcomes)
    rows = [row for measure, split in _MEASURES for row in _rows(study, runs, measure, split)]
    rows += _order_rows(study, runs)
    fixed = {"study": study.name, "engine": engine, "seeds": runs.seeds, "claims": len(runs.labels)}
    frame = pl.DataFrame([fixed | row for row in rows], schema=TRAINING_STUDY.schema)
    return TRAINING_STUDY.conform(frame.with_columns(pl.selectors.float().fill_nan(None)))


def _runs(study: Study, outcomes: pl.DataFrame) -> _Runs:
    titles = [variant.title for variant in study.variants]
    parts = ["variant", "end", "split"]
    chosen = outcomes.filter(pl.col("variant").is_in(titles))
    if missing := set(titles) - set(chosen["variant"]):
        raise ValueError(f"no run of {', '.join(sorted(missing))}")
    groups = chosen.select(parts).n_unique()
    chosen = chosen.filter(pl.struct(parts).n_unique().over("seed") == groups)
    whole = chosen.select(*parts, "seed").n_unique()
    chosen = chosen.filter(pl.len().over("claim_id") == whole).sort(*parts, "seed", "claim_id")
    claims = chosen.unique("claim_id", maintain_order=True).sort("claim_id")
    seeds, labels = chosen["seed"].n_unique(), claims["label"].to_list()
    verdicts: dict[_Key, Codes] = {}
    values: dict[_Key, dict[str, Numbers]] = {}
    for (variant, end, split), part in chosen.group_by(parts, maintain_order=True):
        key = (str(variant), str(end), str(split))
        verdicts[key] = codes_of(part["verdict"].to_list()).reshape(seeds, -1)
        values[key] = {
            name: part[name].fill_null(math.nan).to_numpy().reshape(seeds, -1) for name in SCORED
        }
    return _Runs(
        codes_of(labels),
        claims["document"].to_list(),
        seeds,
        dict(chosen.select("variant", "steps").unique().iter_rows()),
        verdicts,
        values,
    )


def _rows(study: Study, runs: _Runs, measure: str, split: str) -> Iterator[dict[str, Any]]:
    first, *rest = study.variants
    yield _row(study, runs, first, measure, split)
    yield from _compared(study, runs, [(one, first) for one in rest], measure, split)
    if measure == ACCURACY:
        for other, variant in combinations(rest, 2):
            yield from _compared(study, runs, [(variant, other)], measure, split, correct=False)
    if measure in GAINS:
        own = [(variant, None) for variant in study.variants]
        yield from _compared(study, runs, own, measure, split)


def _compared(
    study: Study,
    runs: _Runs,
    pairs: Sequence[tuple[Variant, Variant | None]],
    measure: str,
    split: str,
    *,
    correct: bool = True,
) -> Iterator[dict[str, Any]]:
    """A row per pair; the second is None for the variant's own start; ``correct`` p by Holm."""
    found = []
    for variant, other in pairs:
        title, end = (variant.title, _BEFORE) if other is None else (other.title, _AFTER)
        ours, theirs = (variant.title, _AFTER, split), (title, end, split)
        found.append(runs.difference(ours, theirs, measure))
    corrected = _corrected([one.p for one in found]) if correct else [None] * len(found)
    for (variant, other), one, p in zip(pairs, found, corrected, strict=True):
        row = _row(study, runs, variant, measure, split) | _differences(one) | {"p_holm": p}
        if other is None:
            yield row | {"against": UNTRAINED, "own_measure": False}
        else:
            orders = _orders(study, variant, other, measure, one)
            yield row | {"against": other.title} | orders


def _row(study: Study, runs: _Runs, variant: Variant, measure: str, split: str) -> dict[str, Any]:
    """What a variant reached, compared with nothing."""
    title = variant.title
    mean, (low, high) = mean_over_seeds(runs.by_seed((title, _AFTER, split), measure))
    if measure == ACCURACY:
        low, high = max(low, 0.0), min(high, _PERCENT)
    before, _ = mean_over_seeds(runs.by_seed((title, _BEFORE, split), measure))
    return {
        "variant": title,
        "measure": measure,
        "split": split,
        "recipe": variant.embedded,
        "steps": runs.steps[title],
        "before": before,
        "mean": mean,
        "low": low,
        "high": high,
        "own_measure": measure == variant.moves,
        **_published(study, variant, measure),
    }


def _differences(found: SeedDifference) -> dict[str, Any]:
    return {
        "difference": found.difference,
        **dict(zip(("claims_low", "claims_high"), found.over_claims, strict=True)),
        **dict(zip(("seeds_low", "seeds_high"), found.over_seeds, strict=True)),
        "resolved": found.resolved,
        "p": found.p,
    }


def _published(study: Study, variant: Variant, measure: str) -> dict[str, float]:
    row = ablation_of(study.name).get(variant.paper)
    if row is None or measure != ACCURACY:
        return {}
    return dict(zip(("paper_in_domain", "paper_out_of_domain"), domain_means(row), strict=True))


def _orders(
    study: Study, variant: Variant, other: Variant, measure: str, found: SeedDifference
) -> dict[str, Any]:
    """Whether each of the paper's two differences has the sign of this one."""
    ours, theirs = (_published(study, one, measure) for one in (variant, other))
    if not ours or not theirs:
        return {}
    return {
        name.replace("paper", "order"): found.order(round(ours[name] - theirs[name], 2))
        for name in ours
    }


def _order_rows(study: Study, runs: _Runs) -> Iterator[dict[str, Any]]:
    printed = {one.title: _published(study, one, ACCURACY) for one in study.variants}
    titles = [title for title, means in printed.items() if means]
    if len(titles) < LEAST_VARIANTS:
        return
    greedy = [runs.by_seed((title, _AFTER, GREEDY), ACCURACY) for title in titles]
    for column, measure in TAUS.items():
        rng = np.random.default_rng(0)
        means = [printed[title][column] for title in titles]
        found = rank_agreement(np.stack(greedy, axis=1), means, rng)
        low, high = found.over_seeds
        yield {
            "variant": ALL_VARIANTS,
            "measure": measure,
            "split": GREEDY,
            "recipe": "",
            "steps": max(runs.steps.values()),
            "mean": found.tau,
            "low": low,
            "high": high,
            "p": found.p,
            "own_measure": False,
        }


def _corrected(p_values: Sequence[float]) -> list[float]:
    known = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    found = dict(zip(known, holm([p_values[place] for place in known]), strict=True))
    return [found.get(place, math.nan) for place in range(len(p_values))]


def _in_percent(found: SeedDifference) -> SeedDifference:
    def scaled(bounds: Bounds) -> Bounds:
        return _PERCENT * bounds[0], _PERCENT * bounds[1]

    return SeedDifference(
        _PERCENT * found.difference, scaled(found.over_claims), scaled(found.over_seeds), found.p
    )


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
    low, high = np.nanquantile(_tau(drawn, printed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _tau(ours: Numbers, printed: Numbers) -> Numbers:
    """Tau-b over the last axis of ``ours`` (..., variants); NaN where one side is all ties."""
    first, second = np.triu_indices(len(printed), 1)
    left = np.sign(ours[..., first] - ours[..., second])
    right = np.sign(printed[first] - printed[second])
    with np.errstate(invalid="ignore"):
        untied = np.sqrt((left != 0).sum(axis=-1) * (right != 0).sum())
        return np.asarray((left * right).sum(axis=-1) / untied)
