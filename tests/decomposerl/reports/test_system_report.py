"""What the UI and Inspect show of one system on one test set."""

import polars as pl
import pytest

from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.reports.inspect_log import Predicted, inspect_log
from decomposerl.reports.system_report import (
    calls_markdown,
    example_traces,
    score_facts,
    scores_markdown,
    verdicts_markdown,
)
from decomposerl.schemas import BENCHMARK_CLAIMS, CALLS, PREDICTIONS, SCORES
from evaluation_files import SYSTEMS, calls, predictions
from evaluation_graph import claim_row
from plain_rows import plain, table_of

FOLDED = 1_000  # characters of Markdown that Dagster's pages fold
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
    cycle = {"answer": "<b>Ada</b> " * 40, "thought": ""}
    asked = [cycle | {"question": f"Who | {n}?"} for n in range(cycles or 0)]
    return {
        "claim_id": f"{number:016x}",
        "verdict": verdict,
        "parse_status": "unparsed" if verdict is None else "parsed",
        "trace": None if cycles is None else {"opening": "", "cycles": asked, "verdict": verdict},
        "reply": "I do not know.\n" * 90,
    }


def examples(*rows: dict[str, object]) -> dict[str, str]:
    predicted = pl.DataFrame(rows, schema_overrides=PREDICTIONS.schema)
    text = pl.lit("A claim. " * 50)
    claims = predicted.select("claim_id", claim=text, label=pl.lit("Supported"))
    return example_traces(predicted, claims)


def test_one_of_each_kind_is_shown_the_first_by_id():
    """With label, verdict, questions and answers, or the reply; a kind without a trace is none."""
    shown = examples(prediction(1, "Supported", 1))
    assert ("none", "none") == (shown["a wrong trace"], shown["an unread trace"])
    shown = examples(
        prediction(9, "Supported", 2),
        prediction(2, "Supported", 1),
        prediction(3, "Refuted", 2),
        prediction(4, None, None),
    )
    right = ("label Supported", "verdict Supported", "claim 0000000000000002")
    for kind, words in {
        "a right trace": (*right, "1. Who \\| 0? **&lt;b&gt;Ada"),
        "a wrong trace": ("verdict Refuted, claim 0000000000000003", "2. Who"),
        "an unread trace": ("verdict none (unparsed)", "I do not know."),
    }.items():
        assert [] == [word for word in words if word not in shown[kind]], kind


def test_a_trace_is_shorter_than_what_the_page_folds():
    """However long it is; a cut one ends with a mark."""
    for cycles in (0, 1, 4, 30):
        text = examples(prediction(1, "Supported", cycles))["a right trace"]
        assert len(text) < FOLDED
        assert (cycles > 3) == text.endswith("\n…"), cycles


CLAIMS = table_of(BENCHMARK_CLAIMS, [claim_row(number) for number in range(10)])
POLICY = SYSTEMS[1]


def predicted(frame: pl.DataFrame | None = None, doubtful: tuple[str, ...] = ()) -> Predicted:
    """A policy that is wrong on every second claim, or other predictions."""
    said = predictions(POLICY, "fever", CLAIMS) if frame is None else frame
    return Predicted(
        benchmark="fever",
        system=POLICY.key,
        title=POLICY.reader_title,
        predictions=said,
        claims=CLAIMS,
        scores=score_predictions(said, CLAIMS, ScoreSettings(draws=50)),
        calls=calls(CLAIMS["claim_id"]),
        doubtful=doubtful,
        run={"engine": "transformers:tiny", "status": "ok"},
        began="2026-01-02T03:04:05+00:00",
        ended="2026-01-02T03:05:05+00:00",
    )


def test_each_claim_is_a_sample_with_its_evidence_label_and_reply():
    """In the order of the predictions; the id is the claim's, and its trace explains the score."""
    log = inspect_log(predicted(), "0.1")
    assert CLAIMS["claim_id"].to_list() == [one["id"] for one in log["samples"]]
    sample, claim = log["samples"][1], CLAIMS.row(1, named=True)
    assert f"{claim['evidence']}\n\nClaim: {claim['claim']}" == sample["input"]
    assert claim["label"] == sample["target"]
    assert "Supported" == sample["output"]["choices"][0]["message"]["content"]
    assert "Question: Is it so?\nAnswer: It is." in sample["scores"]["verdict"]["explanation"]
    assert "page 1" == sample["metadata"]["document_id"]


def test_right_and_wrong_are_the_projects_own():
    """A verdict that was not read is wrong, and says so."""
    said = predictions(POLICY, "fever", CLAIMS)
    read = pl.when(claim_id=CLAIMS["claim_id"][0]).then(None).otherwise("verdict")
    frame = said.with_columns(verdict=read, parse_status=pl.lit("truncated"))
    samples = inspect_log(predicted(frame), "0.1")["samples"]
    marks = [one["scores"]["verdict"]["value"] for one in samples]
    assert ["I", "I", "C", "I"] == marks[:4]
    assert "" == samples[0]["scores"]["verdict"]["answer"]
    assert "truncated" == samples[0]["scores"]["verdict"]["metadata"]["parse_status"]
    assert "max_tokens" == samples[0]["output"]["choices"][0]["stop_reason"]


def test_metrics_are_shares_and_counts_stay_counts():
    """Inspect shows 0..1; interval and number of claims beside each; doubtful claims are marked."""
    metrics = inspect_log(predicted(), "0.1")["results"]["scores"][0]["metrics"]
    balanced = metrics["balanced_accuracy"]
    assert 0.5 == pytest.approx(balanced["value"])
    assert 0 < balanced["metadata"]["low"] < 0.5 < balanced["metadata"]["high"] < 1
    assert 10 == balanced["metadata"]["claims"]
    assert 1.0 == metrics["questions_per_claim"]["value"]
    first = CLAIMS["claim_id"][0]
    samples = inspect_log(predicted(doubtful=(first,)), "0.1")["samples"]
    assert [True] + [None] * 9 == [one["metadata"].get("doubtful") for one in samples]


def test_the_same_tables_give_the_same_log():
    """Ids are made from system, test set and time of the run, so an export can be repeated."""
    assert inspect_log(predicted(), "0.1") == inspect_log(predicted(), "0.1")
    usage = inspect_log(predicted(), "0.1")["stats"]["model_usage"]
    counted = {"input_tokens": 900, "output_tokens": 30, "total_tokens": 930}
    assert counted == usage[f"decomposerl/{POLICY.key}"]
