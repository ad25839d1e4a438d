"""Spellings and thresholds: what counts as which label, and where scores are cut."""

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import Spellings, normal
from decomposerl.evaluation.metrics import COUNT_METRICS, outcome_table
from decomposerl.evaluation.threshold import (
    Candidates,
    Threshold,
    ThresholdMetric,
    choose_threshold,
    combined,
)

scored = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.3, 0.5, 1.0]) | st.floats(0, 1) | st.just(math.nan),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=30,
)


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
    scores, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
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
    assert (size, 0.0) == (
        combined([size] * 3, "mean"),
        combined([size, size, -size, -size], "mean"),
    )
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
