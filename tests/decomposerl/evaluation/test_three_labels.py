"""Scores over three labels: scikit-learn's numbers, apart from the two-way ones."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score

from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.claim import LabelMap
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import codes_of, count_metrics, outcome_table
from decomposerl.evaluation.scored_claims import THREE_WAY_SET
from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.evaluation.subset import evaluation_subset
from decomposerl.evaluation.systems import systems
from decomposerl.evaluation.three_way import MEAN, POOLED, three_way_board, three_way_claims
from decomposerl.reports.three_way_report import three_way_markdown, three_way_sentence
from decomposerl.schemas import BENCHMARK_CLAIMS, PREDICTIONS, VERDICTS
from evaluation_graph import claim_row
from strategies import LAW

QUICK = ScoreSettings(draws=100, confidence_draws=50)
NATIVE = ("yes", "no", "maybe")
LABELS = LabelMap.of("yes", "no", "maybe")
SYSTEM, TWO_WAY = "simple-rules-faithful", "minicheck-lexical"
KNOWN = {one.key: one for one in systems(METHODS, [])}


def made_set(source: str, count: int, natives: tuple[str, ...] = NATIVE) -> pl.DataFrame:
    """Claims whose native labels take turns; the middle class has no label of the paper's two."""
    label = {"yes": "Supported", "no": "Refuted"}
    rows = []
    for number in range(count):
        native = natives[number % len(natives)]
        given_ = {"native_label": native, "label": label.get(native)}
        rows.append(claim_row(number + len(source) * 1_000, source=source, **given_))
    return BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))


def said(claims: pl.DataFrame, system: str, verdicts: list[str | None]) -> pl.DataFrame:
    """Predictions of these verdicts."""
    one = KNOWN[system]
    rows = [
        dict.fromkeys(PREDICTIONS.schema)
        | {"claim_id": claim, "benchmark": THREE_WAY_SET, "system": system, "method": one.method}
        | {"model": one.model.key, "protocol": one.protocol, "engine": "rules", "verdict": verdict}
        | {"parse_status": "parsed" if verdict else "unparsed", "notes": "{}", "reply": ""}
        | {"questions": 0, "abstentions": 0, "calls": 1, "prompt_hash": "", "seed": 42}
        for claim, verdict in zip(claims["claim_id"], verdicts, strict=True)
    ]
    return PREDICTIONS.conform(pl.DataFrame(rows, schema=PREDICTIONS.schema))


@LAW
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60))
def test_the_metrics_of_three_labels_are_those_of_scikit_learn(rows: list[tuple[int, int]]):
    """Balanced accuracy, macro-F1, recalls; a missing verdict is wrong for its label alone."""
    truth, found = (np.array(column) for column in zip(*rows, strict=True))
    table, metrics = outcome_table(truth, found, 3), count_metrics(3)
    names = ("recall_supported", "recall_refuted", "recall_not_enough_info")
    recalls = recall_score(truth, found, labels=[0, 1, 2], average=None, zero_division=np.nan)
    assert np.allclose([metrics[name](table) for name in names], recalls, equal_nan=True)
    if len(set(truth)) == 3:
        seen = f1_score(truth, found, labels=[0, 1, 2], average="macro", zero_division=0.0)
        assert float(metrics["macro_f1"](table)) == pytest.approx(seen)
        known = found < 3
        balanced = balanced_accuracy_score(truth[known], found[known]) if known.all() else None
        if balanced is not None:
            assert float(metrics["balanced_accuracy"](table)) == pytest.approx(balanced)


def test_two_way_the_third_verdict_is_none_and_the_third_label_is_refused():
    """Codes and metrics of two labels are as they were; gold labels are never dropped silently."""
    assert [0, 1, 2, 2] == codes_of(["Supported", "Refuted", "NotEnoughInfo", None]).tolist()
    assert [0, 1, 2, 3] == codes_of(["Supported", "Refuted", "NotEnoughInfo", None], 3).tolist()
    assert not any("not_enough" in name for name in count_metrics())
    claims = three_way_claims([(LABELS, made_set("toy", 6))])
    with pytest.raises(EvaluationError, match=r"2 claims have a label .* test set three_way"):
        score_predictions(said(claims, SYSTEM, [None] * 6), claims, QUICK)


def test_the_middle_class_with_evidence_is_the_third_label_and_a_set_without_stays_out():
    """Labels by the native ones, whatever rule the base was read under; ids stay."""
    base = made_set("toy", 9)
    claims = three_way_claims([(LABELS, base), (LabelMap.of("yes", "no"), made_set("two", 4))])
    assert ["Supported", "Refuted", "NotEnoughInfo"] * 3 == claims["label"].to_list()
    assert base["claim_id"].equals(claims["claim_id"])
    refuted = base.with_columns(pl.col("label").fill_null("Refuted"))
    assert claims.equals(three_way_claims([(LABELS, refuted)]))
    bare = base.with_columns(
        evidence=pl.when(pl.col("native_label") != "maybe").then(pl.col("evidence"))
    )
    assert three_way_claims([(LABELS, bare)]).is_empty()


def test_a_limited_run_takes_as_many_of_each_label():
    """Three labels in turn; two as before: half of either, more of one where the other is short."""
    claims = three_way_claims([(LABELS, made_set("toy", 30))])
    counts = evaluation_subset(claims, 7).claims["label"].value_counts()
    assert {"Supported": 3, "Refuted": 2, "NotEnoughInfo": 2} == dict(counts.iter_rows())
    two = claims.filter(pl.col("label") != "NotEnoughInfo")
    few = pl.concat([two.filter(label="Refuted").head(1), two.filter(label="Supported")])
    counts = evaluation_subset(few, 6).claims["label"].value_counts()
    assert {"Supported": 5, "Refuted": 1} == dict(counts.iter_rows())


@pytest.fixture(scope="module")
def board() -> pl.DataFrame:
    """A system that is always right, and one of two labels that calls open claims Refuted."""
    claims = three_way_claims([(LABELS, made_set("toy", 30)), (LABELS, made_set("other", 60))])
    right = claims["label"].to_list()
    two = ["Refuted" if one == "NotEnoughInfo" else one for one in right]
    scores = pl.concat(
        score_predictions(said(claims, system, verdicts), claims, QUICK, classes=len(VERDICTS))
        for system, verdicts in ((TWO_WAY, two), (SYSTEM, right))
    )
    return three_way_board(scores, KNOWN.values(), {SYSTEM})


def test_the_board_has_every_test_set_and_says_who_has_two_labels(board: pl.DataFrame):
    """The best first; a system of two labels has recall 0 on the third, with an interval."""
    assert [SYSTEM, TWO_WAY] == board["system"].unique(maintain_order=True).to_list()
    assert {POOLED, MEAN, "toy", "other"} == set(board["test_set"])
    two = board.filter(system=TWO_WAY, test_set=POOLED)
    found = {row["metric"]: row for row in two.iter_rows(named=True)}
    assert 0.0 == found["recall_not_enough_info"]["score"] == found["recall_not_enough_info"]["low"]
    assert 0.0 < found["recall_not_enough_info"]["high"] < 25
    assert found["balanced_accuracy"]["score"] == pytest.approx(200 / 3)
    assert found["balanced_accuracy"]["low"] < 200 / 3 < found["balanced_accuracy"]["high"]
    text = three_way_markdown(board, {"toy": "Toy"})
    lines = {line for line in text.splitlines() if line.endswith("recall 0 on the third |")}
    assert 4 == sum(KNOWN[TWO_WAY].reader_title in line for line in lines) == len(lines)
    assert "1 of 2 systems have two labels" in three_way_sentence(board)


def test_a_short_run_is_best_only_alone_and_may_lack_a_label(board: pl.DataFrame):
    """The whole run is named although its score is lower; two claims have no third label."""
    short = board.with_columns(limited=pl.col("system") == SYSTEM)
    assert f"labels {KNOWN[TWO_WAY].reader_title} is best" in three_way_sentence(short)
    alone = short.filter(system=SYSTEM)
    assert f"labels {KNOWN[SYSTEM].reader_title} is best" in three_way_sentence(alone)
    claims = evaluation_subset(three_way_claims([(LABELS, made_set("toy", 9))]), 2).claims
    predicted = said(claims, SYSTEM, claims["label"].to_list())
    scores = score_predictions(predicted, claims, QUICK, classes=len(VERDICTS))
    few = three_way_board(scores, KNOWN.values(), {SYSTEM}, {SYSTEM})
    assert "No run so far has claims of all three labels." == three_way_sentence(few)
