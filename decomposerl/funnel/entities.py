"""Rule: the claim names at least two entities (paper, appendix "NER Grounding").

The step adds ``entities``. It is the costly rule, so the stage runs it last.
"""

import polars as pl

from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision
from decomposerl.ports import EntityRecogniser

TOO_FEW = "too_few_entities"


def entities_step(settings: RuleSettings, recogniser: EntityRecogniser) -> Step:
    """Drop a claim with fewer than ``min_entities`` distinct non-empty entities."""

    def judge(frame: pl.DataFrame) -> StepDecision:
        texts = frame["claim"].to_list()
        forms_of = recogniser.entities(texts) if texts else []
        distinct = [list(dict.fromkeys(filter(None, forms))) for forms in forms_of]
        entities = pl.Series(distinct, dtype=pl.List(pl.String()))
        counts = entities.list.len().cast(pl.Int64())
        return StepDecision(
            frame.with_columns(entities=entities),
            drop=counts < settings.min_entities,
            reason=TOO_FEW,
            value=counts,
            threshold=settings.min_entities,
            engine=recogniser.engine,
        )

    return Step("entities", judge, (TOO_FEW,))
