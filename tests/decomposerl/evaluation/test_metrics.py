"""Metrics, their draws and intervals, held against scikit-learn and SciPy."""

import math
import warnings
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from decomposerl.evaluation.external import CLAIMS, score_claims
from decomposerl.evaluation.intervals import (
    Clusters,
    auroc_draws,
    clusters_of,
    difference_interval,
    generator,
    interval,
    mean_interval,
    metric_interval,
    resampled_sums,
    safe_interval,
    share_interval,
)
from decomposerl.evaluation.metrics import (
    COUNT_METRICS,
    NONE,
    Codes,
    auroc,
    balanced_accuracy,
    bin_numbers,
    brier,
    calibration_error,
    codes_of,
    count_metrics,
    indicators,
    outcome_table,
)
from decomposerl.reports.system_report import metrics_text
from strategies import LAW

verdict_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60)
chance = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1)
scored = st.lists(st.tuples(chance, st.booleans()), min_size=1, max_size=80)


@LAW
@given(st.sampled_from((2, 3)), verdict_rows)
def test_metrics_of_verdicts_equal_the_reference(classes: int, rows: list[tuple[int, int]]):
    """Two-way and three-way; a missing verdict is a class that no label has: always wrong."""
    labels, verdicts = np.minimum(np.array(rows), (classes - 1, classes)).T
    table = outcome_table(labels, verdicts, classes)
    found = {name: float(metric(table)) for name, metric in count_metrics(classes).items()}
    every = {"labels": list(range(classes)), "average": None}
    lenient = np.where(verdicts == classes, 1, verdicts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference warns of a class without labels
        kinds = {
            "recall": reference.recall_score(labels, verdicts, **every, zero_division=np.nan),
            "precision": reference.precision_score(labels, verdicts, **every, zero_division=0.0),
            "f1": reference.f1_score(labels, verdicts, **every, zero_division=np.nan),
        }
        as_refuted = reference.recall_score(labels, lenient, **every, zero_division=np.nan)
    names = ("supported", "refuted", "not_enough_info")[:classes]
    expected = {
        "balanced_accuracy": kinds["recall"].mean(),
        "balanced_accuracy_as_refuted": as_refuted.mean(),
        "macro_f1": kinds["f1"].mean(),
        "accuracy": np.mean(labels == verdicts),
    }
    for kind, values in kinds.items():
        expected |= {f"{kind}_{n}": value for n, value in zip(names, values, strict=True)}
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
    chances, happened = map(np.array, zip(*rows, strict=True))
    assert np.mean((chances - happened) ** 2) == pytest.approx(brier(chances, happened))
    true, said = calibration_curve(happened.astype(int), chances, n_bins=bins)
    sizes = np.bincount(bin_numbers(chances, "width", bins), minlength=bins)
    expected = (np.abs(true - said) * sizes[sizes > 0]).sum() / len(chances)
    assert expected == pytest.approx(calibration_error(chances, happened, "width", bins), abs=1e-9)


@given(scored, st.integers(1, 12), st.randoms(use_true_random=False))
def test_bins_of_equal_mass(rows: list[tuple[float, bool]], bins: int, shuffler: object):
    """Equal probabilities share a bin, bins are in order, and no order of rows matters."""
    chances, happened = map(np.array, zip(*rows, strict=True))
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


def test_what_is_not_defined_is_nan():
    """No claims of a label, no rows, no questions: NaN and never 0."""
    one_label = outcome_table(np.array([0, 0]), np.array([0, 2]))
    assert math.isnan(float(COUNT_METRICS["recall_refuted"](one_label)))
    assert math.isnan(float(balanced_accuracy(one_label)))
    none = np.array([])
    assert math.isnan(brier(none, none.astype(bool)))
    assert math.isnan(calibration_error(none, none.astype(bool)))
    assert math.isnan(auroc(np.array([0.1]), np.array([True])))


@given(verdict_rows)
def test_tables_are_sums_of_indicators(rows: list[tuple[int, int]]):
    """Resampled sums of indicator rows are tables, and metrics take many tables at once."""
    labels, verdicts = np.minimum(np.array(rows), (1, 2)).T
    table = outcome_table(labels, verdicts)
    assert (indicators(labels, verdicts).sum(axis=0).reshape(2, 3) == table).all()
    both = np.stack([table, 2 * table[:, ::-1]])
    for metric in COUNT_METRICS.values():
        expected = [float(metric(one)) for one in both]
        assert expected == pytest.approx(metric(both).tolist(), nan_ok=True)


def test_an_unknown_word_is_no_verdict():
    """Only the two labels and None are read; any other word is a mistake of the caller."""
    assert [0, 1, 2] == codes_of(["Supported", "Refuted", None]).tolist()
    with pytest.raises(KeyError):
        codes_of(["supported"])


DRAWS = 4_000


def outcomes(seed: int, rows: int) -> tuple[Codes, Codes]:
    """Labels and verdicts, three in four right, some missing."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.4).astype(np.int64)
    verdicts = np.where(rng.random(rows) < 0.75, labels, rng.integers(0, 3, rows))
    return labels, verdicts


def by_loop(columns: Codes, clusters: Clusters, rng: np.random.Generator, draws: int) -> list:
    """The definition: clusters of each stratum drawn with replacement, one draw at a time."""
    members = [np.flatnonzero(clusters.of_row == number) for number in range(clusters.count)]
    found = []
    for _ in range(draws):
        picked = [rng.integers(a, b, b - a) for a, b in pairwise(clusters.starts)]
        rows = np.concatenate([members[number] for number in np.concatenate(picked)])
        found.append(columns[rows].sum(axis=0))
    return found


@pytest.mark.parametrize("documents", [None, 30, 9])
def test_draws_have_the_distribution_of_the_loop(documents: int | None):
    """Means, spread and quantiles of balanced accuracy agree, with and without documents."""
    labels, verdicts = outcomes(3, 60)
    names = None if documents is None else [row * 7 % documents for row in range(60)]
    clusters = clusters_of(labels, names)
    cells = indicators(labels, verdicts)
    fast = resampled_sums(cells, clusters, generator(1, "fast"), DRAWS)
    slow = np.array(by_loop(cells, clusters, generator(1, "slow"), DRAWS))
    assert fast.mean(axis=0) == pytest.approx(slow.mean(axis=0), abs=0.35)
    assert fast.std(axis=0) == pytest.approx(slow.std(axis=0), rel=0.08, abs=0.05)
    ours, theirs = (balanced_accuracy(sums.reshape(-1, 2, 3)) for sums in (fast, slow))
    assert stats.ks_2samp(ours, theirs).pvalue > 0.001


claim_rows = st.tuples(st.integers(0, 1), st.integers(0, 4) | st.none())


@given(st.lists(claim_rows, min_size=1, max_size=25))
def test_clusters_keep_documents_together_and_labels_apart(rows: list[tuple[int, int | None]]):
    """A document is one cluster; strata follow each other and hold one mix of labels each."""
    labels = np.array([label for label, _ in rows])
    documents = [document for _, document in rows]
    clusters = clusters_of(labels, documents)
    named = {document for document in documents if document is not None}
    assert clusters.count == len(named) + documents.count(None)
    for document in named:
        held = {clusters.of_row[row] for row, one in enumerate(documents) if one == document}
        assert 1 == len(held)
    mixes = []
    for start, stop in pairwise(clusters.starts):
        held = {frozenset(labels[clusters.of_row == n].tolist()) for n in range(start, stop)}
        assert 1 == len(held)
        mixes += held
    assert len(mixes) == len(set(mixes))


@given(st.integers(1, 40), st.integers(0, 5))
def test_without_documents_the_labels_keep_their_numbers(rows: int, seed: int):
    """Each draw has as many claims of each label as there are: no draw lacks a recall."""
    labels, verdicts = outcomes(seed, rows)
    drawn = resampled_sums(indicators(labels, verdicts), clusters_of(labels), generator(seed), 50)
    found = drawn.reshape(-1, 2, 3).sum(axis=2)
    assert (found == outcome_table(labels, verdicts).sum(axis=1)).all()


def test_the_same_seed_and_names_give_the_same_draws():
    """Figures are reproducible, and those of other names are drawn independently."""
    labels, verdicts = outcomes(1, 50)
    cells, clusters = indicators(labels, verdicts), clusters_of(labels)
    drawn_for = (generator(42, "hover", name) for name in ("simple", "simple", "cot"))
    first, again, other = (resampled_sums(cells, clusters, one, 20) for one in drawn_for)
    assert (first == again).all()
    assert (first != other).any()


def test_auroc_is_drawn_as_its_definition():
    """Each draw is the AUROC of the drawn rows, ties half; without one side it is NaN."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 40)
    scores = np.round(rng.random(40) + 0.3 * labels, 1)
    clusters = clusters_of(labels, (np.arange(40) // 3).tolist())
    drawn = auroc_draws(scores, labels == 1, clusters, generator(0), DRAWS)
    slow = []
    for picked in by_loop(np.eye(40, dtype=int), clusters, generator(1), 2_000):
        again = np.repeat(np.arange(40), picked)
        slow.append(auroc(scores[again], labels[again] == 1))
    assert drawn.mean() == pytest.approx(np.mean(slow), abs=0.01)
    assert stats.ks_2samp(drawn, slow).pvalue > 0.001
    assert np.isnan(auroc_draws(scores, labels == 5, clusters, generator(0), 3)).all()


def test_draws_without_a_value_are_left_out():
    """NaN draws do not count; where all are NaN there is no interval."""
    assert interval(np.array([np.nan, 1.0, 2.0, np.nan]), 1.0) == (1.0, 2.0)
    assert all(math.isnan(bound) for bound in interval(np.array([np.nan])))
    assert all(math.isnan(bound) for bound in interval(np.array([])))


Row = tuple[int, int, int | None]
shared_row = st.tuples(st.integers(0, 1), st.integers(0, 2), st.none() | st.integers(0, 4))
ROWS = st.lists(shared_row, max_size=40)


def parts(rows: list[Row]):
    """Labels, verdicts and clusters."""
    labels, verdicts = (np.array([row[index] for row in rows], dtype=np.int64) for index in (0, 1))
    return labels, verdicts, clusters_of(labels, [row[2] for row in rows])


@LAW
@given(ROWS)
def test_an_interval_holds_its_figure_and_is_never_a_point(rows: list[Row]):
    """Within 0..1 and around the score, whatever is right, missing or shared; none without one."""
    labels, verdicts, clusters = parts(rows)
    for name, metric in count_metrics().items():
        value = float(metric(outcome_table(labels, verdicts)))
        low, high = metric_interval(name, labels, verdicts, clusters)
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
    labels, verdicts, clusters = parts(rows)
    theirs = np.array(others[: len(rows)], dtype=np.int64)
    low, high = difference_interval(labels, verdicts, theirs, clusters)
    back = difference_interval(labels, theirs, verdicts, clusters)
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
    found = metric_interval("recall_supported", labels, verdicts, clusters_of(labels))
    assert (expected.low, expected.high) == pytest.approx(found)


def test_one_document_is_one_claim():
    """Claims that stand or fall together are worth their documents, all right or not."""
    labels = np.repeat([0, 1], 100)
    rng = np.random.default_rng(1)
    documents = np.repeat(np.arange(20), 10).tolist()
    for lucky in (np.ones(20, dtype=bool), rng.random(20) < 0.7):
        verdicts = np.where(np.repeat(lucky, 10), labels, 1 - labels)
        both = clusters_of(labels), clusters_of(labels, documents)
        bounds = [metric_interval("balanced_accuracy", labels, verdicts, one) for one in both]
        assert np.diff(bounds[1]) > 2 * np.diff(bounds[0])


def test_shares_and_means():
    """A rate is Wilson's over its claims; a mean of independent figures narrows by their root."""
    hits, of = np.array([1, 0, 1, 0]), np.ones(4)
    expected = stats.binomtest(2, 4).proportion_ci(method="wilson")
    found = share_interval(hits, of, clusters_of(np.zeros(4, dtype=np.int64)))
    assert (expected.low, expected.high) == pytest.approx(found)
    assert (0.45, 0.6) == pytest.approx(mean_interval([0.5] * 4, [0.4] * 4, [0.7] * 4))


def test_the_bootstrap_gives_no_interval_that_it_does_not_know():
    """Of too few documents, and of draws without spread, there is none."""
    draws = np.linspace(0, 1, 100)
    assert (0.025, 0.975) == pytest.approx(safe_interval(draws, 30))
    assert all(math.isnan(bound) for bound in safe_interval(draws, 29))
    assert all(math.isnan(bound) for bound in safe_interval(np.ones(100), 500))


def test_four_right_of_four_have_an_interval_that_the_command_shows():
    """Two of either label: the lower bound is what two recalls of 34 to 100 % leave."""
    labels = np.array([0, 1, 0, 1])
    claims = pl.DataFrame([labels, labels, [math.nan] * 4, [""] * 4, [None] * 4], CLAIMS)
    frame = score_claims(claims)
    row = frame.filter(metric="balanced_accuracy").row(0, named=True)
    found = metric_interval("balanced_accuracy", labels, labels, clusters_of(labels))
    wilson = 2 / (2 + stats.norm.ppf(0.975) ** 2)
    assert (1 - (1 - wilson) / math.sqrt(2), 1) == pytest.approx(found)
    assert (row["low"], row["high"]) == pytest.approx([100 * bound for bound in found])
    shown = [line.split() for line in metrics_text(frame).splitlines()]
    assert ["balanced_accuracy", "100.00", "53.50", "–", "100.00"] in shown
