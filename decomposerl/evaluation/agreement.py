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
    cells = np.eye(classes * classes, dtype=np.int64)[teacher * classes + student]
    clusters = clusters_of(np.zeros(len(teacher), np.int64), documents)

    def metrics(sums: Counts) -> Mapping[str, Numbers]:
        table = sums.reshape(-1, classes, classes).astype(np.float64)
        rows, columns, total = table.sum(axis=2), table.sum(axis=1), table.sum(axis=(1, 2))
        agree = _ratio(np.trace(table, axis1=1, axis2=2), total)
        chance = _ratio((rows * columns).sum(axis=1), total**2)
        return {
            "agreement": agree,
            "macro_f1": macro_f1(table),
            "kappa": _ratio(agree - chance, 1 - chance),
            "most_common": _ratio(rows.max(axis=1), total),
        }

    return _measured(metrics, cells, clusters, generator(seed, "agreement"))


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
    rows = rewards.with_row_index("row")
    # Every pair of rollouts of a group, and each rollout with itself, which no side orders.
    pairs = rows.join(rows, on="group", suffix="_2", maintain_order="left")
    same, shift = pl.col("row") == pl.col("row_2"), pl.col("student") - pl.col("teacher")
    first = (pl.col("teacher") - pl.col("teacher_2")).round(9).sign()
    second = (pl.col("student") - pl.col("student_2")).round(9).sign()
    reversals, ties, splits = (
        first * second < 0,
        (first != 0) & (second == 0),
        (first == 0) & (second != 0),
    )
    sums = (
        pairs.filter(pl.col("row") <= pl.col("row_2"))
        .group_by("group", maintain_order=True)
        .agg(
            groups=pl.lit(1),
            rows=same.sum(),
            shift=shift.filter(same).sum(),
            distance=shift.filter(same).abs().sum(),
            ordered=(first != 0).sum(),
            unordered=((first == 0) & ~same).sum(),
            reversed=reversals.sum(),
            tied=ties.sum(),
            split=splits.sum(),
            reordered=(reversals | ties | splits).any().cast(pl.Int64),
        )
        .drop("group")
    )
    clusters = clusters_of(np.zeros(sums.height, np.int64))

    def metrics(totals: Counts) -> Mapping[str, Numbers]:
        of = dict(zip(sums.columns, totals.reshape(-1, sums.width).T, strict=True))
        return {
            "mean_shift": _ratio(of["shift"], of["rows"]),
            "mean_distance": _ratio(of["distance"], of["rows"]),
            "reversed_pairs": _ratio(of["reversed"], of["ordered"]),
            "tied_pairs": _ratio(of["tied"], of["ordered"]),
            "split_pairs": _ratio(of["split"], of["unordered"]),
            "reordered_groups": _ratio(of["reordered"], of["groups"]),
        }

    columns = sums.to_numpy().astype(np.float64)
    spearman = rewards.select(pl.corr("teacher", "student", method="spearman")).item()
    measured = _measured(metrics, columns, clusters, generator(seed, "rewards"))
    return [
        Measured("rank_correlation", None if spearman is None else _defined(spearman)),
        *measured,
    ]


def _measured(
    metrics: Callable[[Counts], Mapping[str, Numbers]],
    columns: Counts,
    clusters: Clusters,
    rng: np.random.Generator,
) -> list[Measured]:
    estimates = metrics(columns.sum(axis=0, keepdims=True))
    draws = metrics(resampled_sums(columns, clusters, rng, DRAWS))
    return [
        Measured(
            name, _defined(value[0]), *map(_defined, safe_interval(draws[name], clusters.count))
        )
        for name, value in estimates.items()
    ]


def _ratio(above: Counts, below: Counts) -> Numbers:
    ratio: Numbers = np.full(np.shape(below), np.nan)
    return np.divide(above, below, out=ratio, where=np.abs(below) > 0)


def _defined(value: float | Numbers) -> float | None:
    """The number, None for NaN."""
    return None if np.isnan(value) else float(value)
