"""The page of ``decomposerl metrics``: every metric of all claims, then the groups.

Takes the frame of ``evaluation.external``, gives aligned text.

Left out deliberately: CSV and JSON, which are the frame itself.
"""

import polars as pl

from decomposerl.evaluation.metrics import Unread
from decomposerl.reports.attrition import aligned

GROUP_METRICS = ("balanced_accuracy", "f1_supported", "macro_f1", "accuracy", "auroc")


def metrics_text(frame: pl.DataFrame) -> str:
    """Percent with 95 % intervals; groups have their own table, the mean over them last."""
    whole = frame.filter(kind="total")
    pages = [aligned(whole.select("metric", score=_score(), interval=_interval()))]
    groups = frame.filter(pl.col("kind") != "total")
    if groups.height:
        there = [name for name in GROUP_METRICS if name in groups["metric"]]
        rows = groups.filter(pl.col("metric").is_in(there)).select(
            "kind", "group", "claims", "metric", shown=_score() + "  " + _interval()
        )
        wide = rows.pivot("metric", index=["kind", "group", "claims"], values="shown").drop("kind")
        pages.append(aligned(wide.with_columns(pl.col(there).fill_null("")), last_is_total=True))
    return "\n\n".join(pages)


def _score() -> pl.Expr:
    return _number("score").fill_null("undefined")


def _interval() -> pl.Expr:
    both = pl.concat_str(_number("low"), pl.lit(" – "), _number("high"))
    return both.fill_null("")


def _number(column: str) -> pl.Expr:
    decimals = pl.col(column).map_elements(lambda value: f"{value:.2f}", pl.String)
    return decimals.str.pad_start(6)


_UNREAD = {
    "opposite": "counted as wrong, as the opposite of their label",
    "class": "counted as wrong, as a verdict of their own",
    "leave-out": "left out",
}


def sizes_sentence(frame: pl.DataFrame, unread: Unread = "opposite") -> str:
    """How many claims there are, of which label, how many got no verdict, and what that means."""
    row = frame.filter(kind="total").row(0, named=True)
    refuted = row["claims"] - row["supported"]
    return (
        f"{row['claims']:,} claims: {row['supported']:,} supported, {refuted:,} not; "
        f"{row['without_verdict']:,} without a verdict, {_UNREAD[unread]}"
    )
