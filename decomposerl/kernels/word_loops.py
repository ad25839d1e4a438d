"""The compiled loops of ``word_sets`` that number elements and make rows ascending sets.

Takes and gives arrays alone. Each span that ``cut_loops`` found gets its number from an
open-addressing table that compares bytes, never hashes alone: two elements share a number
iff they are equal. Cutting is a loop of its own because a processor has many look-ups under
way at once in a loop that does nothing else.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined, internal

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Keys = NDArray[np.uint64]
Spans = tuple[Bytes, Ints, Numbers, Numbers]
"""Bytes (``SPARE`` more than are used), where each element begins, how many bytes it has, and
how many elements each row has."""
Vocabulary = tuple[Numbers, Keys, Bytes, Ints, Numbers]
"""Table of element numbers (-1: free); per number its key, the bytes of all, where each
starts, and the last row that holds it."""

SPARE = 8
SHORT_ROW = 64
_GAPS = (1_750, 701, 301, 132, 57, 23, 10, 4, 1)
_LONG = np.uint64(1 << 63)
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX, _HALF, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(1)

LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(SPARE + 1)], np.uint64)
"""Ones in the lowest 0 to 8 bytes."""


@inlined
def eight(text: Bytes, place: int) -> np.uint64:
    """Eight bytes as one number, the first the lowest (the compiler makes it one load)."""
    at, value = np.uint64(place), np.uint64(0)
    for byte in range(8):
        value |= np.uint64(text[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return value


@inlined
def key_of(text: Bytes, begin: int, size: int) -> np.uint64:
    """An element of up to eight bytes as one number; of a longer one a hash, highest bit set.

    A short one has the highest bit set only where its eighth byte is not ASCII; it is then
    treated like a long one.
    """
    key = np.uint64(eight(text, begin) & LOW_BYTES[min(size, SPARE)])
    if size <= SPARE:
        return key
    for step in range(SPARE, size, SPARE):
        rest = eight(text, begin + step) & LOW_BYTES[min(size - step, SPARE)]
        key = np.uint64((key ^ (key >> _HALF)) * _MIX + rest)
    return ((key ^ (key >> _HALF)) * _MIX) | _LONG


@inlined
def same_bytes(text: Bytes, begin: int, other: Bytes, other_begin: int, size: int) -> bool:
    """Whether two runs of ``size`` bytes are equal."""
    differ = np.uint64(0)
    for step in range(0, size, SPARE):
        either = eight(text, begin + step) ^ eight(other, other_begin + step)
        differ |= either & LOW_BYTES[min(size - step, SPARE)]
    return bool(differ == 0)


@inlined
def copy_bytes(text: Bytes, begin: int, into: Bytes, into_begin: int, size: int) -> None:
    """Copy a run. Assigning a slice would compile the text of its error, for two seconds."""
    for place in range(size):
        into[into_begin + place] = text[begin + place]


@compiled
def number_rows(
    spans: Spans, known: Vocabulary, size: int, first_row: int, out: Numbers
) -> tuple[int, int]:
    """Write the numbers of each row's distinct elements to ``out``, how many to its count.

    Rows count from ``first_row``. Gives the elements known (``size`` before), the use of ``out``.
    """
    text, begins, sizes, counts = spans
    table, keys, arena, ends, seen = known
    element, used, mask = 0, 0, np.uint64(table.size - 1)
    for row in range(counts.size):
        first = used
        for _ in range(counts[row]):
            begin, length = begins[element], sizes[element]
            key = key_of(text, begin, length)
            slot = ((key * _MIX) >> _HALF) & mask
            number = table[slot]
            # Written out: as a function of all these arrays it takes more than twice as long.
            while number >= 0 and (
                keys[number] != key
                or (
                    key >= _LONG
                    and (
                        ends[number + 1] - ends[number] != length
                        or not same_bytes(text, begin, arena, ends[number], length)
                    )
                )
            ):
                slot = (slot + _ONE) & mask
                number = table[slot]
            if number < 0:
                table[slot], keys[size], ends[size + 1] = size, key, ends[size] + length
                copy_bytes(text, begin, arena, ends[size], length)
                number, size = size, size + 1
            out[used] = number
            used += seen[number] != first_row + row
            seen[number] = first_row + row
            element += 1
        counts[row] = used - first
    return size, used


@compiled
def hash_elements(arena: Bytes, ends: Ints, hashes: Keys) -> None:
    """64 bits of each element that depend on all its bytes (FNV-1a, then mixed)."""
    for number in range(hashes.size):
        state = _BASIS
        for place in range(ends[number], ends[number + 1]):
            state = (state ^ np.uint64(arena[place])) * _PRIME
        state = (state ^ (state >> _HALF)) * _MIX
        hashes[number] = state ^ (state >> _HALF)


@compiled
def refill(table: Numbers, keys: Keys, size: int) -> None:
    """Enter the first ``size`` elements into a table of free slots."""
    mask = np.uint64(table.size - 1)
    for number in range(size):
        slot = ((keys[number] * _MIX) >> _HALF) & mask
        while table[slot] >= 0:
            slot = (slot + _ONE) & mask
        table[slot] = number


@internal
def sort_long(run: Numbers) -> None:
    """Sort ascending (Shell, by Ciura's gaps): compiles in no time, unlike a library's sort."""
    for gap in _GAPS:
        for place in range(gap, run.size):
            value, hole = run[place], place
            while hole >= gap and run[hole - gap] > value:
                run[hole] = run[hole - gap]
                hole -= gap
            run[hole] = value


@compiled
def rank_rows(tokens: Numbers, starts: Ints, rank: Numbers) -> None:
    """Replace numbers by ranks and sort each row ascending, in place.

    In a short row an element's place is the number of smaller ones: no branch to guess.
    """
    ranked = np.empty(SHORT_ROW, np.int32)
    for row in range(starts.size - 1):
        run = tokens[starts[row] : starts[row + 1]]
        for place in range(run.size):
            run[place] = rank[run[place]]
        if run.size > SHORT_ROW:
            sort_long(run)
            continue
        for place in range(run.size):
            ranked[place] = run[place]
        for value in ranked[: run.size]:
            smaller = 0
            for other in ranked[: run.size]:
                smaller += other < value
            run[smaller] = value
