"""Scores for a reader: a system on a test set, its calibration, and metrics of given predictions.

Run metadata is plain data by name; tables are Markdown, except the text of ``decomposerl metrics``.
"""

from collections.abc import Mapping

import polars as pl

from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.scored_claims import EvaluationSubset, beyond_context
from decomposerl.evaluation.systems import System
from decomposerl.reports.tables import (
    frame_text,
    markdown_table,
    markdown_text,
    one_line,
)
from decomposerl.schemas import LABELS, VERDICTS

_Number = int | float | str
_CLAIM, _REPLY = 200, 400
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
    beyond = predictions.select(beyond_context()).to_series()
    for title, values, of_all in (
        ("parse status", predictions["parse_status"], True),
        ("beyond the context", beyond, False),
        ("verdict", predictions["verdict"], True),
        ("basis", predictions["basis"], False),
    ):
        known = values.fill_null("none") if of_all else values.drop_nulls()
        counted = known.value_counts().sort(values.name)
        facts |= {f"{title}: {name}": count for name, count in counted.iter_rows()}
    if predictions.height:
        facts["calls a claim"] = calls.height / predictions.height
        facts["questions a claim"] = float(predictions["questions"].sum()) / predictions.height
    prompt, completion = calls.select(pl.col("prompt_tokens", "completion_tokens").sum()).row(0)
    if prompt or completion:
        facts |= {"prompt tokens": prompt, "completion tokens": completion}
    if calls["dollars"].count():
        facts["dollars"] = float(calls["dollars"].sum())
    return facts


def examples_markdown(predictions: pl.DataFrame, claims: pl.DataFrame) -> str:
    """Three predictions: one right, one wrong, one whose verdict was not read, with the answers.

    ``claims`` has ``claim_id``, ``claim`` and ``label``. Of each kind it is the first by id, which
    is a hash.
    """
    rows = predictions.join(claims.select("claim_id", "claim", "label"), on="claim_id")
    verdict, label = pl.col("verdict"), pl.col("label")
    kinds = {"right": verdict == label, "wrong": verdict != label, "unread": verdict.is_null()}
    lines = []
    for name, kind in kinds.items():
        for row in rows.filter(kind).sort("claim_id").head(1).to_dicts():
            cycles = (row["trace"] or {}).get("cycles") or []
            pairs = " ".join(f"{cycle['question']} {cycle['answer']}" for cycle in cycles)
            texts = one_line(row["claim"], _CLAIM), one_line(pairs or row["reply"], _REPLY)
            said = row["verdict"] or row["parse_status"]
            lines.append([name, row["claim_id"], row["label"], said, *texts])
    headers = ["", "claim", "label", "verdict", "text", "questions and answers, or the reply"]
    return markdown_table(headers, lines)


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
    rows = calls.group_by("operation", "template").agg(
        pl.len().alias("calls"),
        pl.col("prompt_tokens", "completion_tokens").mean(),
        pl.col("latency_s").median().fill_null(0).alias("seconds"),
        pl.col("cached").sum().alias("stored"),
        pl.col("failure").count().alias("failed"),
    )
    lines = []
    by = ["calls", "operation", "template"]
    for row in rows.sort(by, descending=[True, False, False]).to_dicts():
        tokens = {"in": row["prompt_tokens"], "out": row["completion_tokens"]}
        counted = "".join(f" {mean:,.1f} tokens {way}," for way, mean in tokens.items() if mean)
        name = markdown_text(f"{row['operation']} ({row['template']})")
        lines.append(
            f"- **{name}**: "
            f"{row['calls']:,} calls,{counted} median {row['seconds']:.3f} s, "
            f"{row['stored']:,} from the store, {row['failed']:,} failed"
        )
    return "\n".join(lines) or "none"


def scores_markdown(scores: pl.DataFrame) -> str:
    """The metrics over all claims, then balanced accuracy by slice."""
    of_slices = scores.filter(pl.col("slice") != "all", pl.col("metric") == "balanced_accuracy")
    parts = []
    for rows, by, title in (
        (scores.filter(slice="all"), ["metric"], ""),
        (of_slices, ["slice", "value"], "**balanced_accuracy by slice**\n\n"),
    ):
        lines = [
            (
                *(row[name] for name in by),
                _shown(row["score"]),
                "–" if row["low"] is None else f"{row['low']:.1f} to {row['high']:.1f}",
                row["rows"],
            )
            for row in rows.iter_rows(named=True)
        ]
        if lines:
            parts.append(title + markdown_table([*by, "score", "95 % interval", "claims"], lines))
    return "\n\n".join(parts) or "nothing was scored"


def score_facts(scores: pl.DataFrame) -> dict[str, float]:
    """The metrics to plot over runs."""
    whole = scores.filter(pl.col("slice") == "all", pl.col("metric").is_in(_SHOWN))
    return dict(whole.drop_nulls("score").select("metric", pl.col("score").round(2)).iter_rows())


def _shown(score: float | None) -> str:
    return "–" if score is None else f"{score:.1f}"


def calibration_facts(calibration: Calibration) -> dict[str, _Number]:
    """Temperature, size, and errors in percent, before and cross-fitted after."""
    return {
        "temperature": calibration.temperature,
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


def reliability_markdown(reliability: pl.DataFrame) -> str:
    """The bins of a reliability diagram: confidence, and share of right verdicts."""
    rows = [
        (reading, f"{low:.3f} to {high:.3f}", count, f"{100 * sure:.1f}", f"{100 * right:.1f}")
        for reading, low, high, count, sure, right in reliability.select(
            "reading", "low", "high", "rows", "confidence", "right"
        ).iter_rows()
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
