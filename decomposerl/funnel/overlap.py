"""Rule: the claim is not copied from one evidence sentence (paper, "Rule-Based Filtering").

Takes claims with their passages, gives a step that adds ``overlap``.

Left out deliberately: what a content word is (``kernels.text_scan``).
"""

import polars as pl

from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Judgement, Step
from decomposerl.kernels.text_scan import best_overlap

PARAPHRASED = "paraphrased_evidence"
ROWS_A_BLOCK = 4_096


def overlap_step(settings: RuleSettings) -> Step:
    """Drop a claim whose ``overlap`` is above ``max_overlap``.

    ``overlap`` is the share of its content words inside its best single evidence sentence,
    0..1. With ``overlap_filter`` off the column is there and nothing is dropped.
    """

    def judge(frame: pl.DataFrame) -> Judgement:
        overlap = _overlap(frame)
        return Judgement(
            frame.with_columns(overlap=overlap),
            drop=(overlap > settings.max_overlap) & settings.overlap_filter,
            reason=PARAPHRASED,
            value=overlap,
            threshold=settings.max_overlap,
        )

    return Step("overlap", judge, (PARAPHRASED,))


def _overlap(frame: pl.DataFrame) -> pl.Series:
    columns = frame.select("claim", "passages", table=pl.col("evidence_kind") == "table")
    shares = [
        share
        for block in columns.iter_slices(ROWS_A_BLOCK)
        for share in best_overlap(*(block[name].to_list() for name in block.columns)).tolist()
    ]
    return pl.Series(shares, dtype=pl.Float64())
