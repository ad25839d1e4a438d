"""Add the unselected claims with long evidence (paper, "Long-Evidence Augmentation").

The last step of the funnel: it keeps selected claims and those with long evidence, and drops
the others as not selected.
"""

import polars as pl

from decomposerl.errors import EngineError
from decomposerl.funnel.evidence import token_bounds, with_counted
from decomposerl.funnel.settings import TrainingSettings
from decomposerl.funnel.step import Step, StepDecision
from decomposerl.ports import TokenCounter

NOT_SELECTED = "not_selected"
_GAINED = ("selection_rank", "selection_gain")


def long_evidence_step(
    settings: TrainingSettings, selected: pl.DataFrame, tokens: TokenCounter
) -> Step:
    """Drop claims that are not in ``selected`` and have under ``long_evidence_tokens`` tokens.

    Adds ``bucket``, ``selection_rank`` and ``selection_gain`` (null for long evidence) and
    ``origin`` (``selected`` or ``long_evidence``), and counts ``evidence_tokens`` of every
    survivor that has none yet. A claim whose evidence cannot be long is dropped without
    counting; its ``value`` is the most tokens it can have.

    Raises:
        EngineError: the counts that are there were made in another unit.
    """
    choice = selected.select("claim_id", *_GAINED, origin=pl.lit("selected"))

    def judge(frame: pl.DataFrame) -> StepDecision:
        chosen = frame.select("claim_id").join(
            choice, on="claim_id", how="left", maintain_order="left"
        )
        unselected = chosen["origin"].is_null()
        known, most = _lengths(frame, tokens)
        wanted = known.is_null() & ~(unselected & (most < settings.long_evidence_tokens))
        counts = with_counted(known, frame["evidence"], wanted, tokens)
        value = counts.zip_with(counts.is_not_null(), most)
        return StepDecision(
            frame.with_columns(
                *(chosen[name] for name in _GAINED),
                evidence_tokens=counts,
                bucket=pl.col("label") + "|" + pl.col("source"),
                origin=chosen["origin"].fill_null("long_evidence"),
            ),
            drop=unselected & (value < settings.long_evidence_tokens),
            reason=NOT_SELECTED,
            value=value,
            threshold=settings.long_evidence_tokens,
            engine=tokens.unit,
        )

    return Step("diversity_selection", judge, (NOT_SELECTED,))


def _lengths(frame: pl.DataFrame, tokens: TokenCounter) -> tuple[pl.Series, pl.Series]:
    """Known tokens of each row, null if not counted, and the most it can have."""
    other = set(frame["token_unit"]) - {tokens.unit}
    if other:
        raise EngineError(
            f"evidence was counted in {', '.join(sorted(other))}, this run counts in "
            f"{tokens.unit}: materialize rule_filtered again"
        )
    known = frame["evidence_tokens"]
    _, most = token_bounds(frame["evidence"], frame["evidence_words"], tokens)
    return known, known.zip_with(known.is_not_null(), most)
