"""What the UI shows of one system on one test set: short tables, and three traces of it."""

import polars as pl

from decomposerl.reports.system_report import (
    calls_markdown,
    example_traces,
    score_facts,
    scores_markdown,
    verdicts_markdown,
)
from decomposerl.schemas import CALLS, PREDICTIONS, SCORES

FOLDED = 1_000  # characters of Markdown that Dagster's pages fold
CALL = {"claim_id": "a" * 16, "call": 0, "operation": "verify", "template": "verdict"}
RULES = CALL | {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "cached": False}
METRIC = {
    "system": "simple-rules-faithful",
    "benchmark": "hover",
    "engine": "rules",
    "rows": 200,
    "metric": "balanced_accuracy",
    "slice": "all",
    "value": "all",
    "score": 100 * 14 / 25,
    "low": 49.5,
    "high": 62.5,
}


def frame(table: pl.Schema, *rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=table)


def test_tokens_are_shown_where_an_engine_counts_them():
    """Rules count none, and the line of their calls has no zeros."""
    assert "tokens" not in calls_markdown(frame(CALLS.schema, RULES))
    counted = calls_markdown(frame(CALLS.schema, RULES | {"prompt_tokens": 120}))
    assert "tokens in" in counted
    assert [] == [
        word for word in ("verify", "verdict", "1 ", "120", "0.000") if word not in counted
    ]
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
    assert 1 == len(scores_markdown(whole).split("\n\n"))
    hops = METRIC | {"slice": "hops", "value": "2", "score": 53.4}
    shown = scores_markdown(frame(SCORES.schema, METRIC, hops))
    first, title, second = shown.split("\n\n")
    assert "56.0" in first
    assert "balanced_accuracy" in title
    assert "53.4" in second


def prediction(number: int, verdict: str | None, cycles: int | None) -> dict[str, object]:
    """One prediction of a claim labelled Supported."""
    asked = [
        {"question": f"Who | {n}?", "answer": "<b>Ada</b> " * 40, "thought": ""}
        for n in range(cycles or 0)
    ]
    return {
        "claim_id": f"{number:016x}",
        "verdict": verdict,
        "parse_status": "unparsed" if verdict is None else "parsed",
        "trace": None if cycles is None else {"opening": "", "cycles": asked, "verdict": verdict},
        "reply": "I do not know.\n" * 90,
    }


def examples(*rows: dict[str, object]) -> dict[str, str]:
    schema = {name: kind for name, kind in PREDICTIONS.schema.items() if name in rows[0]}
    predictions = pl.DataFrame(rows, schema=schema)
    claims = predictions.select(
        "claim_id", claim=pl.lit("A claim. " * 50), label=pl.lit("Supported")
    )
    return example_traces(predictions, claims)


def test_one_of_each_kind_is_shown_the_first_by_id():
    """With the claim's label and the verdict, questions and answers, or the reply."""
    shown = examples(
        prediction(9, "Supported", 2),
        prediction(2, "Supported", 1),
        prediction(3, "Refuted", 2),
        prediction(4, None, None),
    )
    for words in ("label Supported", "verdict Supported", "claim 0000000000000002"):
        assert words in shown["a right trace"]
    assert "1. Who \\| 0? **&lt;b&gt;Ada" in shown["a right trace"]
    assert "verdict Refuted, claim 0000000000000003" in shown["a wrong trace"]
    assert "2. Who" in shown["a wrong trace"]
    assert "verdict none (unparsed)" in shown["an unread trace"]
    assert "I do not know." in shown["an unread trace"]


def test_a_trace_is_shorter_than_what_the_page_folds():
    """However long it is; a cut one ends with a mark."""
    for cycles in (0, 1, 4, 30):
        text = examples(prediction(1, "Supported", cycles))["a right trace"]
        assert len(text) < FOLDED
        assert (cycles > 3) == text.endswith("\n…"), cycles


def test_a_kind_without_a_trace_says_so():
    """A system that is always right has no wrong trace."""
    shown = examples(prediction(1, "Supported", 1))
    assert ("none", "none") == (shown["a wrong trace"], shown["an unread trace"])
