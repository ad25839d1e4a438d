"""Bootstrap intervals of balanced accuracy next to what a user would write.

10,000 draws over 30,000 predictions within labels, by documents and for a pair of systems.
Peers: scikit-learn's ``balanced_accuracy_score`` in a loop over draws, and
``scipy.stats.bootstrap`` over the two labels. Both are timed on a part of the draws and scaled,
and their intervals are compared with ours.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.comparison import compare
from decomposerl.evaluation.intervals import (
    DRAWS,
    clusters_of,
    generator,
    interval,
    resampled_sums,
)
from decomposerl.evaluation.metrics import Codes, balanced_accuracy, indicators
from perf.sizes import Sizes
from perf.timing import Row, allowed_row, paired, timed

ROWS, DOCUMENTS, SEED = 30_000, 6_000, 5
REFUTED, RIGHT = 0.45, (0.70, 0.68)
ALLOWED_S = 2.0
LOOPED, BATCHED = 40, 200
BARS = {"scikit-learn": 100.0, "scipy": 20.0}
Bounds = tuple[float, float]


def evaluation_rows(sizes: Sizes) -> Iterator[Row]:
    """The interval next to both peers; by documents and of a difference within ``ALLOWED_S``."""
    del sizes  # the bars hold for this size
    labels, verdicts, others = _outcomes()
    name = f"interval of balanced accuracy, {DRAWS:,} draws of {ROWS:,}"
    for index, (peer, work, draws) in enumerate(_peers(labels, verdicts)):
        both = paired(lambda: _ours(labels, verdicts), work, scale=DRAWS / draws)
        gap = max(abs(a - b) for a, b in zip(both.ours, both.peer, strict=True))
        yield both.row(
            name + f" ({index + 1})" * bool(index),
            peer,
            BARS[peer.split(",")[0].split(".")[0]],
            note=f"peer: {draws} draws; bounds differ by {100 * gap:.2f} points",
        )
    documents = np.random.default_rng(SEED).integers(0, DOCUMENTS, ROWS).tolist()
    for what, work in (
        (f"the same, {DOCUMENTS:,} documents", lambda: _ours(labels, verdicts, documents)),
        ("the same, difference of two systems", lambda: _difference(labels, verdicts, others)),
    ):
        seconds, (low, high) = timed(work)
        yield allowed_row(what, seconds, ALLOWED_S, f"{100 * low:.2f} to {100 * high:.2f} percent")


def _outcomes() -> tuple[Codes, Codes, Codes]:
    """Labels and the verdicts of two systems: mostly right, some without a verdict."""
    rng = np.random.default_rng(SEED)
    labels = (rng.random(ROWS) < REFUTED).astype(np.int64)
    verdicts = [
        np.where(rng.random(ROWS) < right, labels, rng.integers(0, 3, ROWS)) for right in RIGHT
    ]
    return labels, verdicts[0], verdicts[1]


def _ours(labels: Codes, verdicts: Codes, documents: list[int] | None = None) -> Bounds:
    clusters = clusters_of(labels, documents)
    sums = resampled_sums(indicators(labels, verdicts), clusters, generator(SEED))
    return interval(balanced_accuracy(sums.reshape(-1, 2, 3)))


def _difference(labels: Codes, verdicts: Codes, others: Codes) -> Bounds:
    return compare(labels, verdicts, others, clusters_of(labels)).bounds


def _peers(labels: Codes, verdicts: Codes) -> list[tuple[str, Callable[[], Bounds], int]]:
    return [
        ("scikit-learn, in a loop", lambda: _looped(labels, verdicts), LOOPED),
        ("scipy.stats.bootstrap, in batches", lambda: _scipy(labels, verdicts), BATCHED),
    ]


def _looped(labels: Codes, verdicts: Codes) -> Bounds:
    from sklearn.metrics import balanced_accuracy_score

    rng = np.random.default_rng(SEED)
    sides = [np.flatnonzero(labels == label) for label in (0, 1)]
    values = np.empty(LOOPED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about verdicts that are no label
        for draw in range(LOOPED):
            rows = np.concatenate([rng.choice(side, len(side)) for side in sides])
            values[draw] = balanced_accuracy_score(labels[rows], verdicts[rows])
    return interval(values)


def _scipy(labels: Codes, verdicts: Codes) -> Bounds:
    from scipy import stats

    def mean_of_recalls(
        first: NDArray[np.float64], second: NDArray[np.float64], axis: int
    ) -> NDArray[np.float64]:
        return (first.mean(axis=axis) + second.mean(axis=axis)) / 2

    bounds = stats.bootstrap(
        [(verdicts[labels == label] == label).astype(float) for label in (0, 1)],
        mean_of_recalls,
        n_resamples=BATCHED,
        batch=50,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(bounds.low), float(bounds.high)
