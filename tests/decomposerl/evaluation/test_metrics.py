"""Metrics equal scikit-learn's on random inputs, and are honest where nothing is defined."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from decomposerl.evaluation.metrics import (
    COUNT_METRICS,
    Codes,
    as_refuted,
    auroc,
    balanced_accuracy,
    bin_numbers,
    brier,
    calibration_error,
    codes_of,
    indicators,
    outcome_table,
    recall,
)

outcomes = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=60).map(
    lambda rows: np.array([(0, 0), (1, 1), *rows]) if rows[0][1] == 0 else np.array(rows)
)
scored = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1), st.booleans()),
    min_size=1,
    max_size=80,
)


def has_both(labels: Codes) -> bool:
    return set(labels.tolist()) == {0, 1}


@given(outcomes)
def test_metrics_of_verdicts_equal_the_reference(rows: Codes):
    """A missing verdict is a third class that no label has, and so always wrong."""
    labels, verdicts = rows.T
    if not has_both(labels):
        return
    table = outcome_table(labels, verdicts)
    found = {name: float(metric(table)) for name, metric in COUNT_METRICS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference warns of a class without labels
        every = {"labels": [0, 1], "average": None, "zero_division": 0.0}
        recalls = reference.recall_score(labels, verdicts, **every)
        precisions = reference.precision_score(labels, verdicts, **every)
        f1s = reference.f1_score(labels, verdicts, **every)
        lenient = np.where(verdicts == 2, 1, verdicts)
        expected = {
            "balanced_accuracy": reference.balanced_accuracy_score(labels, verdicts),
            "balanced_accuracy_as_refuted": reference.balanced_accuracy_score(labels, lenient),
            "recall_supported": recalls[0],
            "recall_refuted": recalls[1],
            "precision_supported": precisions[0],
            "precision_refuted": precisions[1],
            "f1_supported": f1s[0],
            "f1_refuted": f1s[1],
            "macro_f1": f1s.mean(),
            "accuracy": reference.accuracy_score(labels, verdicts),
        }
    assert expected == pytest.approx(found, nan_ok=True, abs=1e-12)


@given(scored)
def test_auroc_equals_the_reference(rows: list[tuple[float, bool]]):
    """With ties; without both sides it is not defined."""
    scores, positive = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = auroc(scores, positive)
    if positive.all() or not positive.any():
        assert math.isnan(found)
    else:
        assert reference.roc_auc_score(positive, scores) == pytest.approx(found, abs=1e-12)


@given(scored, st.integers(1, 12))
def test_calibration_equals_the_reference(rows: list[tuple[float, bool]], bins: int):
    """Brier score and the error over bins of equal width, from the reference's own curve."""
    chances = np.array([row[0] for row in rows])
    happened = np.array([row[1] for row in rows])
    assert np.mean((chances - happened) ** 2) == pytest.approx(brier(chances, happened))
    true, said = calibration_curve(happened.astype(int), chances, n_bins=bins)
    sizes = np.bincount(bin_numbers(chances, "width", bins), minlength=bins)
    expected = (np.abs(true - said) * sizes[sizes > 0]).sum() / len(chances)
    assert expected == pytest.approx(calibration_error(chances, happened, "width", bins), abs=1e-9)


@given(scored, st.integers(1, 12), st.randoms(use_true_random=False))
def test_bins_of_equal_mass(rows: list[tuple[float, bool]], bins: int, shuffler: object):
    """Equal probabilities share a bin, bins are in order, and no order of rows matters."""
    chances = np.array([row[0] for row in rows])
    happened = np.array([row[1] for row in rows])
    numbers = bin_numbers(chances, "mass", bins)
    order = np.lexsort((numbers, chances))
    assert (np.diff(numbers[order]) >= 0).all()
    assert all(len(set(numbers[chances == chance].tolist())) == 1 for chance in chances)
    assert 0 <= numbers.min() <= numbers.max() < bins
    shuffled = list(range(len(rows)))
    shuffler.shuffle(shuffled)
    error = calibration_error(chances, happened, "mass", bins)
    again = calibration_error(chances[shuffled], happened[shuffled], "mass", bins)
    assert error == pytest.approx(again)


def test_bins_of_equal_mass_are_equal_where_no_two_are_alike():
    """Thirty distinct probabilities make fifteen bins of two."""
    numbers = bin_numbers(np.linspace(0, 1, 30) ** 3, "mass", 15)
    assert [2] * 15 == np.bincount(numbers).tolist()


def test_calibration_error_of_known_cases():
    """Right three times in four at 0.75 is calibrated; sure and wrong is not at all."""
    said, right = np.full(8, 0.75), np.array([True, True, True, False] * 2)
    assert calibration_error(said, right) == pytest.approx(0)
    assert calibration_error(np.ones(4), np.zeros(4, dtype=bool)) == pytest.approx(1)


def test_what_is_not_defined_is_nan():
    """No claims of a label, no rows, no questions: NaN and never 0."""
    one_label = outcome_table(np.array([0, 0]), np.array([0, 2]))
    assert recall(one_label, 0) == pytest.approx(0.5)
    assert math.isnan(float(recall(one_label, 1)))
    assert math.isnan(float(balanced_accuracy(one_label)))
    none = np.array([])
    assert math.isnan(brier(none, none.astype(bool)))
    assert math.isnan(calibration_error(none, none.astype(bool)))
    assert math.isnan(auroc(np.array([0.1]), np.array([True])))


@given(outcomes)
def test_tables_are_sums_of_indicators(rows: Codes):
    """Resampled sums of indicator rows are tables, and metrics take many tables at once."""
    labels, verdicts = rows.T
    table = outcome_table(labels, verdicts)
    assert (indicators(labels, verdicts).sum(axis=0).reshape(2, 3) == table).all()
    both = np.stack([table, as_refuted(table)])
    for metric in COUNT_METRICS.values():
        expected = [float(metric(table)), float(metric(as_refuted(table)))]
        assert expected == pytest.approx(metric(both).tolist(), nan_ok=True)


def test_an_unknown_word_is_no_verdict():
    """Only the two labels and None are read; any other word is a mistake of the caller."""
    assert [0, 1, 2] == codes_of(["Supported", "Refuted", None]).tolist()
    with pytest.raises(KeyError):
        codes_of(["supported"])
