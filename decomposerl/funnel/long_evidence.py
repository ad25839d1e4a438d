"""Add the unselected claims with long evidence (paper, "Long-Evidence Augmentation").

Takes silver-decomposed claims and the selected ones among them, gives the step that ends
the funnel: it keeps what was selected and what has long evidence, and drops the rest as not
selected.

Left out deliberately: the selection itself (``selection``).
"""

import polars as pl

from decomposerl.funnel.settings import TrainingSettings
from decomposerl.funnel.step import Judgement, Step

NOT_SELECTED = "not_selected"
_GAINED = ("selection_rank", "selection_gain")


def long_evidence_step(settings: TrainingSettings, selected: pl.DataFrame) -> Step:
    """Drop what is not in ``selected`` and has under ``long_evidence_tokens`` tokens.

    Adds ``bucket``, ``selection_rank`` and ``selection_gain`` (null for long evidence) and
    ``origin`` (``selected`` or ``long_evidence``).
    """
    choice = selected.select("claim_id", *_GAINED, origin=pl.lit("selected"))

    def judge(frame: pl.DataFrame) -> Judgement:
        chosen = frame.select("claim_id").join(
            choice, on="claim_id", how="left", maintain_order="left"
        )
        tokens = frame["evidence_tokens"]
        return Judgement(
            frame.with_columns(
                *(chosen[name] for name in _GAINED),
                bucket=pl.col("label") + "|" + pl.col("source"),
                origin=chosen["origin"].fill_null("long_evidence"),
            ),
            drop=chosen["origin"].is_null() & (tokens < settings.long_evidence_tokens),
            reason=NOT_SELECTED,
            value=tokens,
            threshold=settings.long_evidence_tokens,
        )

    return Step("diversity_selection", judge, (NOT_SELECTED,))
