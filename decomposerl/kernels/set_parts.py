"""The exact set join as tasks of bounded memory, for more rows than one process can hold.

``set_spread`` gives every range of words the rows whose prefixes touch it. A task per range then
finds the pairs whose first common word lies in it, so that each pair is found once, and the
keep-first greedy runs over all pairs.

Copies and templates can make the pairs too many to return. Then tasks decide in rounds: a row
leaves once an earlier kept row is near, and stays once no undecided one is. The result equals
that of ``set_join`` for any parts, ranges and workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.set_join import cross_matches, engine_name
from decomposerl.kernels.set_spread import (
    Flags,
    Ints,
    Join,
    Longs,
    TextPart,
    opened,
    remove_copies,
    spread_rows_of,
)
from decomposerl.kernels.word_sets import Shingle
from decomposerl.ports import Tasks

POSTINGS, PAIRS = 4_000_000, 4_000_000


def keep_first_in_parts(
    parts: Sequence[TextPart],
    threshold: float,
    tasks: Tasks,
    *,
    shingle: Shingle = "word",
    postings: int = POSTINGS,
    pairs: int = PAIRS,
) -> Matches:
    """``keep_first_duplicates`` by the exact engine, over the rows of all parts.

    A task holds about ``postings`` prefix words (a few more than the most common one has, if that
    has more) and returns up to ``pairs`` pairs.

    Raises:
        EngineError: two words have the same 64-bit hash.
    """
    exact_threshold(threshold)
    join, rows = spread_rows_of(parts, threshold, tasks, shingle, postings)
    states, best = np.zeros(rows, np.uint8), _Best.none(rows)
    numbers, rounds = range(len(join.bounds) - 1), 0
    while True:
        tasks.arrays.write("states", {"states": states})
        found = list(tasks.mapper.map(_Decide(join, pairs), numbers))
        if all(one.states is None for one in found):
            break
        states, rounds = _decided(states, found), rounds + 1
    _settle(states, found, best)
    if rounds:  # pairs of the last round alone do not tell the nearest row
        tasks.arrays.write("states", {"states": states})
        best = _Best.none(rows)
        for rows_of, near in tasks.mapper.map(_Nearest(join), numbers):
            best.improve(rows_of, near)
    tasks.arrays.remove("states")
    remove_copies(join)
    return Matches(best.matched, best.shared / best.united, engine_name(shingle))


def cross_matches_in_parts(
    left: Sequence[TextPart],
    right: Sequence[str],
    threshold: float,
    tasks: Tasks,
    *,
    shingle: Shingle = "word",
) -> Matches:
    """``cross_matches`` by the exact engine; a task compares one part with all of ``right``."""
    found = list(tasks.mapper.map(_Across(right, threshold, shingle, tasks.threads), left))
    if not found:
        return Matches.none(0, engine_name(shingle))
    matched, similarity = ([getattr(one, f) for one in found] for f in ("matched", "similarity"))
    return Matches(np.concatenate(matched), np.concatenate(similarity), engine_name(shingle))


@dataclass(frozen=True, slots=True)
class _Across:
    right: Sequence[str]
    threshold: float
    shingle: Shingle
    threads: int

    def __call__(self, left: TextPart) -> Matches:
        return cross_matches(
            left(),
            self.right,
            self.threshold,
            engine="exact",
            shingle=self.shingle,
            threads=self.threads,
        )


class _Best(NamedTuple):
    """Per row the nearest kept row (-1: none), and their shared and united number of words."""

    matched: Longs
    shared: Ints
    united: Ints

    @classmethod
    def none(cls, rows: int) -> "_Best":
        """No row has a match; one united word, so that its similarity is 0 / 1."""
        return cls(np.full(rows, -1), np.zeros(rows, np.int32), np.ones(rows, np.int32))

    def improve(self, rows: Longs, other: "_Best") -> None:
        """Take what is better for these rows: the higher Jaccard, then the lower row."""
        ahead = other.shared * self.united[rows].astype(np.int64)
        ahead -= self.shared[rows] * other.united.astype(np.int64)
        better = (ahead > 0) | ((ahead == 0) & (other.matched < self.matched[rows]))
        better &= other.matched >= 0
        for name in self._fields:
            getattr(self, name)[rows[better]] = getattr(other, name)[better]


class _Pairs(NamedTuple):
    """Pairs of row numbers, and their shared and united number of words."""

    earlier: Longs
    later: Longs
    shared: Ints
    united: Ints


class _Found(NamedTuple):
    """What a range knows: all its pairs, or, if they are too many, its rows and their states."""

    pairs: _Pairs | None
    rows: Longs
    states: Flags | None


@dataclass(frozen=True, slots=True)
class _Decide:
    join: Join
    most: int  # pairs that are returned; more are decided about in the task

    def __call__(self, number: int) -> _Found:
        from decomposerl.kernels import set_part_loops as loops

        here = opened(self.join, number)
        room = np.empty((2, self.most), np.int64), np.empty((2, self.most), np.int32)
        pairs = (*room[0], *room[1])
        searched = here.part, here.low, here.postings, here.least_of
        count = loops.collect_part(*searched, here.states, pairs)
        if count <= self.most:
            earlier, later = (here.rows[column[:count]] for column in pairs[:2])
            found = _Pairs(earlier, later, *(column[:count].copy() for column in pairs[2:]))
            return _Found(found, here.rows[:0], None)
        here.postings[1][:] = 0  # empty again
        any_kept = bool((here.states == loops.KEPT).any())
        loops.decide_part(*searched, here.states, any_kept)
        return _Found(None, here.rows, here.states)


@dataclass(frozen=True, slots=True)
class _Nearest:
    join: Join

    def __call__(self, number: int) -> tuple[Longs, _Best]:
        """The removed rows of a range that have a kept neighbour in it, and the nearest one."""
        from decomposerl.kernels.set_part_loops import best_part

        here = opened(self.join, number)
        best = _Best.none(len(here.rows))
        best_part(here.part, here.low, here.postings, here.least_of, here.states, (*best,))
        some = best.matched >= 0
        matched = here.rows[best.matched[some]]
        return here.rows[some], _Best(matched, best.shared[some], best.united[some])


def _decided(states: Flags, found: Sequence[_Found]) -> Flags:
    """The states after a round: what every range agrees on."""
    from decomposerl.kernels.set_part_loops import KEPT, REMOVED, UNDECIDED, WAITING

    removed, waiting = (np.zeros(len(states), np.bool_) for _ in range(2))
    for one in found:
        if one.states is not None:
            removed[one.rows[one.states == REMOVED]] = True
            waiting[one.rows[one.states == WAITING]] = True
        elif one.pairs is not None:
            removed[one.pairs.later[states[one.pairs.earlier] == KEPT]] = True
            waiting[one.pairs.later] = True
    still = np.where(removed, REMOVED, np.where(waiting, UNDECIDED, KEPT))
    return np.where(states == UNDECIDED, still, states).astype(np.uint8)


def _settle(states: Flags, found: Sequence[_Found], best: _Best) -> None:
    """Decide about the undecided rows by all their pairs; fills ``best`` for them."""
    from decomposerl.kernels.set_part_loops import KEPT, REMOVED, UNDECIDED, keep_first_of

    every = [one.pairs for one in found if one.pairs is not None]
    if every:
        earlier, later, shared, united = (np.concatenate(c) for c in zip(*every, strict=True))
        order = np.argsort(later, kind="stable")
        keep_first_of(earlier, later, shared, united, order, (*best,))
    undecided = states == UNDECIDED
    states[undecided] = np.where(best.matched[undecided] >= 0, REMOVED, KEPT)
