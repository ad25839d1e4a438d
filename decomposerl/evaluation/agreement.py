"""How well a judge agrees with another one, and what that does to rewards.

Rulings of a head: agreement, macro-F1 and Cohen's kappa over the table of counts (class of the
teacher by that of the student). Rewards: rank correlation, mean shift, and how often two rollouts
of a group change places, since GRPO only compares the rollouts of a group. Intervals are those of
``intervals`` over documents or groups.
"""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from decomposerl.evaluation.intervals import (
    Estimate,
    of_sums,
    ratio,
    share,
    shared_evidence,
    summed,
)
from decomposerl.evaluation.metrics import Codes, Numbers, macro_f1


def agreement(
    teacher: Codes, student: Codes, classes: int, documents: Sequence[str]
) -> dict[str, Estimate]:
    """Agreement, macro-F1, kappa, and the share of the teacher's most common class.

    ``teacher`` and ``student`` (n,) are class numbers below ``classes``. A class that neither gives
    is left out of macro-F1; kappa is undefined where both give one and the same class.
    """
    evidence, each = shared_evidence(documents), np.ones(len(teacher))
    cells = np.eye(classes * classes)[teacher * classes + student]
    sums = summed(evidence, *cells.T)

    def kappa(sums: Numbers) -> Numbers:
        table = sums.T.reshape(-1, classes, classes)
        total = table.sum(axis=(1, 2))
        agree = np.trace(table, axis1=1, axis2=2) / total
        chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / total**2
        corrected: Numbers = (agree - chance) / (1 - chance)
        return corrected

    common = teacher == np.bincount(teacher).argmax()
    return {
        "agreement": share(teacher == student, each, evidence),
        "macro_f1": of_sums(lambda sums: macro_f1(sums.T.reshape(-1, classes, classes)), sums),
        "kappa": of_sums(kappa, sums),
        "most_common": share(common, each, evidence),
    }


def reward_agreement(rewards: pl.DataFrame) -> dict[str, Estimate]:
    """How one reward differs between two judges.

    ``rewards`` has ``group``, ``teacher`` and ``student``, one row per rollout, without nulls.
    ``reversed_pairs``: of the pairs of a group that the teacher orders, those that the student
    orders the other way round. ``reordered_groups``: groups with a pair that the two judges do not
    order alike, ties included.
    """
    rows = rewards.with_row_index("row")
    # Every pair of rollouts of a group, and each rollout with itself, which no side orders.
    pairs = rows.join(rows, on="group", suffix="_2").filter(pl.col("row") <= pl.col("row_2"))
    same, shift = pl.col("row") == pl.col("row_2"), pl.col("student") - pl.col("teacher")
    first, second = (
        (pl.col(judge) - pl.col(f"{judge}_2")).round(9).sign() for judge in ("teacher", "student")
    )
    sums = pairs.group_by("group", maintain_order=True).agg(
        rows=same.sum(),
        shift=shift.filter(same).sum(),
        ordered=(first != 0).sum(),
        reversed=(first * second < 0).sum(),
        reordered=(first != second).any().cast(pl.Int64),
    )
    of = {name: sums[name].to_numpy().astype(np.float64) for name in sums.columns[1:]}
    groups = np.arange(sums.height)
    spearman = rewards.select(pl.corr("teacher", "student", method="spearman")).item()
    return {
        "rank_correlation": Estimate(math.nan if spearman is None else spearman),
        "mean_shift": ratio(of["shift"], of["rows"], groups),
        "reversed_pairs": share(of["reversed"], of["ordered"], groups),
        "reordered_groups": share(of["reordered"], np.ones(sums.height), groups),
    }
