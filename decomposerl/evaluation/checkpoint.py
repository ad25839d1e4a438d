"""Which checkpoint of a trained policy is evaluated (paper, section 4: not said).

Takes the saved steps of a run, its learning curves and a rule; gives the step. The rules:

``final``        the adapter that the run ended with. Ours by default: nothing is chosen by any
                 figure, so nothing can be chosen well by luck.
``best_on_dev``  of the saved steps, the one with the highest balanced accuracy over the run's
                 held-out claims, decoded greedily as a benchmark is; of equal ones the earliest,
                 which has moved least from the base. Held-out claims come from the funnel's own
                 pool, so no test claim has a say.

A step that was saved but never measured, or measured but not kept, is not a candidate.

Left out deliberately: reading folders and loading adapters (``resources.evaluation``).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import polars as pl

from decomposerl.errors import ConfigError

Rule = Literal["final", "best_on_dev"]
DEV_SPLIT, DEV_MEASURE = "held_out_greedy", "balanced_accuracy"


@dataclass(frozen=True, slots=True)
class Selected:
    """The chosen step; ``dev_score`` is its measure on held-out claims, None where it has none.

    ``candidates`` are the steps that were weighed.
    """

    step: int
    rule: Rule
    dev_score: float | None
    candidates: int


def select_checkpoint(
    curves: pl.DataFrame, saved: Collection[int], final: int, rule: Rule = "final"
) -> Selected:
    """The step to evaluate. ``curves`` is ``CURVES``, ``saved`` the steps whose weights are kept.

    ``final`` is the step that the run ended with; its adapter is always kept.

    Raises:
        ConfigError: ``best_on_dev`` is asked for and no saved step was measured.
    """
    measured = dev_scores(curves)
    if rule == "final":
        return Selected(final, rule, measured.get(final), 1)
    candidates = sorted({*saved, final} & set(measured))
    if not candidates:
        raise ConfigError(
            "best_on_dev needs a saved checkpoint with a measure on held-out claims; the run has "
            "none: train with held-out claims, or evaluate the final one"
        )
    best = max(candidates, key=lambda step: (measured[step], -step))
    return Selected(best, rule, measured[best], len(candidates))


def dev_scores(curves: pl.DataFrame) -> dict[int, float]:
    """Balanced accuracy on held-out claims by step, 0..1; steps without one are missing."""
    rows = curves.filter(
        pl.col("split") == DEV_SPLIT,
        pl.col("measure") == DEV_MEASURE,
        pl.col("mean").is_not_null(),
    )
    return dict(rows.sort("step").select("step", "mean").iter_rows())
