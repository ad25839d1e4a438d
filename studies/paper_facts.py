"""What was planted in the paper's pool, and what the funnel made of it.

Takes the folder of a run, gives a line a kind: how many claims of it reached the stage that
must find it, how many that stage removed, and how many it named the right reason for.

Left out deliberately: claims without a plan. What is removed beyond the plan stands in the
last line.
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
    """One line a planted kind (``SCHEMA``), lookalikes and everything else at the end.

    A lookalike must stay: its recall is the share that was not removed.
    """
    plan = pl.read_parquet(folder / "plan.parquet").select("claim_id", "fate")
    lines = []
    for stage, before, kinds in (
        ("deduplicated", "difficulty_band", (*DUPLICATES, *LOOKALIKES)),
        ("decontaminated", "deduplicated", tuple(LEAKS)),
    ):
        entered = pl.read_parquet(folder / f"{before}.parquet", columns=["claim_id"])
        drops = pl.read_parquet(folder / f"drops/{stage}.parquet")
        known = entered.join(plan, on="claim_id").join(
            drops.select("claim_id", "reason"), on="claim_id", how="left"
        )
        lines += [_line(kind, known.filter(fate=kind)) for kind in kinds]
        rest = known.filter(~pl.col("fate").is_in([*kinds]))
        lines.append(_line(f"anything else ({stage})", rest))
    return pl.DataFrame(lines, schema=SCHEMA, orient="row")


def _line(kind: str, known: pl.DataFrame) -> tuple[str, int, int, int, float | None]:
    removed = known["reason"].drop_nulls()
    stays = kind not in EXPECTED
    right = known.height - removed.len() if stays else int((removed == EXPECTED[kind]).sum())
    found = right if stays else removed.len()
    return kind, known.height, removed.len(), right, found / known.height if known.height else None
