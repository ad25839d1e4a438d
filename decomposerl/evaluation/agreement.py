"""How well a judge agrees with another one, and what that does to rewards.

Rulings of a head: agreement, macro-F1 and Cohen's kappa over the table of counts (class of the
teacher by that of the student). Rewards: rank correlation, mean shift, and how often two rollouts
of a group change places, since GRPO only compares the rollouts of a group. Intervals are
percentiles of a bootstrap over documents or groups (``intervals``), null for fewer than 30.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from decomposerl.evaluation.intervals import (
    DRAWS,
    Clusters,
    clusters_of,
    generator,
    resampled_sums,
    safe_interval,
)
from decomposerl.evaluation.metrics import Codes, Counts, Numbers


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric with its 95 % interval; None where it is not defined."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None


def agreement(
    teacher: Codes, student: Codes, classes: int, documents: Sequence[str], seed: int = 0
) -> list[Measured]:
    """Agreement, macro-F1, kappa, and the share of the teacher's most common class.

    ``teacher`` and ``student`` (n,) are class numbers below ``classes``. A class that neither gives
    is left out of macro-F1; kappa is undefined where both give one and the same class.
    """
    cells = np.zeros((len(teacher), classes * classes), np.int64)
    cells[np.arange(len(teacher)), teacher * classes + student] = 1
    clusters = clusters_of(np.zeros(len(teacher), np.int64), documents)

    def metrics(sums: Counts) -> Mapping[str, Numbers]:
        table = sums.reshape(-1, classes, classes).astype(np.float64)
        rows = table.sum(axis=2)
        return {
            "agreement": agreement_of(table),
            "macro_f1": macro_f1(table),
            "kappa": kappa(table),
            "most_common": _ratio(rows.max(axis=1), rows.sum(axis=1)),
        }

    return _measured(metrics, cells, clusters, generator(seed, "agreement"))


def agreement_of(table: Counts) -> Numbers:
    """The share of equal classes, of tables (..., k, k)."""
    return _ratio(np.trace(table, axis1=-2, axis2=-1), table.sum(axis=(-2, -1)))


def kappa(table: Counts) -> Numbers:
    """Cohen's kappa of tables (..., k, k); undefined where chance alone gives full agreement."""
    by_chance = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
    chance = _ratio(by_chance, table.sum(axis=(-2, -1)) ** 2)
    return _ratio(agreement_of(table) - chance, 1 - chance)


def macro_f1(table: Counts) -> Numbers:
    """Mean F1 of the classes that either side gives, of tables (..., k, k)."""
    right = np.diagonal(table, axis1=-2, axis2=-1)
    given = table.sum(axis=-1) + table.sum(axis=-2)
    share = np.divide(2 * right, given, out=np.zeros(given.shape), where=given > 0)
    return _ratio(share.sum(axis=-1), (given > 0).sum(axis=-1))


def reward_agreement(rewards: pl.DataFrame, seed: int = 0) -> list[Measured]:
    """How one reward differs between two judges.

    ``rewards`` has ``group``, ``teacher`` and ``student``, one row per rollout, without nulls.
    ``reversed_pairs``: of the pairs of a group that the teacher orders, those that the student
    orders the other way round; ``tied_pairs``: those it gives one value; ``split_pairs``: of the
    pairs that the teacher ties, those the student orders. ``reordered_groups``: groups with any of
    the three.
    """
    pairs = _pairs(rewards)
    sums = rewards.group_by("group", maintain_order=True).agg(
        rows=pl.len(),
        shift=(pl.col("student") - pl.col("teacher")).sum(),
        distance=(pl.col("student") - pl.col("teacher")).abs().sum(),
    )
    joined = sums.join(pairs, on="group", how="left").fill_null(0).with_columns(groups=pl.lit(1))
    joined = joined.with_columns(
        reordered=(pl.col("reversed") + pl.col("tied") + pl.col("split") > 0).cast(pl.Int64)
    )
    names = [name for name in joined.columns if name != "group"]
    columns = joined.select(names).to_numpy().astype(np.float64)
    clusters = clusters_of(np.zeros(joined.height, np.int64))

    def metrics(totals: Counts) -> Mapping[str, Numbers]:
        of = dict(zip(names, totals.reshape(-1, len(names)).T, strict=True))
        return {
            "mean_shift": _ratio(of["shift"], of["rows"]),
            "mean_distance": _ratio(of["distance"], of["rows"]),
            "reversed_pairs": _ratio(of["reversed"], of["ordered"]),
            "tied_pairs": _ratio(of["tied"], of["ordered"]),
            "split_pairs": _ratio(of["split"], of["pairs"] - of["ordered"]),
            "reordered_groups": _ratio(of["reordered"], of["groups"]),
        }

    measured = _measured(metrics, columns, clusters, generator(seed, "rewards"))
    return [Measured("rank_correlation", _spearman(rewards)), *measured]


def _pairs(rewards: pl.DataFrame) -> pl.DataFrame:
    """Pairs of rollouts by group: all, those that the teacher orders, and what changes."""
    numbered = rewards.with_row_index("row")
    both = numbered.join(numbered, on="group", suffix="_2").filter(pl.col("row") < pl.col("row_2"))
    first = (pl.col("teacher") - pl.col("teacher_2")).round(9).sign()
    second = (pl.col("student") - pl.col("student_2")).round(9).sign()
    return both.group_by("group").agg(
        pairs=pl.len(),
        ordered=(first != 0).sum(),
        reversed=(first * second < 0).sum(),
        tied=((first != 0) & (second == 0)).sum(),
        split=((first == 0) & (second != 0)).sum(),
    )


def _spearman(rewards: pl.DataFrame) -> float | None:
    value = rewards.select(pl.corr("teacher", "student", method="spearman")).item()
    return None if value is None or np.isnan(value) else float(value)


def _measured(
    metrics: Callable[[Counts], Mapping[str, Numbers]],
    columns: Counts,
    clusters: Clusters,
    rng: np.random.Generator,
) -> list[Measured]:
    estimates = metrics(columns.sum(axis=0, keepdims=True))
    draws = metrics(resampled_sums(columns, clusters, rng, DRAWS))
    return [
        Measured(name, defined(value[0]), *map(defined, safe_interval(draws[name], clusters.count)))
        for name, value in estimates.items()
    ]


def _ratio(above: Counts, below: Counts) -> Numbers:
    ratio: Numbers = np.full(np.shape(below), np.nan)
    return np.divide(above, below, out=ratio, where=np.abs(below) > 0)


def defined(value: float | Numbers) -> float | None:
    """The number, None for NaN."""
    return None if np.isnan(value) else float(value)
