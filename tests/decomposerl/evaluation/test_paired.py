"""Paired tests: the definition, scipy's values, and Holm's correction by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from decomposerl.evaluation.bootstrap import clusters_of, generator
from decomposerl.evaluation.paired import (
    compare,
    holm,
    mcnemar,
    mean_difference,
    p_two_sided,
)
from strategies import LAW


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80))
def test_mcnemar_is_the_exact_binomial_test(rows: list[tuple[bool, bool]]):
    """Of the claims that only one got right, each side is as likely; scipy gives the same."""
    right = np.array([row[0] for row in rows], dtype=bool)
    other = np.array([row[1] for row in rows], dtype=bool)
    better, worse = int((right & ~other).sum()), int((other & ~right).sum())
    expected = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert expected == pytest.approx(mcnemar(right, other), abs=1e-12)
    assert mcnemar(right, other) == mcnemar(other, right)


def test_mcnemar_of_many_claims():
    """Thirty thousand claims: still exact, far below what floats of each term could add up."""
    right = np.zeros(30_000, dtype=bool)
    other = ~right
    right[:14_000] = True
    other[:14_000] = False
    expected = stats.binomtest(14_000, 30_000).pvalue
    assert expected == pytest.approx(mcnemar(right, other), rel=1e-6)


def test_a_difference_is_found_with_its_interval():
    """The better system has a positive difference; swapping the two turns every sign."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 800)
    good = np.where(rng.random(800) < 0.85, labels, 1 - labels)
    poor = np.where(rng.random(800) < 0.70, labels, 2)
    clusters = clusters_of(labels)
    outcome, draws = compare(labels, good, poor, clusters, generator(1), 2_000)
    back, _ = compare(labels, poor, good, clusters, generator(1), 2_000)
    assert (2_000,) == draws.shape
    assert 0.05 < outcome.low < outcome.difference < outcome.high < 0.25
    assert outcome.p_bootstrap == pytest.approx(2 / 2_001)
    assert outcome.p_mcnemar is not None
    assert outcome.p_mcnemar < 1e-6
    assert (-outcome.high, -outcome.low) == pytest.approx((back.low, back.high), abs=0.006)
    assert -outcome.difference == pytest.approx(back.difference)


def test_a_system_is_not_better_than_itself():
    """No difference, p-values of 1, and the interval says how few claims that rests on."""
    labels = np.array([0, 1] * 20)
    verdicts = np.array([0, 1, 1, 1] * 10)
    outcome, _ = compare(labels, verdicts, verdicts, clusters_of(labels), generator(0), 100)
    assert outcome.difference == 0
    assert -0.1 < outcome.low < 0 < outcome.high < 0.1
    assert (outcome.p_bootstrap, outcome.p_mcnemar) == (1, 1)


def test_under_no_difference_p_values_are_spread_out():
    """Two systems that are equally good: about one test in ten falls below 0.1."""
    rng = np.random.default_rng(7)
    labels = np.arange(200) % 2
    clusters = clusters_of(labels)
    below = 0
    for number in range(200):
        sides = [np.where(rng.random(200) < 0.7, labels, 1 - labels) for _ in range(2)]
        outcome, _ = compare(labels, *sides, clusters, generator(number), 400)
        below += outcome.p_bootstrap < 0.1
    assert 8 <= below <= 36


def test_means_of_benchmarks():
    """The mean of differences, narrower than its parts; McNemar has no say, nor has nothing."""
    rng = np.random.default_rng(3)
    labels = np.arange(300) % 2
    parts = []
    for number in range(4):
        ours = np.where(rng.random(300) < 0.8, labels, 1 - labels)
        theirs = np.where(rng.random(300) < 0.75, labels, 1 - labels)
        found = compare(labels, ours, theirs, clusters_of(labels), generator(number), 1_000)
        parts.append(found)
    mean = mean_difference(parts)
    assert mean.difference == pytest.approx(np.mean([outcome.difference for outcome, _ in parts]))
    assert mean.high - mean.low < min(outcome.high - outcome.low for outcome, _ in parts)
    assert (mean.rows, mean.p_mcnemar) == (1_200, None)
    with pytest.raises(ValueError, match="no benchmark"):
        mean_difference([])


def test_four_claims_prove_nothing():
    """All right against all wrong of four: no narrow interval, McNemar's p, and none is shown."""
    labels = np.array([0, 1, 0, 1])
    outcome, _ = compare(labels, labels, 1 - labels, clusters_of(labels), generator(0), 1_000)
    assert outcome.difference == 1
    assert 0 < outcome.low < 0.1
    assert outcome.high == 1
    assert (0.125, 0.125) == (outcome.p_bootstrap, outcome.p_mcnemar)
    assert outcome.p == 0.125
    assert "n = 2 of a label < 10" == outcome.too_small


@LAW
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)), min_size=4),
    st.integers(1, 6),
)
def test_no_p_value_is_below_what_the_differing_documents_allow(
    rows: list[tuple[int, int, int]], size: int
):
    """2 ** (1 - m) for m documents, in a test set and in a mean; shown only from six on."""
    labels, ours, theirs = np.array([*rows, (0, 0, 0), (1, 1, 1)]).T
    clusters = clusters_of(labels, (np.arange(len(labels)) // size).tolist())
    outcome, draws = compare(labels, ours, theirs, clusters, generator(0), 200)
    mean = mean_difference([(outcome, draws)] * 3)
    for one in (outcome, mean):
        assert one.p_bootstrap >= min(1, 2.0 ** (1 - one.differing))
        assert one.too_small or one.differing >= 6
        assert -1 <= one.low <= one.difference <= one.high <= 1
        assert one.low < one.high
    assert mean.differing == 3 * outcome.differing


def test_holm_by_hand():
    """Sorted p-values times 4, 3, 2, 1, never falling, at most 1, in the order given."""
    assert [0.9, 0.06, 0.04, 0.06] == pytest.approx(holm([0.9, 0.02, 0.01, 0.03]))
    assert [1.0, 0.03] == pytest.approx(holm([1.0, 0.015]))
    assert [] == holm([])


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms(use_true_random=False))
def test_holm_only_raises_and_keeps_the_order(values: list[float], shuffler: object):
    """Corrected values are at least the given ones, at most 1, and go with them when moved."""
    found = holm(values)
    assert all(p <= corrected <= 1 for p, corrected in zip(values, found, strict=True))
    moved = list(range(len(values)))
    shuffler.shuffle(moved)
    again = holm([values[index] for index in moved])
    assert [found[index] for index in moved] == pytest.approx(again)


def test_p_of_draws_is_never_zero():
    """A hundred draws on one side say 2 / 101; none at all say nothing."""
    assert p_two_sided(np.full(100, 0.3)) == pytest.approx(2 / 101)
    assert p_two_sided(np.array([-1.0, 1.0, np.nan])) == 1
    assert np.isnan(p_two_sided(np.array([np.nan])))
