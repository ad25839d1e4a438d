"""What the UI shows of one system on one test set."""

import polars as pl

from decomposerl.reports.system_report import (
    calls_markdown,
    examples_markdown,
    score_facts,
    scores_markdown,
    verdicts_markdown,
)
from decomposerl.schemas import CALLS, PREDICTIONS, SCORES
from plain_rows import plain, table_of

CALL = {"claim_id": "a" * 16, "call": 0, "operation": "verify", "template": "verdict"}
RULES = CALL | {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "cached": False}
METRIC = plain("scores", value="all", score=100 * 14 / 25)


def test_tokens_are_shown_where_an_engine_counts_them():
    """Rules count none, and the line of their calls has no zeros."""
    assert "tokens" not in calls_markdown(table_of(CALLS, [RULES]))
    counted = calls_markdown(table_of(CALLS, [RULES | {"prompt_tokens": 120}]))
    named = ("verify", "verdict", "1 ", "120", "0.000", "tokens in")
    assert [] == [word for word in named if word not in counted]
    assert "tokens out" not in counted


def test_verdicts_are_counted_by_label():
    """Right, wrong and unread; together they are the predictions."""
    said = ["Supported", "Refuted", None, "Refuted"]

    def counted(labels: list[str]) -> list[str]:
        predicted = pl.DataFrame({"claim_id": [*"abcd"], "verdict": said})
        labelled = pl.DataFrame({"claim_id": [*"abcd"], "label": labels})
        return verdicts_markdown(predicted, labelled).splitlines()[2:]

    two = counted(["Supported"] * 3 + ["Refuted"])
    assert ["| Supported | 1 | 1 | 1 |", "| Refuted | 1 | 0 | 0 |"] == two
    three = counted(["Supported", "NotEnoughInfo", "NotEnoughInfo", "Refuted"])
    assert "| NotEnoughInfo | 0 | 1 | 1 |" == three[-1]


def test_scores_are_rounded_and_slices_named():
    """Two decimals where a number stands alone; the second table says what it shows."""
    whole = table_of(SCORES, [METRIC])
    assert {"balanced_accuracy": 56.0} == score_facts(whole)
    assert 1 == len(scores_markdown(whole).split("\n\n"))
    hops = METRIC | {"slice": "hops", "value": "2", "score": 53.4}
    shown = scores_markdown(table_of(SCORES, [METRIC, hops]))
    first, title, second = shown.split("\n\n")
    assert "56.0" in first
    assert "balanced_accuracy" in title
    assert "53.4" in second


def prediction(number: int, verdict: str | None, cycles: int | None) -> dict[str, object]:
    """One prediction of a claim labelled Supported."""
    asked = [{"question": f"Who | {n}?", "answer": "<b>Ada</b>"} for n in range(cycles or 0)]
    return {
        "claim_id": f"{number:016x}",
        "verdict": verdict,
        "parse_status": "unparsed" if verdict is None else "parsed",
        "trace": None if cycles is None else {"opening": "", "cycles": asked, "verdict": verdict},
        "reply": "I do not know.\n" * 90,
    }


def test_one_of_each_kind_is_shown_the_first_by_id():
    """With label, verdict, questions and answers, or the reply; the texts show literally."""
    rows = [prediction(9, "Supported", 2), prediction(2, "Supported", 1)]
    rows += [prediction(3, "Refuted", 2), prediction(4, None, None)]
    predicted = pl.DataFrame(rows, schema_overrides=PREDICTIONS.schema)
    claims = predicted.select("claim_id", claim=pl.lit("A claim."), label=pl.lit("Supported"))
    right, wrong, unread = examples_markdown(predicted, claims).splitlines()[2:]
    begins = "| right | 0000000000000002 | Supported | Supported | A claim. | "
    assert f"{begins}Who \\| 0? &lt;b&gt;Ada&lt;/b&gt; |" == right
    assert wrong.startswith("| wrong | 0000000000000003 | Supported | Refuted | A claim. | Who ")
    assert unread.startswith(
        "| unread | 0000000000000004 | Supported | unparsed | A claim. | I do "
    )
    assert 2 == len(examples_markdown(predicted[:0], claims).splitlines())
