"""Systems compared pairwise, for a reader: Markdown."""

from typing import Any

import polars as pl

from decomposerl.reports.small_figures import rows_markdown
from decomposerl.reports.tables import markdown_table

_SHOWN = 12


def comparison_markdown(comparison: pl.DataFrame, most: int = 30) -> str:
    """The clearest differences first: smallest corrected p, then the largest difference.

    Rows without a p-value come last and show the reason instead.
    """
    rows = [
        (
            row["benchmark"],
            row["system"],
            row["other"],
            _difference(row),
            _p_text(row["p_bootstrap"]),
            _p_text(row["p_mcnemar"]),
            f"– ({row['no_p']})" if row["no_p"] else _p_text(row["p_holm"]),
            f"{row['rows']} *" if row["limited"] else row["rows"],
        )
        for row in _clearest(comparison).head(most).iter_rows(named=True)
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


def comparison_unfolded(comparison: pl.DataFrame) -> str:
    """The clearest differences in a table that fits on a page of Dagster's; * as in the whole."""
    rows = [
        (
            f"{row['system']} over {row['other']} on {row['benchmark']}{' *' * row['limited']}",
            _difference(row),
            _p_text(row["p_holm"]),
        )
        for row in _clearest(comparison).head(_SHOWN).iter_rows(named=True)
    ]
    return rows_markdown(["systems, test set", "points", "p (Holm)"], rows)


def _clearest(comparison: pl.DataFrame) -> pl.DataFrame:
    by = pl.col("p_holm"), pl.col("difference").abs()
    return comparison.sort(*by, descending=[False, True], nulls_last=[True, False])


def _difference(row: dict[str, Any]) -> str:
    return f"{row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]"


def _p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004 - as a reader expects it
