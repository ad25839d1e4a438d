"""Scores of a benchmark: every labelled claim counts, slices add up; two labels and three."""

import re
from fnmatch import fnmatch

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.leaderboard import mean_scores
from decomposerl.evaluation.metrics import calibration_error, codes_of
from decomposerl.evaluation.scores import score_predictions
from decomposerl.schemas import BENCHMARK_CLAIMS, PREDICTIONS, SCORES, VERDICTS
from plain_rows import plain, table_of
from project import ROOT

TRACE = PREDICTIONS.schema["trace"]
ROWS = 240


def claims(rows: int = ROWS) -> pl.DataFrame:
    """Two parts, hops of two and three (some unknown), evidence of 3 and 300 words."""
    luck = np.random.default_rng(0).random(rows)
    about = {"source": "hover", "passages": ["text"]}
    made = [
        plain("benchmark_claims", **about, claim_id=f"{row:016x}", native_id=str(row))
        | {"claim": f"claim {row}", "label": "Supported" if luck[row] < 0.5 else "Refuted"}
        | {"evidence": f"text number {row}" + " more" * (row % 2 * 297)}
        | {"subset": "first" if row % 3 else "second"}
        | {"num_hops": None if row % 10 == 0 else 2 + row % 2}
        for row in range(rows)
    ]
    return table_of(BENCHMARK_CLAIMS, made)


OTHER = {"Supported": "Refuted", "Refuted": "Supported"}


def predictions(of: pl.DataFrame, **columns: object) -> pl.DataFrame:
    """Three in four right, one in twelve without a verdict, confidence where there is one."""
    rng = np.random.default_rng(1)
    luck, sure = rng.random(of.height), rng.uniform(0.5, 1, of.height)
    rows = []
    for n, (claim, label) in enumerate(of.select("claim_id", "label").iter_rows()):
        verdict = None if luck[n] < 1 / 12 else OTHER[label] if luck[n] < 1 / 3 else label
        read = {"verdict": verdict, "parse_status": "parsed" if verdict else "unparsed"}
        read |= {"confidence_normalised": sure[n] if n % 4 else None, "confidence_bound": False}
        asked = {"questions": n % 4, "abstentions": int(n % 4 > 1), "calls": 3}
        rows.append(plain("predictions", **read, **asked, claim_id=claim, benchmark="hover"))
    return PREDICTIONS.conform(table_of(PREDICTIONS, rows).with_columns(**columns))


LABELLED = claims()
FOUND = predictions(LABELLED)


@pytest.fixture(scope="module")
def scores() -> pl.DataFrame:
    return score_predictions(FOUND, LABELLED)


def of(scores: pl.DataFrame, metric: str, name: str = "all", value: str = "") -> dict:
    rows = scores.filter(metric=metric, slice=name, value=value).to_dicts()
    assert 1 == len(rows), (metric, name, value)
    return rows[0]


def test_verdicts_are_scored_by_what_they_rest_on():
    """The share of silent ones among those with a basis and a verdict, and how often each is right.

    Predictions of an earlier version have no such column.
    """
    label = LABELLED["label"][:6].to_list()
    answers = [["A."], ["A.", "I don't know."], ["I don't know."], ["I don't know."], ["A."], []]
    rows = []
    for n, cycles in enumerate(answers):
        trace = {"opening": "", "cycles": [{"question": "?", "answer": a} for a in cycles]}
        verdict = None if n == 4 else OTHER[label[n]] if n == 3 else label[n]
        rows.append(plain("predictions", claim_id=LABELLED["claim_id"][n], verdict=verdict)
                    | {"benchmark": "hover", "trace": trace})  # fmt: skip
    frame = table_of(PREDICTIONS, rows).drop("basis")
    made = score_predictions(frame, LABELLED[:6])
    expected = {"silent_rate": (50.0, 4), "accuracy_answered": (100.0, 1)}
    expected |= {"accuracy_partly": (100.0, 1), "accuracy_silent": (50.0, 2)}
    assert expected == {
        name: (of(made, name)["score"], of(made, name)["rows"]) for name in expected
    }


def test_scores_equal_the_reference(scores: pl.DataFrame):
    """Percent of scikit-learn's, over all claims; a missing verdict is wrong."""
    verdicts = FOUND["verdict"].fill_null("none").to_list()
    with pytest.warns(UserWarning, match="y_pred contains classes"):
        expected = balanced_accuracy_score(LABELLED["label"].to_list(), verdicts)
    row = of(scores, "balanced_accuracy")
    assert row["score"] == pytest.approx(100 * expected)
    assert row["low"] < row["score"] < row["high"]
    assert (ROWS, (LABELLED["label"] == "Supported").sum()) == (row["rows"], row["supported"])
    lenient = FOUND["verdict"].fill_null("Refuted").to_list()
    expected = balanced_accuracy_score(LABELLED["label"].to_list(), lenient)
    assert of(scores, "balanced_accuracy_as_refuted")["score"] == pytest.approx(100 * expected)
    parsed = of(scores, "parse_rate")["score"]
    assert parsed == pytest.approx(100 * FOUND["verdict"].is_not_null().mean())
    assert SCORES.conform(scores).equals(score_predictions(FOUND, LABELLED))


def test_every_metric_is_explained():
    """``docs/explanation/evaluation.md`` has each metric, or its form."""
    sure = pl.int_range(pl.len()) / ROWS
    confidences = ("raw", "normalised", "calibrated")
    columns = {f"confidence_{kind}": sure for kind in confidences}
    traced = pl.struct(pl.lit(None, field.dtype).alias(field.name) for field in TRACE.fields)
    more = {"support_score": sure, "trace": traced}
    scores = score_predictions(predictions(LABELLED, **columns, **more), LABELLED)
    page = (ROOT / "docs/explanation/evaluation.md").read_text("utf-8")
    section = page.split("\n## Scores\n")[1].split("\n## ")[0]
    forms = re.findall(r"`([a-z_0-9*]+)`", section)
    found = set(scores["metric"])
    assert {"calls_per_claim", "abstention_rate", "auroc_support", "brier_raw"} <= found
    assert set() == {name for name in found if not any(fnmatch(name, form) for form in forms)}


def test_confidence_is_scored_where_there_is_one(scores: pl.DataFrame):
    """Over claims with a verdict and a confidence; a column without numbers gives no row."""
    judged = FOUND.with_columns(right=pl.col("verdict") == LABELLED["label"])
    both = judged.drop_nulls(["verdict", "confidence_normalised"])
    row = of(scores, "auroc_normalised")
    assert row["rows"] == both.height
    expected = roc_auc_score(both["right"], both["confidence_normalised"])
    assert row["score"] == pytest.approx(100 * expected)
    squares = (both["confidence_normalised"] - both["right"].cast(pl.Float64)) ** 2
    assert of(scores, "brier_normalised")["score"] == pytest.approx(100 * squares.mean())
    error = of(scores, "ece_normalised")
    assert error["score"] == pytest.approx(
        100 * calibration_error(both["confidence_normalised"].to_numpy(), both["right"].to_numpy())
    )
    assert 0 < error["low"] < error["high"] < 100
    for metric in ("auroc_normalised", "brier_normalised", "calls_per_claim"):
        row = of(scores, metric)
        assert row["low"] is None or row["low"] < row["score"] < row["high"]
        assert (row["low"] is None) == (metric == "calls_per_claim")  # always three
    assert not scores["metric"].str.contains("raw|calibrated|support$").any()


def test_slices_part_the_claims(scores: pl.DataFrame):
    """Rows of a slice's values sum to all claims that have a value; one value makes no slice."""
    scores = scores.filter(metric="balanced_accuracy")
    rows = dict(scores.group_by("slice").agg(pl.col("rows").sum()).iter_rows())
    assert rows == {"all": ROWS, "subset": ROWS, "hops": ROWS * 9 // 10, "evidence_words": ROWS}
    values = scores.filter(slice="evidence_words")["value"].to_list()
    assert {"0-199", "200-499"} == set(values)


def test_claimdecomp_is_reported_with_and_without_ratings():
    """Claims whose evidence states the rating are one slice, the others another."""
    rated = pl.when(pl.int_range(pl.len()) % 4 > 0).then(pl.lit("We rate it False."))
    evidence = rated.otherwise(pl.lit("The rate fell."))
    labelled = LABELLED.with_columns(source=pl.lit("claimdecomp"), evidence=evidence)
    parts = score_predictions(FOUND, labelled).filter(slice="states_rating")
    rows = parts.filter(metric="accuracy").select("value", "rows").iter_rows()
    assert {"yes": 180, "no": 60} == dict(rows)


def test_the_mean_of_parts_is_uniform(scores: pl.DataFrame):
    """A small part weighs as much as a large one; its interval is of the mean."""
    parts = [of(scores, "balanced_accuracy", "subset", part) for part in ("first", "second")]
    row = of(scores, "balanced_accuracy_mean_of_subsets")
    assert row["score"] == pytest.approx((parts[0]["score"] + parts[1]["score"]) / 2)
    assert row["low"] < row["score"] < row["high"]
    assert row["high"] - row["low"] < max(part["high"] - part["low"] for part in parts)
    whole = LABELLED.with_columns(subset=pl.lit(None, pl.String))
    metrics = score_predictions(FOUND, whole)["metric"]
    assert not metrics.str.contains("mean_of").any()


def test_questions_are_counted_where_claims_were_decomposed(scores: pl.DataFrame):
    """Per claim and per question; a method that asks none has neither figure."""
    assert not scores["metric"].is_in(["questions_per_claim", "abstention_rate"]).any()
    assert of(scores, "calls_per_claim")["score"] == 3
    trace = pl.struct(
        opening=pl.lit(""),
        cycles=pl.lit([], PREDICTIONS.schema["trace"].fields[1].dtype),
        verdict=pl.lit(None, pl.String),
    )
    asked = score_predictions(predictions(LABELLED, trace=trace), LABELLED)
    assert of(asked, "questions_per_claim")["score"] == pytest.approx(1.5)
    assert of(asked, "abstention_rate")["score"] == pytest.approx(100 * 2 / 6)


def test_claims_without_a_label_do_not_count():
    """They are no error and in no figure; without any label there are no scores.

    Of one label alone there is no balanced accuracy, but a recall.
    """
    one_label = LABELLED.filter(label="Supported")
    scores = score_predictions(predictions(one_label), one_label)
    row = of(scores, "balanced_accuracy")
    assert (None, None, None) == (row["score"], row["low"], row["high"])
    assert of(scores, "recall_supported")["score"] is not None
    even = pl.int_range(pl.len()) % 2 == 0
    half = LABELLED.with_columns(label=pl.when(even).then("label").otherwise(None))
    assert ROWS // 2 == of(score_predictions(FOUND, half), "accuracy")["rows"]
    none = LABELLED.with_columns(label=pl.lit(None, pl.String))
    assert score_predictions(FOUND, none).equals(SCORES.empty())
    empty = score_predictions(PREDICTIONS.empty(), LABELLED.clear())
    assert empty.equals(SCORES.empty())


def test_predictions_must_be_those_of_the_claims():
    """A claim left out would flatter, a stranger confuse, two systems are no system."""
    labelled = claims(30)
    found = predictions(labelled)
    with pytest.raises(EvaluationError, match="2 claims have no prediction: 0000000000000000"):
        score_predictions(found.tail(28), labelled)
    with pytest.raises(EvaluationError, match="1 predictions no claim"):
        score_predictions(found, labelled.head(29))
    other = pl.when(pl.int_range(pl.len()) > 3).then(pl.lit("cot")).otherwise("system")
    mixed = found.with_columns(system=other)
    with pytest.raises(EvaluationError, match="several systems: cot, simple"):
        score_predictions(mixed, labelled)


def test_means_over_benchmarks_are_uniform_with_their_interval():
    """Claims are summed; the distances to the bounds are added in squares."""
    lines = [
        [f"set {n}", "s", "e", "balanced_accuracy", "all", "", score, score - 3, score + 4, 10, 5]
        for n, score in enumerate((70.0, 80.0, 96.0))
    ]
    scores = pl.DataFrame(lines, SCORES.schema, orient="row")
    means = mean_scores(scores, {"mean": ["set 0", "set 1", "set 2"], "other": ["set 0", "set 9"]})
    row = of(means, "balanced_accuracy")
    assert ("mean", 30, 15) == (row["benchmark"], row["rows"], row["supported"])
    bounds = 82 - 3 / 3**0.5, 82 + 4 / 3**0.5
    assert (82.0, *bounds) == pytest.approx((row["score"], row["low"], row["high"]))
    assert mean_scores(SCORES.empty(), {"mean": ["set 0"]}).equals(SCORES.empty())


def three_way(count: int) -> pl.DataFrame:
    """Claims whose labels take turns."""
    return claims(count).with_columns(label=pl.Series([*VERDICTS] * (count // 3)))


def test_two_way_the_third_verdict_is_none_and_the_third_label_is_refused():
    """Codes and metrics of two labels are as they were; gold labels are never dropped silently."""
    assert [0, 1, 2, 2] == codes_of([*VERDICTS, None]).tolist()
    assert [0, 1, 2, 3] == codes_of([*VERDICTS, None], 3).tolist()
    with pytest.raises(KeyError):
        codes_of(["supported"])
    with pytest.raises(EvaluationError, match="2 claims have a label"):
        score_predictions(predictions(claims(6)), three_way(6))


def test_a_system_of_two_labels_has_recall_0_on_the_third():
    """With an interval; a short run of two claims lacks the label, and its recall."""
    labelled = three_way(90)
    two = predictions(claims(90)).with_columns(
        verdict=labelled["label"].replace("NotEnoughInfo", "Refuted")
    )
    scores = score_predictions(two, labelled, classes=len(VERDICTS))
    third = of(scores, "recall_not_enough_info")
    assert 0.0 == third["score"] == third["low"] < third["high"] < 25
    balanced = of(scores, "balanced_accuracy")
    assert balanced["low"] < 200 / 3 < balanced["high"]
    assert balanced["score"] == pytest.approx(200 / 3)
    few = score_predictions(two.head(2), labelled.head(2), classes=len(VERDICTS))
    assert of(few, "recall_not_enough_info")["score"] is None
