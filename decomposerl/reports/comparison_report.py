"""Systems compared pairwise, for a reader: Markdown."""

import polars as pl

from decomposerl.reports.tables import markdown_table


def comparison_markdown(comparison: pl.DataFrame, most: int = 30) -> str:
    """The clearest differences first: smallest corrected p, then the largest difference.

    Rows without a p-value come last and show the reason instead.
    """
    order = comparison.sort(
        pl.col("p_holm"),
        pl.col("difference").abs(),
        descending=[False, True],
        nulls_last=[True, False],
    )
    rows = [
        (
            row["benchmark"],
            row["system"],
            row["other"],
            f"{row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]",
            _p_text(row["p_bootstrap"]),
            _p_text(row["p_mcnemar"]),
            f"– ({row['no_p']})" if row["no_p"] else _p_text(row["p_holm"]),
            f"{row['rows']} *" if row["limited"] else row["rows"],
        )
        for row in order.head(most).iter_rows(named=True)
    ]
    headers = [
        "test set",
        "system",
        "other",
        "difference",
        "p",
        "p (McNemar)",
        "p (Holm)",
        "claims",
    ]
    shown = (
        f"Balanced accuracy of the system minus the other's, points of percent, with its 95 % "
        f"interval. Holm's correction is over the larger of the two p. * a short run is in it: no "
        f"p-value. {comparison.height:,} comparisons; the {len(rows)} clearest:\n\n"
    )
    return shown + markdown_table(headers, rows)


def _p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004 - as a reader expects it
