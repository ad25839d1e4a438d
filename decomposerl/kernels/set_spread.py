"""How the rows of a set join are spread to ranges of words, as tasks of bounded memory.

1. A task packs each part of the rows; its words, as hashes, and their counts come back.
2. All words get one order, the rarest first. A task ranks each part by it.
3. The order is cut into ranges with about as many prefix words each. A row is copied, with all
   its words, to every range that its prefix touches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.kernels.matches import min_shared
from decomposerl.kernels.set_join import empty_index, prefix_lengths
from decomposerl.kernels.word_sets import Shingle, numbered_rows, row_starts
from decomposerl.ports import ArrayStore, Tasks

TextPart = Callable[[], Sequence[str]]
"""Gives the texts of some rows; picklable. Parts follow each other in row order."""
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Flags = NDArray[np.uint8]
_OTHER_SALT = 0x5851F42D4C957F2D


class Words(NamedTuple):
    """Distinct words by ``hashes``, with a second hash each, and how many rows have each."""

    hashes: NDArray[np.uint64]
    checks: NDArray[np.uint64]
    counts: Longs


def merged_words(every: Sequence[Words]) -> Words:
    """The words of all parts, by ascending hash, with their counts added up.

    Raises:
        EngineError: two words have the same hash (about 1 in 100,000 for 20 million words).
    """
    hashes, checks, counts = (np.concatenate(column) for column in zip(*every, strict=True))
    order = np.argsort(hashes, kind="stable")
    hashes, checks, counts = hashes[order], checks[order], counts[order]
    firsts = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))
    same = np.minimum.reduceat(checks, firsts) == np.maximum.reduceat(checks, firsts)
    if not same.all():
        raise EngineError("two words have the same 64-bit hash: the join would not be exact")
    return Words(hashes[firsts], checks[firsts], np.add.reduceat(counts, firsts))


@dataclass(frozen=True, slots=True)
class Join:
    """What the tasks of the ranges share; range p has the words from ``bounds[p]`` on."""

    arrays: ArrayStore
    firsts: tuple[int, ...]  # the first row of each part
    bounds: Longs
    threshold: float


def spread_rows_of(
    parts: Sequence[TextPart], threshold: float, tasks: Tasks, shingle: Shingle, postings: int
) -> tuple[Join, int]:
    """Steps 1 to 3; the join that is left to do, and the number of rows."""
    arrays, run = tasks.arrays, tasks.mapper.map
    sizes, waiting, known = [0], list[Words](), 0
    for rows, words in run(_Pack(arrays, shingle), enumerate(parts)):
        sizes.append(rows)
        waiting.append(words)
        if sum(len(one.hashes) for one in waiting) > 2 * known:  # merging costs linear time in all
            waiting = [merged_words(waiting)]
            known = len(waiting[0].hashes)
    firsts = tuple(np.cumsum(sizes).tolist())
    if not firsts[-1]:
        return Join(arrays, firsts, np.zeros(1, np.int64), threshold), 0
    words = merged_words(waiting)
    ranks = np.empty(len(words.hashes), np.int32)
    ranks[np.lexsort((words.hashes, words.counts))] = np.arange(len(ranks), dtype=np.int32)
    arrays.write("order", {"hashes": words.hashes, "ranks": ranks})
    prefixed = np.zeros(len(ranks), np.int64)
    # What a task read goes once its result is here: lost with a node, the task is run again.
    for number, (tokens, counts) in enumerate(run(_Rank(arrays, threshold), range(len(parts)))):
        prefixed[tokens] += counts
        arrays.remove(f"packed-{number}")
    bounds = _ranges(prefixed, postings)
    arrays.write("order", {"shared": (prefixed > 1).astype(np.uint8)})
    for number, _ in enumerate(run(_Copy(arrays, threshold, bounds), range(len(parts)))):
        arrays.remove(f"ranked-{number}")
    arrays.remove("order")
    return Join(arrays, firsts, bounds, threshold), firsts[-1]


def _ranges(prefixed: Longs, postings: int) -> Longs:
    """Where the ranges of words begin, and the end: about ``postings`` prefix entries in each."""
    # A word that only one prefix has makes no pair, so it takes no room.
    entries = np.where(prefixed > 1, prefixed, 0)
    number = (np.cumsum(entries) - entries) // postings
    return np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(prefixed)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Pack:
    arrays: ArrayStore
    shingle: Shingle

    def __call__(self, batch: tuple[int, TextPart]) -> tuple[int, Words]:
        number, texts = batch
        rows = numbered_rows(texts(), self.shingle)
        words = Words(
            rows.vocabulary.hashes(),
            rows.vocabulary.hashes(_OTHER_SALT),
            np.bincount(rows.tokens, minlength=rows.vocabulary.size),
        )
        self.arrays.write(
            f"packed-{number}",
            {"tokens": rows.tokens, "sizes": rows.counts, "hashes": words.hashes},
        )
        return len(rows.counts), words


@dataclass(frozen=True, slots=True)
class _Rank:
    arrays: ArrayStore
    threshold: float

    def __call__(self, number: int) -> tuple[Ints, Longs]:
        """Rank a part's words; the words of its prefixes and in how many each is."""
        from decomposerl.kernels.word_loops import rank_rows

        order, packed = self.arrays.read("order"), self.arrays.read(f"packed-{number}")
        rank = order["ranks"][np.searchsorted(order["hashes"], packed["hashes"])]
        tokens, sizes = np.array(packed["tokens"]), np.array(packed["sizes"])
        starts = row_starts(sizes)
        rank_rows(tokens, starts, rank)
        self.arrays.write(f"ranked-{number}", {"tokens": tokens, "starts": starts})
        prefixes = prefix_lengths(sizes.astype(np.int64), self.threshold)
        in_row = np.arange(len(tokens)) - np.repeat(starts[:-1], sizes)
        return np.unique(tokens[in_row < np.repeat(prefixes, sizes)], return_counts=True)


@dataclass(frozen=True, slots=True)
class _Copy:
    arrays: ArrayStore
    threshold: float
    bounds: Longs

    def __call__(self, number: int) -> None:
        """Copy a part to the ranges that its prefixes touch, a group of arrays for each."""
        from decomposerl.kernels.set_part_loops import spread_rows

        ranked, shared = self.arrays.read(f"ranked-{number}"), self.arrays.read("order")["shared"]
        tokens, starts = np.array(ranked["tokens"]), np.array(ranked["starts"])
        sets = tokens, starts, prefix_lengths(np.diff(starts), self.threshold)
        used = np.zeros((2, len(self.bounds) - 1), np.int64)
        nothing = np.empty(0, np.int32)
        spread_rows(sets, np.array(shared), self.bounds, (*used,), (nothing,) * 3)
        ends = np.cumsum(used, axis=1)
        rows, sizes, copies = (np.empty(int(ends[of, -1]), np.int32) for of in (0, 0, 1))
        starts_of = ends - used
        spread_rows(
            sets, np.array(shared), self.bounds, (*starts_of.copy(),), (rows, sizes, copies)
        )
        for place, (row, token) in enumerate(zip(*_slices(starts_of, ends), strict=True)):
            arrays = {"rows": rows[row], "sizes": sizes[row], "tokens": copies[token]}
            self.arrays.write(_copies_name(number, place), arrays)


def _slices(starts: Longs, ends: Longs) -> list[list[slice]]:
    """Per row of both the slices from start to end."""
    return [
        [slice(*pair) for pair in zip(*side, strict=True)]
        for side in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _copies_name(part: int, number: int) -> str:
    return f"copies-{part}-{number}"


class Range(NamedTuple):
    """One range ready to be joined: its rows' numbers and what the loops take."""

    rows: Longs
    part: tuple[Ints, Longs, Ints, Ints, NDArray[np.uint64]]
    low: int
    postings: tuple[Longs, Ints, Ints, Ints, Ints, NDArray[np.uint64]]
    least_of: Ints
    states: Flags


def opened(join: Join, number: int) -> Range:
    """The rows that were copied to a range, from all parts, and an empty index of its words."""
    from decomposerl.kernels.set_join_loops import sign
    from decomposerl.kernels.set_part_loops import find_runs

    copies = list(_copies(join, number))
    rows, sizes, tokens = (np.concatenate(column) for column in zip(*copies, strict=True))
    starts, low = row_starts(sizes), int(join.bounds[number])
    runs, signatures = np.empty((2, len(rows)), np.int32), np.zeros(len(rows), np.uint64)
    sign(tokens, starts, signatures)
    counts = np.zeros(int(join.bounds[number + 1]) - low, np.int64)
    sets = tokens, starts, prefix_lengths(np.diff(starts), join.threshold)
    find_runs(sets, low, (*runs,), counts)
    least_of = min_shared(int(sizes.max(initial=0)), join.threshold)
    states = join.arrays.read("states")["states"][rows]
    part = (tokens, starts, *runs, signatures)
    return Range(rows, part, low, empty_index(row_starts(counts)), least_of, states)


def _copies(join: Join, number: int) -> Iterator[tuple[Longs, Ints, Ints]]:
    """Per part the rows of a range, their sizes and their tokens."""
    for part, first in enumerate(join.firsts[:-1]):
        copies = join.arrays.read(_copies_name(part, number))
        yield first + copies["rows"].astype(np.int64), copies["sizes"], copies["tokens"]


def remove_copies(join: Join) -> None:
    """Forget the copies of all rows."""
    for part in range(len(join.firsts) - 1):
        for number in range(len(join.bounds) - 1):
            join.arrays.remove(_copies_name(part, number))
