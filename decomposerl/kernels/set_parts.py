"""The exact set join as tasks over parts of the texts, for more rows than memory holds.

A wave per part: one task compares the part with the kept rows of each earlier part, then the greedy
runs within the part. So the sets of two parts are in a task's memory, and rows that were removed
are compared with nothing later. The result is that of ``set_join`` for any parts and workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.set_join import (
    Counts,
    cross_counts,
    keep_first_counts,
    matches_of,
    no_matches,
)
from decomposerl.kernels.word_sets import Shingle, pack_sets
from decomposerl.ports import Tasks

TextPart = Callable[[], Sequence[str]]
"""Gives the texts of some rows; picklable. Parts follow each other in row order."""
Rows = NDArray[np.int64]


def keep_first_in_parts(
    parts: Sequence[TextPart], threshold: float, tasks: Tasks, *, shingle: Shingle = "word"
) -> Matches:
    """``keep_first_duplicates`` by the exact engine, over the rows of all parts."""
    exact_threshold(threshold)
    against, done = _Against(threshold, shingle), list[Counts]()
    firsts = [0]
    for part in parts:
        texts = part()
        best = no_matches(len(texts))
        earlier = [
            (part, other, np.flatnonzero(counts[0] == -1))
            for other, counts in zip(parts, done, strict=False)
        ]
        for first, near in zip(firsts, tasks.mapper.map(against, earlier), strict=False):
            _improve(best, near, first)
        sets = pack_sets(texts, shingle)
        within = keep_first_counts(sets, threshold, best, threads=0)
        _improve(best, within, firsts[-1])
        done.append(best)
        firsts.append(firsts[-1] + len(texts))
    return matches_of(np.concatenate([no_matches(0), *done], axis=1), shingle)


def cross_matches_in_parts(
    left: Sequence[TextPart],
    right: Sequence[str],
    threshold: float,
    tasks: Tasks,
    *,
    shingle: Shingle = "word",
) -> Matches:
    """``cross_matches`` by the exact engine; a task compares one part with all of ``right``."""
    exact_threshold(threshold)
    across = _Across(right, threshold, shingle)
    every = [no_matches(0), *tasks.mapper.map(across, left)]
    return matches_of(np.concatenate(every, axis=1), shingle)


@dataclass(frozen=True, slots=True)
class _Against:
    """Compare a part with some rows of an earlier one; matches count from that part's first."""

    threshold: float
    shingle: Shingle

    def __call__(self, batch: tuple[TextPart, TextPart, Rows]) -> Counts:
        part, earlier, kept = batch
        texts = earlier()
        right = [texts[row] for row in kept.tolist()]
        near = _across(part(), right, self.threshold, self.shingle)
        some = near[0] >= 0
        near[0, some] = kept[near[0, some]]
        return near


@dataclass(frozen=True, slots=True)
class _Across:
    right: Sequence[str]
    threshold: float
    shingle: Shingle

    def __call__(self, left: TextPart) -> Counts:
        return _across(left(), self.right, self.threshold, self.shingle)


def _across(
    left: Sequence[str], right: Sequence[str], threshold: float, shingle: Shingle
) -> Counts:
    if not (left and right):
        return no_matches(len(left))
    sets = pack_sets([*right, *left], shingle)
    return cross_counts(sets, len(right), threshold, threads=0)


def _improve(best: Counts, others: Counts, first: int) -> None:
    """Take the nearer matches of ``others``, whose rows count from ``first``, in place."""
    # Fractions compared crosswise in integers; of equally near rows the first stays.
    nearer = others[1] * best[2] > best[1] * others[2]
    best[:, nearer] = others[:, nearer]
    best[0, nearer] += first
