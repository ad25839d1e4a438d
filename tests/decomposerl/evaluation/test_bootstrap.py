"""The bootstrap draws what a loop over draws would, and keeps shared evidence together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from decomposerl.evaluation.bootstrap import (
    Clusters,
    auroc_draws,
    clusters_of,
    generator,
    interval,
    resampled_sums,
)
from decomposerl.evaluation.metrics import (
    Codes,
    auroc,
    balanced_accuracy,
    indicators,
    outcome_table,
)

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
        picked = [
            rng.integers(start, stop, stop - start)
            for start, stop in zip(clusters.starts[:-1], clusters.starts[1:], strict=True)
        ]
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


def test_the_interval_is_that_of_scipy():
    """Two proportions drawn apart: the percentile interval of scipy.stats.bootstrap."""
    labels, verdicts = outcomes(5, 400)
    draws = resampled_sums(indicators(labels, verdicts), clusters_of(labels), generator(1), 20_000)
    low, high = interval(balanced_accuracy(draws.reshape(-1, 2, 3)))
    sides = [(verdicts[labels == label] == label).astype(float) for label in (0, 1)]
    peer = stats.bootstrap(
        sides,
        lambda a, b, axis: (a.mean(axis=axis) + b.mean(axis=axis)) / 2,
        n_resamples=4_000,
        method="percentile",
        rng=np.random.default_rng(0),
        vectorized=True,
    ).confidence_interval
    assert (low, high) == pytest.approx((peer.low, peer.high), abs=0.004)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4) | st.none()), min_size=1, max_size=25)
)
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
    for start, stop in zip(clusters.starts[:-1], clusters.starts[1:], strict=True):
        held = {
            frozenset(labels[clusters.of_row == number].tolist()) for number in range(start, stop)
        }
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


def test_shared_evidence_widens_the_interval():
    """Claims of one document that stand and fall together are worth one claim."""
    labels = np.repeat(np.arange(40) % 2, 10)
    right = np.repeat(np.random.default_rng(0).random(40) < 0.7, 10)
    cells = indicators(labels, np.where(right, labels, 1 - labels))
    widths = []
    for documents in (None, np.repeat(np.arange(40), 10).tolist()):
        draws = resampled_sums(cells, clusters_of(labels, documents), generator(0), DRAWS)
        low, high = interval(balanced_accuracy(draws.reshape(-1, 2, 3)))
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] * math.sqrt(10), rel=0.15)


def test_the_same_seed_and_names_give_the_same_draws():
    """Figures are reproducible, and those of other names are drawn independently."""
    labels, verdicts = outcomes(1, 50)
    cells, clusters = indicators(labels, verdicts), clusters_of(labels)
    first = resampled_sums(cells, clusters, generator(42, "hover", "simple"), 20)
    again = resampled_sums(cells, clusters, generator(42, "hover", "simple"), 20)
    other = resampled_sums(cells, clusters, generator(42, "hover", "cot"), 20)
    assert (first == again).all()
    assert (first != other).any()


def test_real_numbers_are_drawn_too():
    """Sums of columns that no two rows share have the mean and spread of the definition."""
    rng = np.random.default_rng(2)
    columns, labels = rng.random((300, 2)), np.zeros(300, dtype=np.int64)
    drawn = resampled_sums(columns, clusters_of(labels), generator(0), DRAWS) / 300
    assert drawn.mean(axis=0) == pytest.approx(columns.mean(axis=0), abs=0.002)
    assert drawn.std(axis=0) == pytest.approx(columns.std(axis=0) / math.sqrt(300), rel=0.05)


def test_auroc_is_drawn_as_its_definition():
    """Each draw is the AUROC of the drawn rows, ties half; without one side it is NaN."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 40)
    scores = np.round(rng.random(40) + 0.3 * labels, 1)
    clusters = clusters_of(labels, (np.arange(40) // 3).tolist())
    drawn = auroc_draws(scores, labels == 1, clusters, generator(0), DRAWS)
    rows = np.arange(40)[:, None]
    slow = []
    for picked in by_loop(np.eye(40, dtype=int)[rows.ravel()], clusters, generator(1), 2_000):
        again = np.repeat(np.arange(40), picked)
        slow.append(auroc(scores[again], labels[again] == 1))
    assert drawn.mean() == pytest.approx(np.mean(slow), abs=0.01)
    assert stats.ks_2samp(drawn, slow).pvalue > 0.001
    one_side = auroc_draws(scores, labels == 5, clusters, generator(0), 3)
    assert np.isnan(one_side).all()


def test_draws_without_a_value_are_left_out():
    """NaN draws do not count; where all are NaN there is no interval."""
    assert interval(np.array([np.nan, 1.0, 2.0, np.nan]), 1.0) == (1.0, 2.0)
    assert all(math.isnan(bound) for bound in interval(np.array([np.nan])))
    assert all(math.isnan(bound) for bound in interval(np.array([])))
