"""What the UI shows of one system on one test set: short tables without empty columns."""

import polars as pl

from decomposerl.reports.system_report import (
    calls_markdown,
    score_facts,
    scores_markdown,
    verdicts_markdown,
)
from decomposerl.schemas import CALLS, SCORES

RULES = {
    "claim_id": "a" * 16,
    "call": 0,
    "operation": "verify",
    "template": "verdict",
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "latency_s": 0.0,
    "cached": False,
    "dollars": None,
    "failure": None,
}
METRIC = {
    "system": "simple-rules-faithful",
    "benchmark": "hover",
    "engine": "rules",
    "metric": "balanced_accuracy",
    "slice": "all",
    "value": "all",
    "score": 100 * 14 / 25,
    "low": 49.5,
    "high": 62.5,
    "rows": 200,
}


def frame(table: pl.Schema, *rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=table)


def test_tokens_are_shown_where_an_engine_counts_them():
    """Rules count none, and the line of their calls has no zeros."""
    assert "tokens" not in calls_markdown(frame(CALLS.schema, RULES))
    counted = calls_markdown(frame(CALLS.schema, RULES | {"prompt_tokens": 120}))
    assert "tokens in" in counted
    assert "- **verify \\(verdict\\)**: 1 calls, 120.0 tokens in, median 0.000 s" in counted
    assert "tokens out" not in counted


def test_verdicts_are_counted_by_label():
    """Right, wrong and unread; together they are the predictions."""
    said = {"a": "Supported", "b": "Refuted", "c": None, "d": "Refuted"}
    predictions = pl.DataFrame({"claim_id": list(said), "verdict": list(said.values())})
    labels = ["Supported"] * 3 + ["Refuted"]
    shown = verdicts_markdown(predictions, pl.DataFrame({"claim_id": list(said), "label": labels}))
    assert ["| Supported | 1 | 1 | 1 |", "| Refuted | 1 | 0 | 0 |"] == shown.splitlines()[2:]
    labels[1:3] = ["NotEnoughInfo"] * 2
    shown = verdicts_markdown(predictions, pl.DataFrame({"claim_id": list(said), "label": labels}))
    assert "| NotEnoughInfo | 0 | 1 | 1 |" == shown.splitlines()[-1]


def test_scores_are_rounded_and_slices_named():
    """Two decimals where a number stands alone; the second table says what it shows."""
    whole = frame(SCORES.schema, METRIC)
    assert {"balanced_accuracy": 56.0} == score_facts(whole)
    assert "by slice" not in scores_markdown(whole)
    hops = METRIC | {"slice": "hops", "value": "2", "score": 53.4}
    shown = scores_markdown(frame(SCORES.schema, METRIC, hops))
    first, title, second = shown.split("\n\n")
    assert "56.0" in first
    assert "balanced_accuracy by slice" in title
    assert "53.4" in second
