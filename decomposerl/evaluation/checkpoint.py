"""Which checkpoint of a trained policy is evaluated (not specified in the paper, section 4).

``final``        the adapter that the run ended with. The default: no score is used to choose, so
                 no score is biased by the choice.
``best_on_dev``  of the saved and measured steps the one with the highest balanced accuracy over
                 the run's held-out claims, decoded greedily as a benchmark is; of equal ones the
                 earliest, which is closest to the base model. Held-out claims come from the
                 funnel's own pool, so test claims have no influence.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import polars as pl

from decomposerl.errors import ConfigError

CheckpointRule = Literal["final", "best_on_dev"]
DEV_SPLIT, DEV_MEASURE = "held_out_greedy", "balanced_accuracy"


@dataclass(frozen=True, slots=True)
class SelectedCheckpoint:
    """The chosen step, its score on held-out claims (None if not measured), and why.

    ``candidates`` is how many steps could have been chosen.
    """

    step: int
    rule: CheckpointRule
    dev_score: float | None
    candidates: int


def select_checkpoint(
    curves: pl.DataFrame, saved: Collection[int], final: int, rule: CheckpointRule = "final"
) -> SelectedCheckpoint:
    """The step to evaluate. ``curves`` is ``CURVES``, ``saved`` the steps whose weights are kept.

    ``final`` is the step that the run ended with; its adapter is always kept.

    Raises:
        ConfigError: the rule is ``best_on_dev`` and no saved step was measured.
    """
    measured = dev_scores(curves)
    if rule == "final":
        return SelectedCheckpoint(final, rule, measured.get(final), 1)
    candidates = sorted({*saved, final} & set(measured))
    if not candidates:
        raise ConfigError(
            "best_on_dev needs a saved checkpoint with a measure on held-out claims; the run has "
            "none: train with held-out claims, or evaluate the final one"
        )
    best = max(candidates, key=lambda step: (measured[step], -step))
    return SelectedCheckpoint(best, rule, measured[best], len(candidates))


def dev_scores(curves: pl.DataFrame) -> dict[int, float]:
    """Balanced accuracy on held-out claims by step, 0..1; steps without one are missing."""
    rows = curves.drop_nulls("mean").filter(split=DEV_SPLIT, measure=DEV_MEASURE)
    return dict(rows.sort("step").select("step", "mean").iter_rows())
