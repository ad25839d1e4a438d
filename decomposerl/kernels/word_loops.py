"""Compiled loops of ``word_sets``: cut texts into elements, number these, sort rows into sets.

A text is cut into spans of bytes: ASCII words, pieces between separators (texts with other
characters, which were split before), or windows of five characters. Each span gets its number
from an open-addressing table that compares bytes, never only hashes: two elements share a
number iff they are equal.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined, internal

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Keys = NDArray[np.uint64]
Spans = tuple[Bytes, Ints, Numbers, Numbers]
"""Bytes (``SPARE`` more than are used), where each element begins, its size in bytes, and the
number of elements of each row."""
Vocabulary = tuple[Numbers, Keys, Bytes, Ints, Numbers]
"""Hash table of element numbers (-1: free); per number its key, all bytes, where its bytes
start, and the last row that has it."""

SPARE = 8  # eight bytes are read at a time, also from the last element on
SHORT_ROW = 64
_GAPS = (1_750, 701, 301, 132, 57, 23, 10, 4, 1)
_LONG = np.uint64(1 << 63)
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX, _HALF, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(1)

LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(SPARE + 1)], np.uint64)
"""Ones in the lowest 0 to 8 bytes."""

APOSTROPHE, SEPARATOR, UNDERSCORE, SMALL_S = 39, 0, 95, 115
WORDS, PIECES, WINDOWS = 0, 1, 2
WINDOW = 5

# A table look-up per byte; comparing with six bounds would be six branches.
IN_WORD = np.zeros(256, np.bool_)  # ASCII letters, digits and the underscore
for _byte in range(128):
    IN_WORD[_byte] = chr(_byte).isalnum() or _byte == UNDERSCORE


@inlined
def cut_words(text: Bytes, position: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Append the spans of a text's ASCII words to the ``used`` ones; returns how many there are.

    A word is a run of word bytes, inner apostrophes included, without a final ``'s``.
    """
    while True:
        while position < end and not IN_WORD[text[position]]:
            position += 1
        if position == end:
            return used
        begins[used] = position
        while position < end and (
            IN_WORD[text[position]]
            or (text[position] == APOSTROPHE and position + 1 < end and IN_WORD[text[position + 1]])
        ):
            position += 1
        size = position - begins[used]
        if size > 2 and text[position - 1] == SMALL_S and text[position - 2] == APOSTROPHE:  # noqa: PLR2004 - x's
            size -= 2
        sizes[used] = size
        used += 1


@inlined
def cut_pieces(text: Bytes, begin: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Append the spans between separators to the ``used`` ones; returns how many there are."""
    for stop in range(begin, end + 1):
        if stop == end or text[stop] == SEPARATOR:
            begins[used], sizes[used] = begin, stop - begin
            used += 1
            begin = stop + 1
    return used


@inlined
def next_character(text: Bytes, position: int, end: int) -> int:
    """Where the UTF-8 character after the one at ``position`` begins, at most ``end``."""
    position = min(position + 1, end)
    while position < end and (text[position] & 0xC0) == 0x80:  # noqa: PLR2004 - continues a character
        position += 1
    return position


@inlined
def cut_windows(text: Bytes, begin: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Append the spans of all runs of five characters to the ``used`` ones; returns how many.

    A shorter text is one span.
    """
    stop = begin
    for _ in range(WINDOW):
        stop = next_character(text, stop, end)
    while True:
        begins[used], sizes[used] = begin, stop - begin
        used += 1
        if stop == end:
            return used
        begin = next_character(text, begin, end)
        stop = next_character(text, stop, end)


@compiled
def cut_rows(
    text: Bytes,
    starts: Ints,
    modes: NDArray[np.int8],
    begins: Ints,
    sizes: Numbers,
    counts: Numbers,
) -> int:
    """Cut each row ``text[starts[i]:starts[i + 1]]`` by its mode; returns the number of elements.

    A row without words holds the empty word.
    """
    # A loop apart from ``number_rows``, because in a loop that only looks up keys the processor
    # has many look-ups under way at once.
    used = 0
    for row in range(counts.size):
        first, start, end = used, starts[row], starts[row + 1]
        if modes[row] == WORDS:
            used = cut_words(text, start, end, begins, sizes, used)
        elif modes[row] == PIECES:
            used = cut_pieces(text, start, end, begins, sizes, used)
        else:
            used = cut_windows(text, start, end, begins, sizes, used)
        if used == first:  # two texts without words are duplicates of each other
            begins[used], sizes[used] = start, 0
            used += 1
        counts[row] = used - first
    return used


@inlined
def eight(text: Bytes, index: int) -> np.uint64:
    """Eight bytes as one number, the first the lowest."""
    at, value = np.uint64(index), np.uint64(0)
    for byte in range(8):  # the compiler turns this loop into one load
        value |= np.uint64(text[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return value


@inlined
def key_of(text: Bytes, begin: int, size: int) -> np.uint64:
    """An element of up to eight bytes as one number; of a longer one a hash, highest bit set."""
    # A short element has the highest bit set only if its eighth byte is not ASCII. It is then
    # compared like a long one, which costs time but stays exact.
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
    """Copy a run of bytes."""
    for index in range(size):  # assigning a slice would compile its error message: two seconds
        into[into_begin + index] = text[begin + index]


@compiled
def number_rows(
    spans: Spans, known: Vocabulary, size: int, first_row: int, out: Numbers
) -> tuple[int, int]:
    """Write the numbers of each row's distinct elements to ``out``, and set the row's count.

    Returns how many elements are known now and how many entries of ``out`` are used.
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
            # Written out: a function of all these arrays takes more than twice as long.
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
            out[used] = number  # kept only if it is new in this row: no branch to predict
            used += seen[number] != first_row + row
            seen[number] = first_row + row
            element += 1
        counts[row] = used - first
    return size, used


@compiled
def hash_elements(arena: Bytes, ends: Ints, hashes: Keys) -> None:
    """64-bit hash of each element's bytes (FNV-1a, then mixed)."""
    for number in range(hashes.size):
        state = _BASIS
        for index in range(ends[number], ends[number + 1]):
            state = (state ^ np.uint64(arena[index])) * _PRIME
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
    """Sort ascending (Shell sort with Ciura's gaps)."""
    # Compiles in a fraction of the time that numba's own sort takes, and long rows are rare.
    for gap in _GAPS:
        for index in range(gap, run.size):
            value, hole = run[index], index
            while hole >= gap and run[hole - gap] > value:
                run[hole] = run[hole - gap]
                hole -= gap
            run[hole] = value


@compiled
def rank_rows(tokens: Numbers, starts: Ints, rank: Numbers) -> None:
    """Replace numbers by ranks and sort each row ascending, in place."""
    ranked = np.empty(SHORT_ROW, np.int32)
    for row in range(starts.size - 1):
        run = tokens[starts[row] : starts[row + 1]]
        for index in range(run.size):
            run[index] = rank[run[index]]
        if run.size > SHORT_ROW:
            sort_long(run)
            continue
        for index in range(run.size):
            ranked[index] = run[index]
        # The position of an element is the number of smaller ones. Quadratic, but without a
        # branch to mispredict: faster than sorting up to ``SHORT_ROW`` elements.
        for value in ranked[: run.size]:
            smaller = 0
            for other in ranked[: run.size]:
                smaller += other < value
            run[smaller] = value
