"""Three traces of a system: one right, one wrong, one whose verdict was not read."""

import polars as pl
import pytest

from decomposerl.reports.system_report import example_traces
from decomposerl.schemas import PREDICTIONS

FOLDED = 1_000  # characters of Markdown that Dagster's pages fold


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
    assert "label Supported, verdict Supported, claim 0000000000000002" in shown["a right trace"]
    assert "1. Who \\| 0? **&lt;b&gt;Ada" in shown["a right trace"]
    assert "verdict Refuted, claim 0000000000000003" in shown["a wrong trace"]
    assert "2. Who" in shown["a wrong trace"]
    assert "verdict none (unparsed)" in shown["an unread trace"]
    assert "I do not know." in shown["an unread trace"]


@pytest.mark.parametrize("cycles", [0, 1, 4, 30])
def test_a_trace_is_shorter_than_what_the_page_folds(cycles: int):
    """However long it is; a cut one ends with a mark."""
    text = examples(prediction(1, "Supported", cycles))["a right trace"]
    assert len(text) < FOLDED
    assert (cycles > 3) == text.endswith("\n…")


def test_a_kind_without_a_trace_says_so():
    """A system that is always right has no wrong trace."""
    shown = examples(prediction(1, "Supported", 1))
    assert ("none", "none") == (shown["a wrong trace"], shown["an unread trace"])
