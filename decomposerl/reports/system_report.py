"""Scores for a reader: a system on a test set, its calibration, and metrics of given predictions.

Run metadata is plain data by name; tables are Markdown, except the text of ``decomposerl metrics``.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.scored_claims import EvaluationSubset, beyond_context
from decomposerl.evaluation.systems import System
from decomposerl.reports.small_figures import UNFOLDED
from decomposerl.reports.tables import (
    frame_text,
    markdown_table,
    markdown_text,
)
from decomposerl.schemas import LABELS, VERDICTS

_Number = int | float | str
_CLAIM, _CYCLE, _REPLY = 200, 110, 400
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
    predicted = predictions.height
    beyond = predictions.select(beyond_context())["notes"]
    tokens = calls.select(pl.col("prompt_tokens", "completion_tokens").sum()).row(0)
    facts: dict[str, _Number] = {
        "system": system.reader_title,
        "protocol": system.protocol,
        "claims that could be asked": subset.usable,
        **{f"left out: {why}": count for why, count in subset.left_out.items()},
        **{f"parse status: {name}": n for name, n in _counts(predictions["parse_status"])},
        **{f"beyond the context: {name}": n for name, n in _counts(beyond) if name != "none"},
        **{f"verdict: {name}": n for name, n in _counts(predictions["verdict"])},
        **{f"basis: {name}": n for name, n in _counts(predictions["basis"]) if name != "none"},
    }
    if predicted:
        facts |= {
            "calls a claim": calls.height / predicted,
            "questions a claim": float(predictions["questions"].sum()) / predicted,
        }
    if any(tokens):
        facts |= {"prompt tokens": tokens[0], "completion tokens": tokens[1]}
    if calls["dollars"].count():
        facts["dollars"] = float(calls["dollars"].sum())
    return facts


def example_traces(predictions: pl.DataFrame, claims: pl.DataFrame) -> dict[str, str]:
    """Three predictions as Markdown: one right, one wrong, one whose verdict was not read.

    ``claims`` has ``claim_id``, ``claim`` and ``label``. Of each kind it is the first by id, which
    is a hash. A text is shorter than what Dagster's pages fold.
    """
    rows = predictions.join(claims.select("claim_id", "claim", "label"), on="claim_id")
    verdict, label = pl.col("verdict"), pl.col("label")
    kinds = {
        "a right trace": verdict == label,
        "a wrong trace": verdict != label,
        "an unread trace": verdict.is_null(),
    }
    found = {name: rows.filter(kind).sort("claim_id").head(1) for name, kind in kinds.items()}
    return {
        name: _example(row.row(0, named=True)) if row.height else "none"
        for name, row in found.items()
    }


def _example(row: Mapping[str, Any]) -> str:
    """A claim with its label and verdict, then questions and answers as far as there is room."""
    verdict = row["verdict"] or f"none ({row['parse_status']})"
    head = (
        f"**{markdown_text(row['claim'], _CLAIM)}**\n\n"
        f"label {row['label']}, verdict {verdict}, claim {row['claim_id']}\n"
    )
    cycles = (row["trace"] or {}).get("cycles") or []
    lines = [
        f"\n{number}. {markdown_text(one['question'], _CYCLE)} "
        f"**{markdown_text(one['answer'], _CYCLE)}**"
        for number, one in enumerate(cycles, start=1)
    ]
    if not lines:
        lines = [f"\n{markdown_text(row['reply'] or 'no reply', _REPLY)}"]
    for line in lines:
        if len(head) + len(line) > UNFOLDED:
            return head + "\n…"
        head += line
    return head


def verdicts_markdown(predictions: pl.DataFrame, claims: pl.DataFrame) -> str:
    """Claims of each label by what became of them: right, wrong, or no verdict read.

    ``claims`` has ``claim_id`` and ``label``.
    """
    rows = predictions.join(claims.select("claim_id", "label"), on="claim_id")
    right = pl.col("verdict") == pl.col("label")
    counted = [
        [label, part.filter(right).height, part.filter(~right).height, part["verdict"].null_count()]
        for label in VERDICTS
        for part in [rows.filter(label=label)]
        if label in LABELS or part.height
    ]
    return markdown_table(["label", "right", "wrong", "unread"], counted)


def calls_markdown(calls: pl.DataFrame) -> str:
    """Calls by operation and template, a line each: number, tokens, seconds, stored, failed."""
    if calls.is_empty():
        return "none"
    rows = calls.group_by("operation", "template").agg(
        pl.len().alias("calls"),
        pl.col("prompt_tokens", "completion_tokens").mean(),
        pl.col("latency_s").median().alias("seconds"),
        pl.col("cached").sum().alias("stored"),
        pl.col("failure").count().alias("failed"),
    )
    ordered = rows.sort(["calls", "operation", "template"], descending=[True, False, False])
    return "\n".join(_calls_line(row) for row in ordered.iter_rows(named=True))


def _calls_line(row: Mapping[str, Any]) -> str:
    tokens = {"tokens in": row["prompt_tokens"], "tokens out": row["completion_tokens"]}
    counted = "".join(f" {mean:,.1f} {name}," for name, mean in tokens.items() if mean)
    name = f"{row['operation']} ({row['template']})"
    return (
        f"- **{markdown_text(name)}**: {row['calls']:,} calls,"
        f"{counted} median {row['seconds'] or 0:.3f} s, {row['stored']:,} from the store, "
        f"{row['failed']:,} failed"
    )


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
    """The metrics to plot over runs."""
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


def calibration_facts(calibration: Calibration) -> dict[str, int | float | str]:
    """Method, size, and errors in percent, before and cross-fitted after."""
    facts: dict[str, int | float | str] = {
        "method": calibration.method,
        "verdicts with a confidence": calibration.rows,
        "fitted on": calibration.fitted_on,
        "bound to model": calibration.model,
        "bound to prompt hash": calibration.prompt_hash,
        "ECE before": 100 * calibration.error_before,
        "ECE after, cross-fitted": 100 * calibration.error_after,
        "Brier before": 100 * calibration.brier_before,
        "Brier after, cross-fitted": 100 * calibration.brier_after,
        "folds": calibration.folds,
    }
    if calibration.method == "temperature":
        facts["temperature"] = calibration.temperature
    return facts


def reliability_markdown(reliability: pl.DataFrame) -> str:
    """The bins of a reliability diagram: confidence, and share of right verdicts."""
    rows = [
        (
            row["reading"],
            f"{row['low']:.3f} to {row['high']:.3f}",
            row["rows"],
            f"{100 * row['confidence']:.1f}",
            f"{100 * row['right']:.1f}",
        )
        for row in reliability.iter_rows(named=True)
    ]
    return markdown_table(["reading", "confidence", "verdicts", "mean %", "right %"], rows)


def metrics_text(frame: pl.DataFrame) -> str:
    """Metrics in percent with 95 % intervals; groups in a separate table, their mean last."""
    whole = frame.filter(kind="total")
    pages = [frame_text(whole.select("metric", score=_score(), interval=_interval()))]
    groups = frame.filter(pl.col("kind") != "total")
    if groups.height:
        present = [name for name in GROUP_METRICS if name in groups["metric"]]
        rows = groups.filter(pl.col("metric").is_in(present)).select(
            "kind", "group", "claims", "metric", shown=_score() + "  " + _interval()
        )
        wide = rows.pivot("metric", index=["kind", "group", "claims"], values="shown").drop("kind")
        pages.append(
            frame_text(wide.with_columns(pl.col(present).fill_null("")), last_is_total=True)
        )
    return "\n\n".join(pages)


def _score() -> pl.Expr:
    return _number("score").fill_null("undefined")


def _interval() -> pl.Expr:
    both = pl.concat_str(_number("low"), pl.lit(" – "), _number("high"))
    return both.fill_null("")


def _number(column: str) -> pl.Expr:
    decimals = pl.col(column).map_elements(lambda value: f"{value:.2f}", pl.String)
    return decimals.str.pad_start(6)


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
