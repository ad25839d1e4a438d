"""Rule: the evidence has at least three sentences (paper, "Rule-Based Filtering").

Tables are exempt: their rows are passages already.
"""

import polars as pl

from decomposerl.funnel.evidence import facts_of
from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision

TOO_FEW = "too_few_passages"


def passages_step(settings: RuleSettings, facts: pl.DataFrame) -> Step:
    """Drop text evidence of fewer than ``min_sentences`` sentences; adds no column."""

    def judge(frame: pl.DataFrame) -> StepDecision:
        counts = facts_of(frame, facts)["sentences"]
        is_text = frame["evidence_kind"] != "table"
        return StepDecision(
            frame,
            drop=is_text & (counts < settings.min_sentences),
            reason=TOO_FEW,
            value=counts,
            threshold=settings.min_sentences,
        )

    return Step("passages", judge, (TOO_FEW,))
