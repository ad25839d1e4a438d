"""Recall of the planted claims of the paper's pool, per kind.

Reads the folder of a run. Per planted kind: claims that reached the stage responsible for it,
claims that the stage removed, and claims removed for the expected reason. Other removals are
counted in the last row.
"""

from pathlib import Path

import polars as pl

from studies.paper_plan import DUPLICATES, LEAKS, LOOKALIKES

LEXICAL, SEMANTIC = "lexical_duplicate", "semantic_duplicate"
EXPECTED = {
    "exact_duplicate": LEXICAL,
    "near_duplicate": LEXICAL,
    "paraphrase": SEMANTIC,
    "exact_leak": "exact_match",
    "near_leak": "lexical_match",
    "paraphrase_leak": "semantic_match",
}
SCHEMA = pl.Schema(
    {
        "planted": pl.String(),
        "reached": pl.Int64(),
        "removed": pl.Int64(),
        "as_expected": pl.Int64(),
        "recall": pl.Float64(),
    }
)


def planted_facts(folder: Path) -> pl.DataFrame:
    """One row per planted kind (``SCHEMA``), then lookalikes and everything else.

    Lookalikes must be kept: their recall is the share that was not removed.
    """
    plan = pl.read_parquet(folder / "plan.parquet").select("claim_id", "fate")
    lines = []
    for stage, before, kinds in (
        ("deduplicated", "difficulty_band", (*DUPLICATES, *LOOKALIKES)),
        ("decontaminated", "deduplicated", tuple(LEAKS)),
    ):
        entered = pl.read_parquet(folder / f"{before}.parquet", columns=["claim_id"])
        drops = pl.read_parquet(folder / f"drops/{stage}.parquet")
        planned = entered.join(plan, on="claim_id").join(
            drops.select("claim_id", "reason"), on="claim_id", how="left"
        )
        lines += [_line(kind, planned.filter(fate=kind)) for kind in kinds]
        rest = planned.filter(~pl.col("fate").is_in([*kinds]))
        lines.append(_line(f"anything else ({stage})", rest))
    return pl.DataFrame(lines, schema=SCHEMA, orient="row")


def _line(kind: str, planned: pl.DataFrame) -> tuple[str, int, int, int, float | None]:
    removed = planned["reason"].drop_nulls()
    stays = kind not in EXPECTED
    right = planned.height - removed.len() if stays else int((removed == EXPECTED[kind]).sum())
    recalled = right if stays else removed.len()
    recall = recalled / planned.height if planned.height else None
    return kind, planned.height, removed.len(), right, recall
