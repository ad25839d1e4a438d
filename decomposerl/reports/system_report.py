"""Scores for a reader: a system on a test set, its calibration, and metrics of given predictions.

Run metadata is plain data by name; tables are Markdown, except the text of ``decomposerl metrics``.
"""

from collections.abc import Mapping

import polars as pl

from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.scored_claims import EvaluationSubset, beyond_context
from decomposerl.evaluation.systems import System
from decomposerl.reports.tables import frame_markdown, frame_text

_Number = int | float | str
_SHOWN = ("balanced_accuracy", "recall_supported", "recall_refuted", "macro_f1", "parse_rate")
GROUP_METRICS = ("balanced_accuracy", "f1_supported", "macro_f1", "accuracy", "auroc")
_UNREAD = {
    "opposite": "counted as wrong, as the opposite of their label",
    "class": "counted as wrong, as a separate verdict",
    "leave-out": "left out",
}


def prediction_facts(
    system: System, subset: EvaluationSubset, predictions: pl.DataFrame, calls: pl.DataFrame
) -> dict[str, _Number]:
    """Counts and shares; tokens and money only where the engine counts them."""
    facts: dict[str, _Number] = {
        "system": system.reader_title,
        "protocol": system.protocol,
        "claims that could be asked": subset.usable,
        **{f"left out: {why}": count for why, count in subset.left_out.items()},
    }
    noted = {"beyond_the_context": beyond_context()}
    for values in predictions.select("parse_status", "verdict", "basis", **noted):
        counts = values.fill_null("none").value_counts().sort(values.name)
        facts |= {f"{values.name.replace('_', ' ')}: {name}": n for name, n in counts.iter_rows()}
    if predictions.height:
        facts["calls a claim"] = calls.height / predictions.height
        facts["questions a claim"] = float(predictions["questions"].sum()) / predictions.height
    sums = calls.select("prompt_tokens", "completion_tokens", "dollars").sum().row(0, named=True)
    return facts | {name.replace("_", " "): total for name, total in sums.items() if total}


def verdicts_markdown(predictions: pl.DataFrame, claims: pl.DataFrame) -> str:
    """Claims of each label by what became of them: right, wrong, or no verdict read.

    ``claims`` has ``claim_id`` and ``label``.
    """
    rows = predictions.join(claims.select("claim_id", "label"), on="claim_id")
    right, unread = pl.col("verdict") == pl.col("label"), pl.col("verdict").is_null()
    counts = {"right": right.sum(), "wrong": (~right).sum(), "unread": unread.sum()}
    return frame_markdown(rows.group_by("label").agg(**counts).sort("label", descending=True))


def scores_markdown(scores: pl.DataFrame) -> str:
    """The metrics over all claims with 95 % intervals, then balanced accuracy by slice."""
    whole, balanced = pl.col("slice") == "all", pl.col("metric") == "balanced_accuracy"
    shown = scores.filter(whole | balanced).sort(~whole, maintain_order=True)
    names = ["metric", "slice", "value", "score", "low", "high", "rows"]
    return frame_markdown(shown.select(names).rename({"rows": "claims"}))


def score_facts(scores: pl.DataFrame) -> dict[str, float]:
    """The metrics to plot over runs."""
    whole = scores.filter(pl.col("slice") == "all", pl.col("metric").is_in(_SHOWN))
    return dict(whole.drop_nulls("score").select("metric", pl.col("score").round(2)).iter_rows())


def calibration_facts(calibration: Calibration) -> dict[str, _Number]:
    """Its fields; errors are shares, those after it cross-fitted."""
    return {name.replace("_", " "): fact for name, fact in calibration.model_dump().items()}


def reliability_markdown(reliability: pl.DataFrame) -> str:
    """The bins of a reliability diagram in percent: confidence, and share of right verdicts."""
    percent = pl.col("low", "high", "confidence", "right") * 100
    return frame_markdown(reliability.select("reading", "rows", percent))


def formatted(numbers: str | pl.Expr, form: str = "{:.1f}") -> pl.Expr:
    """Numbers, or those of a column, as text by a form; null stays null."""
    numbers = pl.col(numbers) if isinstance(numbers, str) else numbers
    return numbers.map_elements(form.format, pl.String)


def metrics_text(frame: pl.DataFrame) -> str:
    """Metrics in percent with 95 % intervals; groups in a separate table, their mean last."""
    score, low, high = (
        formatted(name, "{:.2f}").str.pad_start(6) for name in ("score", "low", "high")
    )
    shown = frame.with_columns(
        score=score.fill_null("undefined"),
        interval=pl.format("{} – {}", low, high).fill_null(""),
    )
    page = frame_text(shown.filter(kind="total").select("metric", "score", "interval"))
    groups = shown.filter(pl.col("kind") != "total", pl.col("metric").is_in(GROUP_METRICS))
    if groups.is_empty():
        return page
    cells = groups.with_columns(shown=pl.format("{}  {}", "score", "interval"))
    wide = cells.pivot("metric", index=["kind", "group", "claims"], values="shown").drop("kind")
    names = [name for name in GROUP_METRICS if name in wide.columns]
    text = wide.select("group", "claims", pl.col(names).fill_null(""))
    return f"{page}\n\n{frame_text(text, last_is_total=True)}"


def sizes_sentence(
    frame: pl.DataFrame, unread: Unread = "opposite", classes: Mapping[str, int] | None = None
) -> str:
    """Number of claims by label, of those without a verdict, and what these count as.

    ``classes`` are the claims of each class where there are more than Supported and Refuted.
    """
    row = frame.filter(kind="total").row(0, named=True)
    sizes = classes or {"supported": row["supported"], "not": row["claims"] - row["supported"]}
    shown = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    counts = _UNREAD["class" if classes and unread == "opposite" else unread]
    without = f"{row['without_verdict']:,} without a verdict, {counts}"
    return f"{row['claims']:,} claims: {shown}; {without}"
