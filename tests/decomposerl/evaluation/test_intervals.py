"""Intervals in closed form: textbook values, never a point, narrower with more, wider together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from decomposerl.evaluation.bootstrap import clusters_of, safe_interval
from decomposerl.evaluation.external import score_examples
from decomposerl.evaluation.intervals import (
    difference_interval,
    mean_interval,
    metric_interval,
    share_interval,
    shares_of,
)
from decomposerl.evaluation.matching import Example
from decomposerl.evaluation.metrics import NONE, count_metrics, outcome_table
from decomposerl.reports.system_report import metrics_text
from strategies import LAW

Row = tuple[int, int, int | None]
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.none() | st.integers(0, 4)), max_size=40
)


def parts(rows: list[Row]):
    """Labels, verdicts and clusters."""
    labels, verdicts = (np.array([row[index] for row in rows], dtype=np.int64) for index in (0, 1))
    return labels, verdicts, clusters_of(labels, [row[2] for row in rows])


def test_every_metric_of_counts_is_a_mean_of_shares():
    """One more metric needs its shares, or it would have no interval; two-way and three-way."""
    rng = np.random.default_rng(7)
    for classes in (2, 3):
        table = rng.integers(1, 9, size=(classes, classes + 1))
        cells = table.ravel()
        for name, metric in count_metrics(classes).items():
            shares = shares_of(name, classes)
            parts = [cells[list(one.hits)].sum() / cells[list(one.of)].sum() for one in shares]
            found = [2 * j / (1 + j) if s.f1 else j for j, s in zip(parts, shares, strict=True)]
            assert float(metric(table)) == pytest.approx(float(np.mean(found))), name


@LAW
@given(ROWS)
def test_an_interval_holds_its_figure_and_is_never_a_point(rows: list[Row]):
    """Within 0..1 and around the score, whatever is right, missing or shared; none without one."""
    labels, verdicts, clusters = parts(rows)
    for name, metric in count_metrics().items():
        value = float(metric(outcome_table(labels, verdicts)))
        low, high = metric_interval(name, labels, verdicts, clusters)
        if math.isnan(value):
            assert math.isnan(low)
            assert math.isnan(high)
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


def test_four_right_of_four():
    """Two of either label: the lower bound is what two recalls of 34 to 100 % leave."""
    labels = np.array([0, 1, 0, 1])
    low, high = metric_interval("balanced_accuracy", labels, labels, clusters_of(labels))
    wilson = 2 / (2 + stats.norm.ppf(0.975) ** 2)
    assert (1 - (1 - wilson) / math.sqrt(2), 1) == pytest.approx((low, high))


def test_one_document_is_one_claim():
    """Claims that stand or fall together are worth their documents, all right or not."""
    labels = np.repeat([0, 1], 100)
    rng = np.random.default_rng(1)
    documents = np.repeat(np.arange(20), 10).tolist()
    for lucky in (np.ones(20, dtype=bool), rng.random(20) < 0.7):
        verdicts = np.where(np.repeat(lucky, 10), labels, 1 - labels)
        apart = metric_interval("balanced_accuracy", labels, verdicts, clusters_of(labels))
        shared = metric_interval(
            "balanced_accuracy", labels, verdicts, clusters_of(labels, documents)
        )
        assert shared[1] - shared[0] > 2 * (apart[1] - apart[0])


def test_a_hundred_times_the_claims_a_tenth_of_the_width():
    """As for any share, away from its ends."""
    widths = []
    for rows in (100, 10_000):
        labels = np.arange(rows) % 2
        verdicts = np.where(np.arange(rows) // 2 % 10 < 7, labels, 1 - labels)
        low, high = metric_interval("balanced_accuracy", labels, verdicts, clusters_of(labels))
        widths.append(high - low)
    assert 0.1 * widths[0] == pytest.approx(widths[1], rel=0.05)


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


def test_the_command_shows_the_same_interval():
    """``decomposerl metrics`` on four right answers: no point either."""
    words = ["Supported", "Refuted"] * 2
    examples = [Example((str(n),), word, word, math.nan, "", None) for n, word in enumerate(words)]
    row = score_examples(examples, None).filter(metric="balanced_accuracy").row(0, named=True)
    labels = np.array([0, 1, 0, 1])
    found = metric_interval("balanced_accuracy", labels, labels, clusters_of(labels))
    assert (row["low"], row["high"]) == pytest.approx([100 * bound for bound in found])
    shown = metrics_text(score_examples(examples, None))
    assert ["balanced_accuracy", "100.00", "53.50", "–", "100.00"] in map(
        str.split, shown.splitlines()
    )
