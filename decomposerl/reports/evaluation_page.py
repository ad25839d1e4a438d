"""One system on one test set for a reader: what was asked, how it ended, what it took.

Takes predictions, calls and scores, gives values and Markdown tables by name, plain data.

Left out deliberately: the leaderboard (``reports.leaderboard_report``).
"""

import polars as pl

from decomposerl.evaluation.subset import Examined
from decomposerl.evaluation.systems import System
from decomposerl.reports.escape import markdown_table

_Number = int | float | str
_SHOWN = ("balanced_accuracy", "recall_supported", "recall_refuted", "macro_f1", "parse_rate")


def prediction_facts(
    system: System, exam: Examined, predictions: pl.DataFrame, calls: pl.DataFrame
) -> dict[str, _Number]:
    """Counts and shares. What the engine does not count (tokens, money) is left out."""
    asked = predictions.height
    tokens = calls.select(pl.col("prompt_tokens", "completion_tokens").sum()).row(0)
    facts: dict[str, _Number] = {
        "dagster/row_count": asked,
        "system": system.reader_title,
        "protocol": system.protocol,
        "claims that could be asked": exam.usable,
        **{f"left out: {why}": count for why, count in exam.left_out.items()},
        **{f"parse status: {name}": n for name, n in _counts(predictions["parse_status"])},
        **{f"verdict: {name}": n for name, n in _counts(predictions["verdict"])},
    }
    if asked:
        facts |= {
            "calls a claim": calls.height / asked,
            "questions a claim": float(predictions["questions"].sum()) / asked,
        }
    if any(tokens):
        facts |= {"prompt tokens": tokens[0], "completion tokens": tokens[1]}
    if calls["dollars"].count():
        facts["dollars"] = float(calls["dollars"].sum())
    return facts


def calls_markdown(calls: pl.DataFrame) -> str:
    """Calls by operation and template: how many, tokens, seconds each, from the store, failed."""
    if calls.is_empty():
        return "none"
    rows = calls.group_by("operation", "template").agg(
        pl.len().alias("calls"),
        *_tokens(calls),
        pl.col("latency_s").median().round(3).cast(pl.String).alias("median s"),
        pl.col("cached").sum().cast(pl.Int64).alias("from the store"),
        pl.col("failure").count().cast(pl.Int64).alias("failed"),
    )
    ordered = rows.sort(["calls", "operation", "template"], descending=[True, False, False])
    return markdown_table(ordered.columns, ordered.rows())


def _tokens(calls: pl.DataFrame) -> list[pl.Expr]:
    """Tokens a call, where the engine counts any."""
    named = {"prompt_tokens": "tokens in", "completion_tokens": "tokens out"}
    return [
        pl.col(name).mean().round(1).cast(pl.String).alias(shown)
        for name, shown in named.items()
        if calls[name].sum()
    ]


def scores_markdown(scores: pl.DataFrame) -> str:
    """The metrics over all claims, then balanced accuracy by slice."""
    whole = _table(scores.filter(slice="all"), ["metric"])
    by_slice = _table(
        scores.filter(pl.col("slice") != "all", pl.col("metric") == "balanced_accuracy"),
        ["slice", "value"],
    )
    parts = [whole, by_slice and f"**balanced_accuracy by slice**\n\n{by_slice}"]
    return "\n\n".join(part for part in parts if part) or "nothing was scored"


def score_facts(scores: pl.DataFrame) -> dict[str, float]:
    """The metrics that the UI plots over runs."""
    whole = scores.filter(pl.col("slice") == "all", pl.col("metric").is_in(_SHOWN))
    return dict(whole.drop_nulls("score").select("metric", pl.col("score").round(2)).iter_rows())


def _table(rows: pl.DataFrame, by: list[str]) -> str:
    if rows.is_empty():
        return ""
    lines = [
        (
            *(row[name] for name in by),
            _shown(row["score"]),
            "–" if row["low"] is None else f"{row['low']:.1f} to {row['high']:.1f}",
            row["rows"],
        )
        for row in rows.iter_rows(named=True)
    ]
    return markdown_table([*by, "score", "95 % interval", "claims"], lines)


def _shown(score: float | None) -> str:
    return "–" if score is None else f"{score:.1f}"


def _counts(values: pl.Series) -> list[tuple[str, int]]:
    counted = values.fill_null("none").value_counts().sort(values.name)
    return [(str(name), int(count)) for name, count in counted.iter_rows()]
