"""A log of Inspect as plain values: a sample for each claim, metrics as shares."""

import polars as pl
import pytest

from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.reports.inspect_log import Predicted, inspect_log
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_files import SYSTEMS, calls, predictions
from evaluation_graph import claim_row

CLAIMS = BENCHMARK_CLAIMS.conform(
    pl.DataFrame([claim_row(number) for number in range(10)], BENCHMARK_CLAIMS.schema)
)
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
        scores=score_predictions(said, CLAIMS, ScoreSettings(draws=50, confidence_draws=50)),
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
    frame = predictions(POLICY, "fever", CLAIMS).with_columns(
        verdict=pl.when(pl.col("claim_id") == CLAIMS["claim_id"][0])
        .then(None)
        .otherwise("verdict"),
        parse_status=pl.lit("truncated"),
    )
    samples = inspect_log(predicted(frame), "0.1")["samples"]
    marks = [one["scores"]["verdict"]["value"] for one in samples]
    assert ["I", "I", "C", "I"] == marks[:4]
    assert "" == samples[0]["scores"]["verdict"]["answer"]
    assert "truncated" == samples[0]["scores"]["verdict"]["metadata"]["parse_status"]
    assert "max_tokens" == samples[0]["output"]["choices"][0]["stop_reason"]


def test_metrics_are_shares_and_counts_stay_counts():
    """Inspect shows 0..1; the interval and the number of claims are beside each."""
    metrics = inspect_log(predicted(), "0.1")["results"]["scores"][0]["metrics"]
    balanced = metrics["balanced_accuracy"]
    assert 0.5 == pytest.approx(balanced["value"])
    assert 0 < balanced["metadata"]["low"] < 0.5 < balanced["metadata"]["high"] < 1
    assert 10 == balanced["metadata"]["claims"]
    assert 1.0 == metrics["questions_per_claim"]["value"]


def test_doubtful_claims_are_marked():
    """Only they carry the mark."""
    first = CLAIMS["claim_id"][0]
    samples = inspect_log(predicted(doubtful=(first,)), "0.1")["samples"]
    assert [True] + [None] * 9 == [one["metadata"].get("doubtful") for one in samples]


def test_the_same_tables_give_the_same_log():
    """Ids are made from system, test set and time of the run, so an export can be repeated."""
    assert inspect_log(predicted(), "0.1") == inspect_log(predicted(), "0.1")
    usage = inspect_log(predicted(), "0.1")["stats"]["model_usage"]
    assert {"input_tokens": 900, "output_tokens": 30, "total_tokens": 930} == usage[
        f"decomposerl/{POLICY.key}"
    ]
