"""Metrics and their intervals, held against scikit-learn and SciPy."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from decomposerl.evaluation.metrics import (
    BINS,
    LEAST_UNITS,
    NAMES,
    NONE,
    Codes,
    Estimate,
    Unread,
    auroc,
    balanced_accuracy,
    bin_numbers,
    bootstrapped,
    brier,
    calibration_error,
    difference_interval,
    mean_of,
    of_sums,
    ratio,
    share,
    shared_evidence,
    verdict_estimates,
)
from strategies import LAW

verdict_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60)
chance = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1)
scored = st.lists(st.tuples(chance, st.booleans()), min_size=1, max_size=80)


UNREAD: tuple[Unread, ...] = ("opposite", "class")


@LAW
@given(st.sampled_from((2, 3, 4)), st.sampled_from(UNREAD), verdict_rows)
def test_metrics_of_verdicts_equal_the_reference(
    classes: int, unread: Unread, rows: list[tuple[int, int]]
):
    """A missing verdict is a class that no label has, or two-way the other label: wrong."""
    labels, verdicts = np.minimum(np.array(rows), (classes - 1, classes)).T
    places, names = np.arange(len(labels)), [*NAMES, "3"][:classes]
    estimates = verdict_estimates(labels, verdicts, places, names, unread)
    found = {name: estimate.value for name, estimate in estimates.items()}
    every = {"labels": list(range(classes)), "average": None}
    lenient = np.where(verdicts == classes, 1, verdicts)
    other = (verdicts == classes) & (classes == 2 and unread == "opposite")
    said = np.where(other, 1 - labels, verdicts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference warns of a class without labels
        kinds = {
            "recall": reference.recall_score(labels, said, **every, zero_division=np.nan),
            "precision": reference.precision_score(labels, said, **every, zero_division=0.0),
            "f1": reference.f1_score(labels, said, **every, zero_division=np.nan),
        }
        as_refuted = reference.recall_score(labels, lenient, **every, zero_division=np.nan)
    expected = {
        "balanced_accuracy": kinds["recall"].mean(),
        "balanced_accuracy_as_refuted": as_refuted.mean(),
        "macro_f1": kinds["f1"].mean(),
        "accuracy": np.mean(labels == verdicts),
    }
    for kind, values in kinds.items():
        expected |= {f"{kind}_{n}": value for n, value in zip(names, values, strict=True)}
    assert expected == pytest.approx(found, nan_ok=True, abs=1e-12)
    alone = balanced_accuracy(labels, verdicts, classes)
    assert alone == pytest.approx(expected["balanced_accuracy"], nan_ok=True)


@given(scored)
def test_auroc_equals_the_reference(rows: list[tuple[float, bool]]):
    """With ties; without both sides it is not defined."""
    scores, positive = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = auroc(scores, positive, np.arange(len(rows))).value
    if positive.all() or not positive.any():
        assert math.isnan(found)
    else:
        assert reference.roc_auc_score(positive, scores) == pytest.approx(found, abs=1e-12)


@given(scored, st.integers(1, 12), st.randoms(use_true_random=False))
def test_bins_of_equal_mass(rows: list[tuple[float, bool]], bins: int, shuffler: object):
    """Equal probabilities share a bin, bins are in order, and no order of rows matters.

    Without rows nothing is defined.
    """
    chances, happened = map(np.array, zip(*rows, strict=True))
    numbers = bin_numbers(chances, bins)
    order = np.lexsort((numbers, chances))
    assert (np.diff(numbers[order]) >= 0).all()
    assert all(len(set(numbers[chances == chance].tolist())) == 1 for chance in chances)
    assert 0 <= numbers.min() <= numbers.max() < bins
    shuffled = list(range(len(rows)))
    shuffler.shuffle(shuffled)
    error = calibration_error(chances, happened)
    assert error == pytest.approx(calibration_error(chances[shuffled], happened[shuffled]))
    assert np.isnan(
        [measure(chances[:0], happened[:0]) for measure in (brier, calibration_error)]
    ).all()


@given(st.lists(st.booleans(), min_size=BINS, max_size=4 * BINS))
def test_calibration_equals_the_reference(happened: list[bool]):
    """Brier score and the error over bins of equal size, from the reference's own curve."""
    rows = len(happened) // BINS * BINS
    chances, right = (np.arange(rows) + 0.5) / rows, np.array(happened[:rows])
    assert reference.brier_score_loss(right, chances) == pytest.approx(brier(chances, right))
    true, said = calibration_curve(right.astype(int), chances, n_bins=BINS, strategy="quantile")
    assert np.abs(true - said).mean() == pytest.approx(calibration_error(chances, right))


Row = tuple[int, int, int | None]
shared_row = st.tuples(st.integers(0, 1), st.integers(0, 2), st.none() | st.integers(0, 4))
ROWS = st.lists(shared_row, max_size=40)


def parts(rows: list[Row]) -> tuple[Codes, Codes, Codes]:
    """Labels, verdicts and numbers of evidence."""
    labels, verdicts = (np.array([row[index] for row in rows], dtype=np.int64) for index in (0, 1))
    return labels, verdicts, shared_evidence([row[2] for row in rows])


@given(ROWS)
def test_a_document_is_one_piece_of_evidence(rows: list[Row]):
    """Claims share a number exactly where they share a document; without one they share none."""
    names = [place if row[2] is None else str(row[2]) for place, row in enumerate(rows)]
    numbers = shared_evidence([row[2] for row in rows]).tolist()
    assert len({*names}) == len({*zip(names, numbers, strict=True)}) == len({*numbers})


@LAW
@given(ROWS)
def test_an_interval_holds_its_figure_and_is_never_a_point(rows: list[Row]):
    """Within 0..1 and around the score, whatever is right, missing or shared; none without one."""
    for value, low, high, *_ in verdict_estimates(*parts(rows)).values():
        if math.isnan(value):
            assert np.isnan([low, high]).all()
        else:
            assert 0 <= low <= value + 1e-12
            assert value - 1e-12 <= high <= 1
            assert low < high


@LAW
@given(ROWS, st.lists(st.integers(0, 2), min_size=40, max_size=40))
def test_a_difference_is_that_of_the_other_side_turned(rows: list[Row], others: list[int]):
    """Swapped systems give the mirrored interval; it is never a point."""
    labels, verdicts, evidence = parts(rows)
    theirs = np.array(others[: len(rows)], dtype=np.int64)
    low, high = difference_interval(labels, verdicts, theirs, evidence)
    back = difference_interval(labels, theirs, verdicts, evidence)
    if len(set(labels.tolist())) < 2:
        assert math.isnan(low)
    else:
        assert (-high, -low) == pytest.approx(back)
        assert -1 <= low < high <= 1


@pytest.mark.parametrize(("right", "rows"), [(0, 4), (4, 4), (7, 10), (93, 100)])
def test_a_recall_has_the_interval_of_scipy(right: int, rows: int):
    """Wilson's, where no claims share a document."""
    labels = np.array([0] * rows + [1] * 3)
    verdicts = np.array([0] * right + [NONE] * (rows - right) + [1] * 3)
    expected = stats.binomtest(right, rows).proportion_ci(method="wilson")
    found = verdict_estimates(labels, verdicts, np.arange(rows + 3))["recall_supported"]
    assert (right / rows, expected.low, expected.high) == pytest.approx(found[:3])
    of_rows = share(verdicts[:rows] == 0, np.ones(rows), np.arange(rows))
    assert found[:3] == pytest.approx(of_rows[:3])


def test_a_mean_of_independent_figures_narrows_by_their_root():
    """Distances to the bounds are added in squares."""
    assert (0.45, 0.6) == pytest.approx(mean_of([Estimate(0.5, 0.4, 0.7)] * 4)[1:3])


sized = st.tuples(st.integers(0, 9), st.integers(1, 5))


@given(st.lists(sized, min_size=2, max_size=60))
def test_a_ratio_has_the_jackknife_of_scipy(rows: list[tuple[int, int]]):
    """Student's t over documents; none below 30 of them, or where leaving one out changes nothing.

    Of one amount a claim it is Student's interval of a mean.
    """
    amounts, of = np.array(rows, dtype=float).T
    places = np.arange(len(rows))
    value, low, high, *_ = ratio(amounts, of, places)
    assert value == pytest.approx(amounts.sum() / of.sum())
    without = [np.delete(amounts, one).sum() / np.delete(of, one).sum() for one in places]
    error = math.sqrt((len(rows) - 1) ** 2 / len(rows)) * np.std(without, ddof=1)
    if len(rows) < LEAST_UNITS or error < 1e-9:
        assert math.isnan(low)
        assert math.isnan(high)
        return
    expected = stats.t.interval(0.95, len(rows) - 1, value, error)
    assert expected == pytest.approx((low, high))
    twice = ratio(np.repeat(amounts, 2), np.repeat(of, 2), np.repeat(places, 2))
    assert twice[:3] == pytest.approx((value, low, high))  # claims of a document count once
    if amounts.std():
        plain = stats.t.interval(0.95, len(rows) - 1, amounts.mean(), stats.sem(amounts))
        assert plain == pytest.approx(ratio(amounts, np.ones(len(rows)), places)[1:3])


ranked = st.lists(st.tuples(chance, st.booleans(), st.integers(0, 5)), max_size=40)


@LAW
@given(ranked)
def test_an_auroc_has_room_around_it_where_both_sides_have_documents(rows: list):
    """Turned scores mirror the interval; order and monotone scales do not matter."""
    scores, positive, documents = (np.array([row[n] for row in rows]) for n in range(3))
    if not len(rows) or positive.all() or not positive.any():
        return
    value, low, high, *_ = auroc(scores, positive, documents)
    if min(len({*documents[positive]}), len({*documents[~positive]})) < 2:
        assert math.isnan(low)
        return
    assert 0 <= low <= value <= high <= 1
    assert low < high
    turned = auroc(-scores, positive, documents)
    assert (1 - value, 1 - high, 1 - low) == pytest.approx(turned[:3])
    assert (value, low, high) == pytest.approx(auroc(scores**3 + scores, positive, documents)[:3])


@pytest.mark.parametrize(("rows", "size", "level"), [(12, 1, 0.9), (60, 1, 0.8), (100, 5, 0.6)])
def test_an_auroc_is_covered(rows: int, size: int, level: float):
    """In 93 to 99 of 100 samples, few claims and shared documents included."""
    rng = np.random.default_rng(8)
    documents, positive = np.arange(rows) // size, np.arange(rows) % 2 == 0
    lead = math.sqrt(2) * stats.norm.ppf(level)
    covered = 0
    for _ in range(400):
        common = rng.normal(size=rows)[documents] * math.sqrt(0.3 * (size > 1))
        noise = common + rng.normal(size=rows) * math.sqrt(1 - 0.3 * (size > 1))
        estimate = auroc(noise + lead * positive, positive, documents)
        covered += estimate.low <= level <= estimate.high
    assert 0.93 <= covered / 400 <= 0.99


@pytest.mark.parametrize("by", [of_sums, bootstrapped])
def test_only_evidence_that_is_there_counts(by: Callable[..., Estimate]):
    """Claims of a slice keep the numbers of their evidence; those that are absent add nothing."""
    for sums in (np.array([np.arange(pieces) % 7, np.ones(pieces)]) for pieces in (10, 60)):
        every = (np.pad(sums, ((0, 0), (absent, 0))) for absent in (0, 1_000))
        near, far = (by(lambda drawn: drawn[0] / drawn[1], one) for one in every)
        assert near[:3] == pytest.approx(far[:3], nan_ok=True)
        assert math.isnan(far.low) == (sums.shape[1] < LEAST_UNITS)
