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


def conserved_counts(
    rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame
) -> pl.DataFrame:
    """Per source the rows in, kept and dropped, and whether they add up."""
    counts = rows_in.group_by("source").len("rows_in")
    for name, frame in (("kept", kept), ("dropped", drops)):
        counts = counts.join(
            frame.group_by("source").len(name), on="source", how="full", coalesce=True
        )
    return (
        counts.with_columns(pl.exclude("source").fill_null(0).cast(pl.Int64))
        .with_columns(conserved=pl.col("rows_in") == pl.col("kept") + pl.col("dropped"))
        .sort("source")
    )


def total_counts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """``conserved_counts`` of parts of a stage's rows as those of all."""
    return (
        pl.concat(parts)
        .group_by("source")
        .agg(pl.col("rows_in", "kept", "dropped").sum())
        .with_columns(conserved=pl.col("rows_in") == pl.col("kept") + pl.col("dropped"))
        .sort("source")
    )


def _sentences(what: str, rows: pl.DataFrame, examples: int = 3) -> Sequence[str]:
    return [
        f"{source}: {part.height} rows {what}, e.g. {', '.join(part['claim_id'].head(examples))}"
        for (source,), part in rows.sort("claim_id").group_by("source", maintain_order=True)
    ]
