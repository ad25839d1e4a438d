"""Scores of a benchmark: every labelled claim counts, slices add up, nothing is made up."""

import re
from fnmatch import fnmatch

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, roc_auc_score

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.bootstrap import clusters_of, generator, interval, resampled_sums
from decomposerl.evaluation.leaderboard import mean_scores
from decomposerl.evaluation.metrics import balanced_accuracy, indicators
from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.schemas import BENCHMARK_CLAIMS, PREDICTIONS, SCORES
from project import ROOT

TRACE = PREDICTIONS.schema["trace"]
QUICK = ScoreSettings(draws=400, confidence_draws=100)
ROWS = 240


def claims(rows: int = ROWS) -> pl.DataFrame:
    """Two parts, hops of two and three (some unknown), evidence of 3 and 300 words."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "claim_id": [f"{row:016x}" for row in range(rows)],
            "source": ["hover"] * rows,
            "native_id": [str(row) for row in range(rows)],
            "split": ["test"] * rows,
            "claim": [f"claim {row}" for row in range(rows)],
            "evidence": [f"text number {row}" + " more" * (row % 2 * 297) for row in range(rows)],
            "passages": [["text"]] * rows,
            "evidence_kind": ["text"] * rows,
            "label": np.where(rng.random(rows) < 0.5, "Supported", "Refuted"),
            "native_label": ["x"] * rows,
            "label_rule": ["drop_middle"] * rows,
            "document_id": [None] * rows,
            "subset": ["first" if row % 3 else "second" for row in range(rows)],
            "num_hops": [None if row % 10 == 0 else 2 + row % 2 for row in range(rows)],
        },
        schema=BENCHMARK_CLAIMS.schema,
    )
    return BENCHMARK_CLAIMS.conform(frame)


def predictions(of: pl.DataFrame, **columns: object) -> pl.DataFrame:
    """Three in four right, one in twelve without a verdict, confidence where there is one."""
    rng = np.random.default_rng(1)
    other = pl.when(pl.col("label") == "Supported").then(pl.lit("Refuted"))
    numbers = pl.DataFrame({"luck": rng.random(of.height), "sure": rng.uniform(0.5, 1, of.height)})
    kept = of.select("claim_id", "label").hstack(numbers)
    frame = kept.select(
        "claim_id",
        benchmark=pl.lit("hover"),
        system=pl.lit("simple-rules-faithful"),
        method=pl.lit("simple"),
        model=pl.lit("rules"),
        protocol=pl.lit("faithful"),
        engine=pl.lit("rules"),
        verdict=pl.when(pl.col("luck") < 1 / 12)
        .then(None)
        .when(pl.col("luck") < 1 / 3)
        .then(other.otherwise(pl.lit("Supported")))
        .otherwise("label"),
        parse_status=pl.when(pl.col("luck") < 1 / 12)
        .then(pl.lit("unparsed"))
        .otherwise(pl.lit("parsed")),
        support_score=pl.lit(None, pl.Float64),
        confidence_raw=pl.lit(None, pl.Float64),
        confidence_normalised=pl.when(pl.int_range(pl.len()) % 4 > 0).then("sure"),
        confidence_bound=pl.lit(False),
        confidence_calibrated=pl.lit(None, pl.Float64),
        agreement=pl.lit(None, pl.Float64),
        questions=pl.int_range(pl.len()) % 4,
        abstentions=(pl.int_range(pl.len()) % 4 > 1).cast(pl.Int64),
        calls=pl.lit(3, pl.Int64),
        trace=pl.lit(None, PREDICTIONS.schema["trace"]),
        notes=pl.lit("{}"),
        reply=pl.lit(""),
        prompt_hash=pl.lit("ab"),
        seed=pl.lit(42, pl.Int64),
    ).with_columns(**columns)
    return PREDICTIONS.conform(frame)


def of(scores: pl.DataFrame, metric: str, name: str = "all", value: str = "") -> dict:
    rows = scores.filter(metric=metric, slice=name, value=value).to_dicts()
    assert 1 == len(rows), (metric, name, value)
    return rows[0]


def test_scores_equal_the_reference():
    """Percent of scikit-learn's, over all claims; a missing verdict is wrong."""
    labelled = claims()
    found = predictions(labelled)
    scores = score_predictions(found, labelled, QUICK)
    verdicts = found["verdict"].fill_null("none").to_list()
    with pytest.warns(UserWarning, match="y_pred contains classes"):
        expected = balanced_accuracy_score(labelled["label"].to_list(), verdicts)
    row = of(scores, "balanced_accuracy")
    assert row["score"] == pytest.approx(100 * expected)
    assert row["low"] < row["score"] < row["high"]
    assert (ROWS, (labelled["label"] == "Supported").sum()) == (row["rows"], row["supported"])
    lenient = found["verdict"].fill_null("Refuted").to_list()
    expected = balanced_accuracy_score(labelled["label"].to_list(), lenient)
    assert of(scores, "balanced_accuracy_as_refuted")["score"] == pytest.approx(100 * expected)
    parsed = of(scores, "parse_rate")["score"]
    assert parsed == pytest.approx(100 * found["verdict"].is_not_null().mean())
    assert SCORES.conform(scores).equals(score_predictions(found, labelled, QUICK))


def test_every_metric_is_explained():
    """``docs/explanation/evaluation.md`` has each metric, or its form."""
    labelled = claims()
    sure = pl.int_range(pl.len()) / ROWS
    confidences = ("raw", "normalised", "calibrated")
    columns = {f"confidence_{kind}": sure for kind in confidences}
    traced = pl.struct(pl.lit(None, field.dtype).alias(field.name) for field in TRACE.fields)
    more = {"agreement": sure, "support_score": sure, "trace": traced}
    scores = score_predictions(predictions(labelled, **columns, **more), labelled, QUICK)
    page = (ROOT / "docs/explanation/evaluation.md").read_text("utf-8")
    section = page.split("\n## Scores\n")[1].split("\n## ")[0]
    forms = re.findall(r"`([a-z_0-9*]+)`", section)
    found = set(scores["metric"])
    assert {"calls_per_claim", "abstention_rate", "auroc_support", "brier_raw"} <= found
    assert set() == {name for name in found if not any(fnmatch(name, form) for form in forms)}


def test_f1_and_precision_count_a_missing_verdict_as_the_other_label():
    """As scikit-learn gives them with such a verdict wrong, and no third class."""
    labelled = claims()
    found = predictions(labelled)
    scores = score_predictions(found, labelled, QUICK)
    labels = labelled["label"].to_list()
    other = {"Supported": "Refuted", "Refuted": "Supported"}
    read = [given or other[own] for given, own in zip(found["verdict"], labels, strict=True)]
    assert None in found["verdict"].to_list()
    assert of(scores, "macro_f1")["score"] == pytest.approx(
        100 * f1_score(labels, read, average="macro")
    )
    for name, label in (("supported", "Supported"), ("refuted", "Refuted")):
        expected = precision_score(labels, read, pos_label=label)
        row = of(scores, f"precision_{name}")
        assert row["score"] == pytest.approx(100 * expected)
        assert row["low"] < row["score"] < row["high"]


def test_confidence_is_scored_where_there_is_one():
    """Over claims with a verdict and a confidence; a column without numbers gives no row."""
    labelled = claims()
    found = predictions(labelled)
    scores = score_predictions(found, labelled, QUICK)
    both = found.with_columns(right=pl.col("verdict") == labelled["label"]).drop_nulls(
        ["verdict", "confidence_normalised"]
    )
    row = of(scores, "auroc_normalised")
    assert row["rows"] == both.height
    expected = roc_auc_score(both["right"], both["confidence_normalised"])
    assert row["score"] == pytest.approx(100 * expected)
    squares = (both["confidence_normalised"] - both["right"].cast(pl.Float64)) ** 2
    assert of(scores, "brier_normalised")["score"] == pytest.approx(100 * squares.mean())
    for metric in ("ece_mass_normalised", "ece_width_normalised"):
        assert 0 < of(scores, metric)["score"] < 100
    assert not scores["metric"].str.contains("raw|calibrated|agreement|support$").any()


def test_slices_part_the_claims():
    """Rows of a slice's values sum to all claims that have a value; one value makes no slice."""
    labelled = claims()
    scores = score_predictions(predictions(labelled), labelled, QUICK).filter(
        metric="balanced_accuracy"
    )
    rows = dict(scores.group_by("slice").agg(pl.col("rows").sum()).iter_rows())
    assert rows == {"all": ROWS, "subset": ROWS, "hops": ROWS * 9 // 10, "evidence_words": ROWS}
    values = scores.filter(slice="evidence_words")["value"].to_list()
    assert {"0-199", "200-499"} == set(values)


def test_claimdecomp_is_reported_with_and_without_ratings():
    """Claims whose evidence states the rating are one slice, the others another."""
    rated = pl.when(pl.int_range(pl.len()) % 4 > 0).then(pl.lit("We rate it False."))
    labelled = claims().with_columns(
        source=pl.lit("claimdecomp"), evidence=rated.otherwise(pl.lit("The rate fell."))
    )
    scores = score_predictions(predictions(labelled), labelled, QUICK).filter(
        metric="accuracy", slice="states_rating"
    )
    assert {"yes": 180, "no": 60} == dict(scores.select("value", "rows").iter_rows())


def test_the_mean_of_parts_is_uniform():
    """A small part weighs as much as a large one; its interval is of the mean."""
    labelled = claims()
    scores = score_predictions(predictions(labelled), labelled, QUICK)
    parts = [of(scores, "balanced_accuracy", "subset", part) for part in ("first", "second")]
    row = of(scores, "balanced_accuracy_mean_of_subsets")
    assert row["score"] == pytest.approx((parts[0]["score"] + parts[1]["score"]) / 2)
    assert row["low"] < row["score"] < row["high"]
    assert row["high"] - row["low"] < max(part["high"] - part["low"] for part in parts)
    whole = labelled.with_columns(subset=pl.lit(None, pl.String))
    assert (
        not score_predictions(predictions(whole), whole, QUICK)["metric"]
        .str.contains("mean_of")
        .any()
    )


def test_questions_are_counted_where_claims_were_decomposed():
    """Per claim and per question; a method that asks none has neither figure."""
    labelled = claims()
    bare = score_predictions(predictions(labelled), labelled, QUICK)
    assert not bare["metric"].is_in(["questions_per_claim", "abstention_rate"]).any()
    assert of(bare, "calls_per_claim")["score"] == 3
    trace = pl.struct(
        opening=pl.lit(""),
        cycles=pl.lit([], PREDICTIONS.schema["trace"].fields[1].dtype),
        verdict=pl.lit(None, pl.String),
    )
    asked = score_predictions(predictions(labelled, trace=trace), labelled, QUICK)
    assert of(asked, "questions_per_claim")["score"] == pytest.approx(1.5)
    assert of(asked, "abstention_rate")["score"] == pytest.approx(100 * 2 / 6)


def test_no_interval_collapses():
    """All right: every share has room below, what only the bootstrap knows has no interval."""
    labelled = claims(6)
    right = predictions(labelled).with_columns(
        verdict=labelled["label"],
        parse_status=pl.lit("parsed"),
        confidence_normalised=pl.lit(1.0),
        support_score=(labelled["label"] == "Supported").cast(pl.Float64),
    )
    found = score_predictions(right, labelled, QUICK).filter(pl.col("score").is_not_null())
    for row in found.iter_rows(named=True):
        if row["low"] is None:
            assert row["metric"].startswith(("auroc", "ece", "brier", "calls"))
        else:
            assert row["low"] < row["high"], row


def test_one_label_alone_gives_no_balanced_accuracy():
    """What is not defined is null; the recall of the label that is there is not."""
    labelled = claims().filter(label="Supported")
    scores = score_predictions(predictions(labelled), labelled, QUICK)
    row = of(scores, "balanced_accuracy")
    assert (None, None, None) == (row["score"], row["low"], row["high"])
    assert of(scores, "recall_supported")["score"] is not None


def test_claims_without_a_label_do_not_count():
    """They are no error and in no figure; without any label there are no scores."""
    labelled = claims()
    found = predictions(labelled)
    half = labelled.with_columns(
        label=pl.when(pl.int_range(pl.len()) % 2 == 0).then("label").otherwise(None)
    )
    assert ROWS // 2 == of(score_predictions(found, half, QUICK), "accuracy")["rows"]
    none = labelled.with_columns(label=pl.lit(None, pl.String))
    assert score_predictions(found, none, QUICK).equals(SCORES.empty())
    empty = score_predictions(PREDICTIONS.empty(), labelled.clear(), QUICK)
    assert empty.equals(SCORES.empty())


def test_predictions_must_be_those_of_the_claims():
    """A claim left out would flatter, a stranger confuse, two systems are no system."""
    labelled = claims(30)
    found = predictions(labelled)
    with pytest.raises(EvaluationError, match="2 claims have no prediction: 0000000000000000"):
        score_predictions(found.tail(28), labelled, QUICK)
    with pytest.raises(EvaluationError, match="1 predictions no claim"):
        score_predictions(found, labelled.head(29), QUICK)
    mixed = found.with_columns(
        system=pl.when(pl.int_range(pl.len()) > 3).then(pl.lit("cot")).otherwise("system")
    )
    with pytest.raises(EvaluationError, match="several systems: cot, simple"):
        score_predictions(mixed, labelled, QUICK)


def test_means_over_benchmarks_have_the_interval_of_their_draws():
    """The bound from the parts' bounds is that of the mean of independent draws."""
    rng = np.random.default_rng(5)
    lines, draws = [], []
    for number, rows in enumerate((120, 400, 900)):
        labels = np.arange(rows) % 2
        verdicts = np.where(rng.random(rows) < 0.8, labels, 1 - labels)
        sums = resampled_sums(indicators(labels, verdicts), clusters_of(labels), generator(number))
        draws.append(100 * balanced_accuracy(sums.reshape(-1, 2, 3)))
        value = 100 * float(np.mean(labels == verdicts))
        name = f"set {number}"
        counts = [rows, rows // 2]
        lines.append([name, "s", "e", "balanced_accuracy", "all", "", value, *interval(draws[-1])])
        lines[-1] += counts
    scores = pl.DataFrame(lines, SCORES.schema, orient="row")
    means = mean_scores(scores, {"mean": ["set 0", "set 1", "set 2"], "other": ["set 0", "set 9"]})
    assert 1 == means.height
    row = of(means, "balanced_accuracy")
    assert ("mean", 1_420, 710) == (row["benchmark"], row["rows"], row["supported"])
    assert row["score"] == pytest.approx(scores["score"].mean())
    expected = interval(np.mean(draws, axis=0))
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=0.3)
    assert mean_scores(SCORES.empty(), {"mean": ["set 0"]}).equals(SCORES.empty())
