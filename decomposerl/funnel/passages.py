"""Rule: the evidence has at least three sentences (paper, "Rule-Based Filtering").

Takes claims with ``passages`` and ``evidence_kind``, gives a step. Tables are exempt: their
rows are passages already.

Left out deliberately: how a sentence ends (``kernels.text_scan``).
"""

import polars as pl

from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Judgement, Step
from decomposerl.kernels.text_scan import sentence_counts

TOO_FEW = "too_few_passages"
ROWS_A_BLOCK = 4_096


def passages_step(settings: RuleSettings) -> Step:
    """Drop text evidence of fewer than ``min_sentences`` sentences; adds no column."""

    def judge(frame: pl.DataFrame) -> Judgement:
        counts = _sentences(frame)
        is_text = frame["evidence_kind"] != "table"
        return Judgement(
            frame,
            drop=is_text & (counts < settings.min_sentences),
            reason=TOO_FEW,
            value=counts,
            threshold=settings.min_sentences,
        )

    return Step("passages", judge, (TOO_FEW,))


def _sentences(frame: pl.DataFrame) -> pl.Series:
    columns = frame.select("passages", table=pl.col("evidence_kind") == "table")
    counts = [
        count
        for block in columns.iter_slices(ROWS_A_BLOCK)
        for count in sentence_counts(block["passages"].to_list(), block["table"].to_list()).tolist()
    ]
    return pl.Series(counts, dtype=pl.Int64())
