"""Predictions of the user: spellings, thresholds, what cannot be read, groups and filters."""

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn.metrics import f1_score

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import Spellings, normal
from decomposerl.evaluation.external import CLAIMS, score_claims
from decomposerl.evaluation.metrics import Unread, codes_of
from decomposerl.evaluation.threshold import Threshold, choose_threshold, combined
from decomposerl.traces.trace import Verdict
from metrics_parts import ONES, metrics, write
from strategies import LAW

chance = st.sampled_from([0.0, 0.3, 0.5, 1.0]) | st.floats(0, 1) | st.just(math.nan)
scored = st.lists(st.tuples(chance, st.integers(0, 1)), min_size=1, max_size=30)


def test_cells_spell_labels():
    """Case, space, joints between letters and marks around a word do not matter."""
    spelled: dict[str | None, list[object]] = {
        "Supported": ["SUPPORTS", True, 1, "1.0", "Supported.", "**Supported**", '"yes"', "(true)"],
        "Refuted": [" Not_Supported ", "not-supported", False, 0.0, "`refuted`", "_no_!"],
        None: ["1.5", 0.5, None, "", [1], {}, "unsure", "-1", -1, -1.0, "1_0", "1-0", "**", "."],
    }
    read = Spellings.of().read
    for expected, cells in spelled.items():
        assert [] == [cell for cell in cells if read(cell) != expected]
    signed = Spellings.of(["1"], ["-1"])  # a negative number is what it is said to be
    assert {"Refuted"} == {signed.read(cell) for cell in ("-1", -1, -1.0, " -1.0 ")}
    assert "Supported" == signed.read("1")


@given(st.text())
def test_a_word_is_spelled_in_one_way(text: str):
    """Spelling it again changes nothing, so that what is listed can be given as an option."""
    assert normal(text) == normal(normal(text))


def test_a_spelling_has_one_meaning():
    """What a person gives to one side leaves the usual list of the other; '*' is any word."""
    turned = Spellings.of(supported=["false"])
    assert ["Supported", None, "Refuted"] == [turned.read(cell) for cell in ("false", "yes", "no")]
    rest = Spellings.of(["supported"], ["*"])
    assert ["Refuted", None, None] == [rest.read(cell) for cell in ("half", "", None)]
    with pytest.raises(EvaluationError, match="true"):
        Spellings.of(["True"], ["true"])


def test_a_threshold_is_a_number_or_what_chooses_it():
    """The way that it is written says whether scores at it count."""
    read = Threshold.of
    assert [Threshold(0.5), Threshold(-2.0, inclusive=True)] == [read("0.5"), read(">= -2")]
    assert Threshold(0.0) == read("0")
    forms = read("f1"), read("f1:midpoints"), read(">=balanced_accuracy:hundredths")
    assert [("f1", "midpoints", False)] * 2 + [("balanced_accuracy", "hundredths", True)] == [
        (form.by, form.candidates, form.inclusive) for form in forms
    ]
    for text in ("", "nan", "inf", "f2", "f1:tenths", "0.5:scores", ">", "<0.5"):
        with pytest.raises(EvaluationError, match="--threshold"):
            read(text)


@given(scored, st.sampled_from(["f1", "balanced_accuracy"]), st.booleans())
def test_no_threshold_is_better(
    rows: list[tuple[float, int]],
    by: str,
    inclusive: bool,  # noqa: FBT001 - drawn
):
    """Among midpoints is one as good as any number; the value is that of its verdicts."""
    scores, labels = map(np.array, zip(*rows, strict=True))
    wanted = Threshold(inclusive=inclusive, by=by)
    if np.isnan(scores).all() or len(set(labels.tolist())) < 2:
        with pytest.raises(EvaluationError, match="labels"):
            choose_threshold(scores, labels, wanted)
        return

    def reached(threshold: Threshold) -> float:
        said = threshold.verdicts(scores)
        if by == "f1":
            return f1_score(labels == 0, said == 0)
        return np.mean([(said[labels == label] == label).mean() for label in (0, 1)])

    found, value = choose_threshold(scores, labels, wanted)
    assert reached(found) == pytest.approx(value)
    for cut in [-1.0, *np.linspace(0, 1, 41).tolist(), 2.0]:
        assert reached(Threshold(cut, inclusive)) <= value + 1e-12


def test_what_it_is_chosen_from():
    """The lowest that parts 0.2 from 0.6: a score, the point between, a hundredth."""
    scores, labels = np.array([0.1, 0.2, 0.6, 0.9]), np.array([1, 1, 0, 0])
    lowest = {"scores": 0.2, "midpoints": 0.4, "hundredths": 0.2}
    for candidates, expected in lowest.items():
        found, value = choose_threshold(scores, labels, Threshold(by="f1", candidates=candidates))
        assert (found.value, value) == (pytest.approx(expected), 1.0)


def test_a_score_at_the_threshold():
    """Strictly above, unless it is said to be inclusive; no score gives no verdict."""
    scores = np.array([0.5, 0.6, math.nan])
    assert [1, 0, 2] == Threshold(0.5).verdicts(scores).tolist()
    assert [0, 0, 2] == Threshold(0.5, inclusive=True).verdicts(scores).tolist()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_several_scores_combine_in_any_order(values: list[float], shuffler: object):
    """Largest, mean and least, the same however the rows were ordered."""
    assert combined(values, "max") == max(values)
    assert combined(values, "min") == min(values)
    mean = combined(values, "mean")
    assert mean == pytest.approx(np.mean(values))
    moved = list(values)
    shuffler.shuffle(moved)
    assert mean == combined(moved, "mean")


@pytest.mark.parametrize("size", [1e308, math.nextafter(math.inf, 0), 1e-308])
def test_numbers_near_the_end_of_their_range(size: float):
    """Means and thresholds stay numbers, and a threshold still parts the labels."""
    assert size == combined([size] * 3, "mean")
    assert 0.0 == combined([size, size, -size, -size], "mean")
    scores, labels = np.array([-size, -size, size]), np.array([1, 1, 0])
    for candidates in ("midpoints", "scores", "hundredths"):
        found, value = choose_threshold(
            scores, labels, Threshold(by="balanced_accuracy", candidates=candidates)
        )
        assert math.isfinite(found.value)
        assert (value, [1, 1, 0]) == (1.0, found.verdicts(scores).tolist())
    turned, value = choose_threshold(
        scores[::2], np.array([0, 1]), Threshold(inclusive=True, by="f1")
    )
    assert (2 / 3, [0, 0]) == (value, turned.verdicts(scores[::2]).tolist())


OTHER: dict[Verdict | None, Verdict] = {"Supported": "Refuted", "Refuted": "Supported"}
Pairs = list[tuple[Verdict, Verdict | None]]
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(("Supported", "Refuted"))
pairs = st.lists(st.tuples(verdicts, st.none() | verdicts), min_size=2, max_size=30)


def claims_of(pairs: Pairs, documents: Sequence[str | None] = (None,) * 30) -> pl.DataFrame:
    codes = [codes_of(side) for side in zip(*pairs, strict=True)]
    size = len(pairs)
    return pl.DataFrame([*codes, [math.nan] * size, [""] * size, documents[:size]], CLAIMS)


@given(pairs, st.lists(st.none() | st.sampled_from("abc"), min_size=30, max_size=30))
@LAW
def test_intervals_are_of_the_treated_verdicts(pairs: Pairs, documents: list[str | None]):
    """Those of the same file with the treatment written into it; each holds its score."""
    by_hand: dict[Unread, Pairs] = {
        "opposite": [(label, said or OTHER[label]) for label, said in pairs],
        "leave-out": [(label, said) for label, said in pairs if said],
    }
    kept = [document for document, (_, said) in zip(documents, pairs, strict=False) if said]
    shared = pl.col("metric") != "balanced_accuracy_as_refuted"  # reads what is missing itself
    for unread in get_args(Unread):
        frame = score_claims(claims_of(pairs, documents), unread=unread)
        sums = frame.drop_nulls("score").filter(pl.col("low") < pl.col("high"))
        assert sums.height == frame["score"].count()
        assert sums.filter(pl.col("score").is_between("low", "high").not_()).is_empty()
        if treated := by_hand.get(unread):
            own = kept if unread == "leave-out" else documents
            plain = score_claims(claims_of(treated, own), unread="class")
            names = ["metric", "score", "low", "high"]
            assert_frame_equal(frame.filter(shared)[names], plain.filter(shared)[names])


def test_combinations_are_never_confused(tmp_path: Path):
    """One group for each combination that there is; values with slashes make different names."""
    values = [("a / b", "c"), ("a", "b / c"), ("a/", "b"), ("a", "/ b"), ("a\\", "b"), ("a", True)]
    pairs = product(enumerate(values), (0, 1))
    rows = [{"id": f"{n}-{k}", "label": k, "v": k, "p": p, "q": q} for (n, (p, q)), k in pairs]
    file = write(tmp_path / "rows.jsonl", rows)
    page = json.loads(metrics(file, "--verdict", "v", "--group", "p,q", *ONES, "--json").stdout)
    groups = {row["group"]: row["claims"] for row in page["metrics"] if row["kind"] == "group"}
    assert (6, {2}) == (len(groups), set(groups.values()))
    assert "a / true" in groups
