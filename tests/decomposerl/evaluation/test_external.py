"""Predictions of the user: spellings, thresholds, what cannot be read, groups and filters."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn import metrics as reference

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import Spellings, normal
from decomposerl.evaluation.external import DrawSettings, labels_of, score_examples
from decomposerl.evaluation.intervals import clusters_of, metric_interval
from decomposerl.evaluation.matching import Example
from decomposerl.evaluation.metrics import COUNT_METRICS, Unread, codes_of, outcome_table
from decomposerl.evaluation.threshold import (
    Candidates,
    Threshold,
    ThresholdMetric,
    choose_threshold,
    combined,
)
from decomposerl.traces.trace import Verdict
from metrics_parts import metrics, refused, scores_of, write
from strategies import LAW

chance = st.sampled_from([0.0, 0.3, 0.5, 1.0]) | st.floats(0, 1) | st.just(math.nan)
scored = st.lists(st.tuples(chance, st.integers(0, 1)), min_size=1, max_size=30)


def test_cells_spell_labels():
    """Case, space, and joints between letters do not matter; what is in no list is none."""
    spelled: dict[str | None, list[object]] = {
        "Supported": ["SUPPORTS", True, 1, "1.0"],
        "Refuted": [" Not_Supported ", "not-supported", False, 0.0],
        "left_out": ["NOT ENOUGH INFO"],
        None: ["1.5", 0.5, None, "", [1], "unsure", "-1", -1, -1.0, "1_0", "1-0", "NOT - ENOUGH"],
    }
    read = Spellings.of(left_out=["not_enough_info"]).read
    for expected, cells in spelled.items():
        assert [] == [cell for cell in cells if read(cell) != expected]
    signed = Spellings.of(["1"], ["-1"])  # a negative number is what it is said to be
    assert {"Refuted"} == {signed.read(cell) for cell in ("-1", -1, -1.0, " -1.0 ")}
    assert "Supported" == signed.read("1")


def test_everything_else_is_not_nothing():
    """'*' takes any other word and still no empty cell."""
    rest = Spellings.of(["supported"], ["*"])
    assert ["Refuted", None, None] == [rest.read(cell) for cell in ("half", "", None)]
    assert "" == normal({})


def test_a_spelling_has_one_meaning():
    """What a person gives to one side leaves the usual list of the other."""
    turned = Spellings.of(supported=["false"])
    assert ["Supported", None, "Refuted"] == [turned.read(cell) for cell in ("false", "yes", "no")]
    with pytest.raises(EvaluationError, match="true"):
        Spellings.of(["True"], ["true"])


@given(scored, st.sampled_from(["f1", "balanced_accuracy"]), st.booleans())
def test_no_threshold_is_better(
    rows: list[tuple[float, int]],
    by: ThresholdMetric,
    inclusive: bool,  # noqa: FBT001 - drawn
):
    """Among midpoints is one as good as any number; the value is that of its verdicts."""
    scores, labels = map(np.array, zip(*rows, strict=True))
    if np.isnan(scores).all() or len(set(labels.tolist())) < 2:
        with pytest.raises(EvaluationError, match="labels"):
            choose_threshold(scores, labels, by, inclusive=inclusive)
        return
    measure = COUNT_METRICS["f1_supported" if by == "f1" else by]
    found, value = choose_threshold(scores, labels, by, inclusive=inclusive)
    reached = float(measure(outcome_table(labels, found.verdicts(scores))))
    assert reached == pytest.approx(value)
    for cut in [-1.0, *np.linspace(0, 1, 41).tolist(), 2.0]:
        other = Threshold(cut, inclusive).verdicts(scores)
        assert float(measure(outcome_table(labels, other))) <= value + 1e-12


def test_what_it_is_chosen_from():
    """The lowest that parts 0.2 from 0.6: a score, the point between, a hundredth."""
    scores, labels = np.array([0.1, 0.2, 0.6, 0.9]), np.array([1, 1, 0, 0])
    lowest: dict[Candidates, float] = {"scores": 0.2, "midpoints": 0.4, "hundredths": 0.2}
    for candidates, expected in lowest.items():
        found, value = choose_threshold(scores, labels, "f1", candidates)
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
    for candidates in get_args(Candidates):
        found, value = choose_threshold(scores, labels, "balanced_accuracy", candidates)
        assert math.isfinite(found.value)
        assert (value, [1, 1, 0]) == (1.0, found.verdicts(scores).tolist())
    turned, value = choose_threshold(scores[::2], np.array([0, 1]), "f1", inclusive=True)
    assert (2 / 3, [0, 0]) == (value, turned.verdicts(scores[::2]).tolist())


def test_the_ends_lie_beyond_every_score():
    """Even where adding one changes nothing: all claims can be Supported, strictly above."""
    found, value = choose_threshold(np.array([1e300, 2e300]), np.array([0, 1]), "f1")
    assert (2 / 3, [0, 0]) == (value, found.verdicts(np.array([1e300, 2e300])).tolist())


NO_DRAWS, ONE_DRAW = DrawSettings(0, 0), DrawSettings(1, 1)
OTHER: dict[Verdict, Verdict] = {"Supported": "Refuted", "Refuted": "Supported"}
LABELS = ["Supported", "Refuted"]
Pairs = list[tuple[Verdict, Verdict | None]]
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(("Supported", "Refuted"))
pairs = st.lists(st.tuples(verdicts, st.none() | verdicts), min_size=2, max_size=30)


def examples_of(pairs: Pairs, documents: Sequence[str | None] = (None,) * 30) -> list[Example]:
    return [
        Example((str(n),), label, said, float("nan"), "", documents[n])
        for n, (label, said) in enumerate(pairs)
    ]


def by_reference(gold: list[str], said: list[str]) -> dict[str, float]:
    """The metrics as scikit-learn computes them over the two labels."""
    every = {"labels": LABELS, "zero_division": 0.0}
    by_label = {
        name: getattr(reference, f"{name}_score")(gold, said, average=None, **every)
        for name in ("f1", "recall", "precision")
    }
    found = {"macro_f1": by_label["f1"].mean(), "balanced_accuracy": by_label["recall"].mean()}
    for name, (supported, refuted) in by_label.items():
        found |= {f"{name}_supported": supported, f"{name}_refuted": refuted}
    return found | {"accuracy": reference.accuracy_score(gold, said)}


@given(pairs)
@LAW
def test_each_treatment_is_scikit_learns(pairs: Pairs):
    """The other label, a word that is no label, or only the claims that were answered."""
    answered = [(label, said) for label, said in pairs if said is not None]
    readings: dict[Unread, list[tuple[Verdict, str]]] = {
        "opposite": [(label, said or OTHER[label]) for label, said in pairs],
        "class": [(label, said or "unread") for label, said in pairs],
        "leave-out": [(label, str(said)) for label, said in answered],
    }
    for unread, read in readings.items():
        if set(LABELS) != {label for label, _ in read}:
            continue  # metrics that nobody can earn are undefined here, 0 there
        expected = by_reference([label for label, _ in read], [said for _, said in read])
        frame = score_examples(examples_of(pairs), None, NO_DRAWS, unread)
        ours = dict(zip(frame["metric"], frame["score"], strict=True))
        assert expected == pytest.approx({name: (ours[name] or 0) / 100 for name in expected})


@given(pairs, st.lists(st.none() | st.sampled_from("abc"), min_size=30, max_size=30))
@LAW
def test_intervals_are_of_the_treated_verdicts(pairs: Pairs, documents: list[str | None]):
    """Those of the same file with the treatment written into it; each holds its score."""
    every = examples_of(pairs, documents)
    by_hand = {
        "opposite": [replace(one, verdict=one.verdict or OTHER[one.label]) for one in every],
        "class": every,
        "leave-out": [one for one in every if one.verdict],
    }
    shared = pl.col("metric") != "balanced_accuracy_as_refuted"  # reads what is missing itself
    for unread in get_args(Unread):
        frame = score_examples(every, None, ONE_DRAW, unread)
        sums = frame.drop_nulls("score").filter(pl.col("low") < pl.col("high"))
        assert sums.height == frame["score"].count()
        assert sums.filter(pl.col("score").is_between("low", "high").not_()).is_empty()
        if unread != "class":
            kept = ["metric", "score", "low", "high"]
            plain = score_examples(by_hand[unread], None, ONE_DRAW, "class")
            assert_frame_equal(frame.filter(shared)[kept], plain.filter(shared)[kept])
            continue
        labels = labels_of(every)
        codes = codes_of([one.verdict for one in every])
        clusters = clusters_of(labels, documents[: len(every)])
        for row in frame.iter_rows(named=True):
            bounds = metric_interval(row["metric"], labels, codes, clusters)
            percent = [0 if np.isnan(bound) else 100 * bound for bound in bounds]
            assert [row["low"] or 0, row["high"] or 0] == pytest.approx(percent)


def test_the_published_macro_f1_is_the_default_and_the_treatment_is_said(tmp_path: Path):
    """Three of four right and one unread: 73.3, where a verdict of its own gives 83.3."""
    rows = [{"id": n, "label": n % 2, "v": v} for n, v in enumerate(("0", "1", "0", "dunno"))]
    file = write(tmp_path / "rows.csv", rows)
    words = (file, file, "--verdict", "v")
    assert scores_of(*words)["macro_f1"] == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)
    for unread, macro_f1, said in (
        ("opposite", 100 * (4 / 5 + 2 / 3) / 2, "4 claims: 2 supported, 2 not; 1 without"),
        ("class", 100 * (1 + 2 / 3) / 2, "4 claims: 2 supported, 2 not; 1 without"),
        ("leave-out", 100, "3 claims: 1 supported, 2 not; 1 without"),
    ):
        asked = (*words, "--unread", unread)
        assert said in metrics(*asked).stdout
        assert unread == json.loads(metrics(*asked, "--json").stdout)["unread"]
        assert scores_of(*asked)["macro_f1"] == pytest.approx(macro_f1)


def test_a_missing_score_ranks_last_where_it_counts_as_the_opposite(tmp_path: Path):
    """AUROC follows the treatment too; a group without any verdict has no score to leave out."""
    chances, parts = (0.1, 0.9, None, None), "aaab"
    rows = [{"id": n, "label": n % 2, "p": p, "part": parts[n]} for n, p in enumerate(chances)]
    file = write(tmp_path / "rows.jsonl", rows)
    for unread, auroc in (("opposite", 25), ("class", 100), ("leave-out", 100)):
        words = (file, file, "--score", "p", "--unread", unread)
        assert scores_of(*words)["auroc"] == auroc
        alone = scores_of(*words, "--group", "part", group="b")["accuracy"]
        assert (0.0 if unread != "leave-out" else None) == alone


def test_labels_without_a_prediction_cannot_be_wrong_and_left_out(tmp_path: Path):
    """The two options contradict each other."""
    file = write(tmp_path / "rows.csv", [{"id": 1, "label": 1, "v": 1}])
    words = ("--missing wrong", "--unread leave-out")
    said = refused(file, file, "--verdict", "v", *" ".join(words).split())
    assert [] == [option for option in words if option not in said]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    rows = [
        {"id": n, "label": n % 2, "v": (n // 4) % 2, "set": "xy"[n % 3 == 0], "hops": n % 2 + 1,
         "model": None if n < 4 else "a/b", "ok": n % 2 == 0}
        for n in range(24)
    ]  # fmt: skip
    return write(tmp_path / "rows.jsonl", rows)


def groups_of(file: Path, *words: str) -> dict[str, int]:
    """The claims of each group that was asked for."""
    page = json.loads(metrics(file, file, "--verdict", "v", *words, "--json").stdout)["metrics"]
    return {row["group"]: row["claims"] for row in page if row["kind"] == "group"}


def test_groups_of_several_fields(parts: Path):
    """One group for each combination that there is, in either way of asking, booleans too."""
    sizes = {"x / 1": 8, "x / 2": 8, "y / 1": 4, "y / 2": 4}
    assert sizes == groups_of(parts, "--group", "set,hops")
    assert sizes == groups_of(parts, "--group", "set", "--group", "hops")
    named = {"x / true", "x / false", "y / true", "y / false"}
    assert named == set(groups_of(parts, "--group", "set,ok"))


def test_combinations_are_never_confused(tmp_path: Path):
    """Values with slashes make different names."""
    values = [("a / b", "c"), ("a", "b / c"), ("a/", "b"), ("a", "/ b"), ("a\\", "b"), ("a", "b")]
    pairs = product(enumerate(values), (0, 1))
    rows = [{"id": f"{n}-{k}", "label": k, "v": k, "p": p, "q": q} for (n, (p, q)), k in pairs]
    assert 6 == len(groups_of(write(tmp_path / "rows.jsonl", rows), "--group", "p,q"))


def test_rows_are_filtered_by_fields(parts: Path, tmp_path: Path):
    """Values of a field are alternatives, fields go together, values have types; by order too."""
    records = [json.loads(line) for line in parts.read_text().splitlines()]
    said = write(tmp_path / "said.jsonl", [{"id": r["id"], "v": r["v"]} for r in records])
    for words, claims in (
        (["set=y"], 8),
        (["set=y", "set=x"], 24),
        (["set=y", "hops=1"], 4),
        (["hops=1.0"], 12),
        (["set!=y"], 16),
        (["model=null"], 4),
        (["model="], 4),
        (["model!=null", "set=y"], 6),
        (["ok=TRUE"], 12),
        (["id=7"], 1),
    ):
        asked = [word for one in words for word in ("--where", one)]
        ways = [(parts,), (said,), (said, "--by-order"), (parts, "--by-order")]
        pages = []
        for file, *more in ways if len(words) > 1 else ways[:1]:
            result = metrics(file, parts, "--verdict", "v", *more, *asked, "--json")
            pages.append(json.loads(result.stdout)["metrics"])
        assert {claims} == {row["claims"] for page in pages for row in page}, words
        assert all(page == pages[0] for page in pages), words


def test_a_filter_tells_runs_of_one_file_apart(tmp_path: Path):
    """The same id may stand once a run: no file has to be cut by hand."""
    rows = [{"id": n, "label": n % 2, "v": n % 2, "run": "good"} for n in range(4)]
    rows += [row | {"v": 0, "run": "bad"} for row in rows]
    file = write(tmp_path / "runs.csv", rows)
    words = (file, file, "--verdict", "v")
    assert "stands in row" in refused(*words)
    assert 100 == scores_of(*words, "--where", "run=good")["accuracy"]
    assert 50 == scores_of(*words, "--where", "run=bad")["accuracy"]
    assert "4 labels that --where leaves out" in metrics(*words, "--where", "run=bad").stderr


def test_wrong_fields_are_named_with_the_nearest(parts: Path):
    """The file and what would be right stand in the sentence."""
    for words, named in (
        (("--where", "sett=y"), ("rows.jsonl", "field sett", " set?")),
        (("--where", "set"), ("FIELD=VALUE", "FIELD!=VALUE")),
        (("--where", "=y"), ("FIELD=VALUE",)),
        (("--where", "set=z"), ("--where", "set", "y, x")),
        (("--group", "sett"), (" set?",)),
        (("--group", ","), ("field",)),
        (("--unread", "none"), ("'opposite', 'class', 'leave-out'",)),
    ):
        output = refused(parts, parts, "--verdict", "v", *words).replace("│", " ")
        assert [] == [one for one in named if one not in " ".join(output.split())], words
