"""The law of the funnel: rows in = rows kept + rows dropped, each dropped row once."""

from collections.abc import Sequence

import polars as pl


def conservation_errors(
    rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame
) -> list[str]:
    """One sentence per violation of a stage and source; empty if the law holds.

    All frames need ``claim_id`` and ``source``. A stage must keep or drop each of its rows,
    exactly once, and no other row.
    """
    out = pl.concat([kept.select("claim_id", "source"), drops.select("claim_id", "source")])
    twice = out.filter(pl.col("claim_id").is_duplicated())
    lost = rows_in.join(out, on="claim_id", how="anti")
    invented = out.join(rows_in, on="claim_id", how="anti")
    return [
        *_sentences("lost", lost),
        *_sentences("kept and dropped, or dropped twice", twice.unique()),
        *_sentences("not among the rows that came in", invented),
    ]


def _sentences(what: str, rows: pl.DataFrame, examples: int = 3) -> Sequence[str]:
    return [
        f"{source}: {part.height} rows {what}, e.g. {', '.join(part['claim_id'].head(examples))}"
        for (source,), part in rows.sort("claim_id").group_by("source", maintain_order=True)
    ]
