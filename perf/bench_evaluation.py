"""Bootstrap intervals of balanced accuracy beside what a user would write.

Gives rows: 10,000 draws over 30,000 predictions within labels, by documents and for a pair of
systems. Peers: ``balanced_accuracy_score`` of scikit-learn in a loop over draws, and
``scipy.stats.bootstrap`` over the two labels. Both are timed on a part of the draws and scaled,
and their intervals are held against ours.

Left out deliberately: metrics without draws, which take milliseconds either way.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.bootstrap import (
    DRAWS,
    clusters_of,
    generator,
    interval,
    resampled_sums,
)
from decomposerl.evaluation.metrics import Codes, balanced_accuracy, indicators
from decomposerl.evaluation.paired import compare
from perf.sizes import Sizes
from perf.timing import Row, paired, timed

ROWS, DOCUMENTS, SEED = 30_000, 6_000, 5
REFUTED, RIGHT = 0.45, (0.70, 0.68)
ALLOWED_S = 2.0
LOOPED, BATCHED = 40, 200
BARS = {"scikit-learn": 100.0, "scipy": 20.0}
Bounds = tuple[float, float]


def evaluation_rows(sizes: Sizes) -> Iterator[Row]:
    """The interval beside both peers, then by documents and of a difference beside 2 s."""
    del sizes  # the bars hold for this size
    labels, verdicts, others = _outcomes()
    name = f"interval of balanced accuracy, {DRAWS:,} draws of {ROWS:,}"
    for place, (peer, work, draws) in enumerate(_peers(labels, verdicts)):
        found = paired(lambda: _ours(labels, verdicts), work, scale=DRAWS / draws)
        apart = max(abs(a - b) for a, b in zip(found.ours, found.peer, strict=True))
        yield Row(
            name + f" ({place + 1})" * bool(place),
            found.ours_s,
            peer,
            found.peer_s,
            found.ratio,
            BARS[peer.split(",")[0].split(".")[0]],
            note=f"peer timed on {draws} draws; bounds differ by {100 * apart:.2f} points",
        )
    documents = np.random.default_rng(SEED).integers(0, DOCUMENTS, ROWS).tolist()
    for what, work in (
        (f"the same, {DOCUMENTS:,} documents", lambda: _ours(labels, verdicts, documents)),
        ("the same, difference of two systems", lambda: _difference(labels, verdicts, others)),
    ):
        seconds, (low, high) = timed(work)
        note = f"{100 * low:.2f} to {100 * high:.2f} percent"
        yield Row(what, seconds, "time allowed", ALLOWED_S, ALLOWED_S / seconds, 1.0, note=note)


def _outcomes() -> tuple[Codes, Codes, Codes]:
    """Labels and two systems' verdicts: right three in four times, some without a verdict."""
    rng = np.random.default_rng(SEED)
    labels = (rng.random(ROWS) < REFUTED).astype(np.int64)
    said = [np.where(rng.random(ROWS) < right, labels, rng.integers(0, 3, ROWS)) for right in RIGHT]
    return labels, said[0], said[1]


def _ours(labels: Codes, verdicts: Codes, documents: list[int] | None = None) -> Bounds:
    clusters = clusters_of(labels, documents)
    sums = resampled_sums(indicators(labels, verdicts), clusters, generator(SEED))
    return interval(balanced_accuracy(sums.reshape(-1, 2, 3)))


def _difference(labels: Codes, verdicts: Codes, others: Codes) -> Bounds:
    told, _ = compare(labels, verdicts, others, clusters_of(labels), generator(SEED))
    return told.low, told.high


def _peers(labels: Codes, verdicts: Codes) -> list[tuple[str, Callable[[], Bounds], int]]:
    return [
        ("scikit-learn, in a loop", lambda: _looped(labels, verdicts), LOOPED),
        ("scipy.stats.bootstrap, in batches", lambda: _scipy(labels, verdicts), BATCHED),
    ]


def _looped(labels: Codes, verdicts: Codes) -> Bounds:
    from sklearn.metrics import balanced_accuracy_score

    rng = np.random.default_rng(SEED)
    sides = [np.flatnonzero(labels == label) for label in (0, 1)]
    found = np.empty(LOOPED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of verdicts that are no label
        for draw in range(LOOPED):
            rows = np.concatenate([rng.choice(side, len(side)) for side in sides])
            found[draw] = balanced_accuracy_score(labels[rows], verdicts[rows])
    return interval(found)


def _scipy(labels: Codes, verdicts: Codes) -> Bounds:
    from scipy import stats

    def mean_of_recalls(
        first: NDArray[np.float64], second: NDArray[np.float64], axis: int
    ) -> NDArray[np.float64]:
        return (first.mean(axis=axis) + second.mean(axis=axis)) / 2

    found = stats.bootstrap(
        [(verdicts[labels == label] == label).astype(float) for label in (0, 1)],
        mean_of_recalls,
        n_resamples=BATCHED,
        batch=50,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)
