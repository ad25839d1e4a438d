"""Rule: the claim is not copied from one evidence sentence (paper, "Rule-Based Filtering")."""

import polars as pl

from decomposerl.funnel.evidence import facts_of
from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision

PARAPHRASED = "paraphrased_evidence"


def overlap_step(settings: RuleSettings, facts: pl.DataFrame) -> Step:
    """Drop a claim whose ``overlap`` is above ``max_overlap``.

    Adds ``overlap``, the share of its content words inside its best single evidence sentence,
    0..1. With ``overlap_filter`` off the column is added and nothing is dropped.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        overlap = facts_of(frame, facts)["overlap"]
        return StepDecision(
            frame.with_columns(overlap=overlap),
            drop=(overlap > settings.max_overlap) & settings.overlap_filter,
            reason=PARAPHRASED,
            value=overlap,
            threshold=settings.max_overlap,
        )

    return Step("overlap", judge, (PARAPHRASED,))
