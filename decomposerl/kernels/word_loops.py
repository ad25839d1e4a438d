"""The compiled loops of ``word_sets``: bytes to numbered words, rows to ascending sets.

Takes and gives arrays alone. A word's number is found in an open-addressing table that
compares bytes, never hashes alone: two words share a number iff they are equal.

Left out deliberately: Unicode. Texts with other characters than ASCII arrive in pieces.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Hashes = NDArray[np.uint64]
Vocabulary = tuple[Numbers, Bytes, Ints, Hashes]
"""Table of numbers (-1: free), bytes of all words, where each ends, hash of each."""

APOSTROPHE, SEPARATOR, UNDERSCORE, SMALL_S = 39, 0, 95, 115
WORDS, PIECES, WINDOWS = 0, 1, 2
WINDOW = 5
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def _is_word(byte: int) -> bool:
    """Whether an ASCII byte is a letter, a digit or the underscore."""
    small = byte | 32
    return (97 <= small <= 122) or (48 <= byte <= 57) or byte == UNDERSCORE  # noqa: PLR2004 - ASCII


is_word = inlined(_is_word)


def _is_continuation(byte: int) -> bool:
    """Whether a byte continues a UTF-8 character."""
    return (byte & 0xC0) == 0x80  # noqa: PLR2004 - the two highest bits


is_continuation = inlined(_is_continuation)


def _next_word(text: Bytes, place: int, end: int) -> tuple[int, int]:
    """Start and end of the next run of word bytes, inner apostrophes included."""
    while place < end and not is_word(text[place]):
        place += 1
    start = place
    while place < end and (
        is_word(text[place])
        or (text[place] == APOSTROPHE and place + 1 < end and is_word(text[place + 1]))
    ):
        place += 1
    return start, place


next_word = inlined(_next_word)


def _next_unit(text: Bytes, place: int, end: int, mode: int) -> tuple[int, int, int]:
    """Start and end of the next set element at or after ``place``, and where to go on.

    The row is at its end when the third number passes ``end``.
    """
    if mode == WORDS:
        start, stop = next_word(text, place, end)
        return start, stop, stop if stop < end else end + 1
    stop = place
    if mode == PIECES:
        while stop < end and text[stop] != SEPARATOR:
            stop += 1
        return place, stop, stop + 1
    after = place
    for character in range(WINDOW):
        stop += 1 if stop < end else 0
        while stop < end and is_continuation(text[stop]):
            stop += 1
        after = stop if character == 0 else after
    return place, stop, after if stop < end else end + 1


next_unit = inlined(_next_unit)


def _lower(text: Bytes, start: int, end: int, out: Bytes) -> int:
    """Write ASCII bytes lower-cased, without a final ``'s``; gives how many."""
    size = end - start
    for place in range(size):
        byte = text[start + place]
        out[place] = byte + 32 if 65 <= byte <= 90 else byte  # noqa: PLR2004 - A to Z
    if size > 1 and out[size - 1] == SMALL_S and out[size - 2] == APOSTROPHE:
        size -= 2
    return size


lower = inlined(_lower)


def _hash_of(word: Bytes, start: int, end: int) -> np.uint64:
    """64 bits that depend on every byte (FNV-1a, then mixed)."""
    state = _BASIS
    for place in range(start, end):
        state = (state ^ np.uint64(word[place])) * _PRIME
    state = (state ^ (state >> _HALF)) * _MIX
    return state ^ (state >> _HALF)


hash_of = inlined(_hash_of)


def _slot_of(word: Bytes, start: int, end: int, key: np.uint64, known: Vocabulary) -> int:
    """The slot of the table that holds the word's number, or the free slot for it."""
    table, arena, ends, hashes = known
    mask = table.size - 1
    slot = np.int64(key & np.uint64(mask))
    while table[slot] >= 0:
        number = table[slot]
        first = ends[number]
        same = hashes[number] == key and ends[number + 1] - first == end - start
        place = 0
        while same and place < end - start:
            same = arena[first + place] == word[start + place]
            place += 1
        if same:
            break
        slot = (slot + 1) & mask
    return slot


slot_of = inlined(_slot_of)


def _number_of(word: Bytes, start: int, end: int, known: Vocabulary, size: int) -> int:
    """The word's number; ``size``, the next free one, if it is new (it is entered then)."""
    table, arena, ends, hashes = known
    key = hash_of(word, start, end)
    slot = slot_of(word, start, end, key, known)
    if table[slot] < 0:
        table[slot] = size
        hashes[size] = key
        ends[size + 1] = ends[size] + end - start
        for place in range(end - start):
            arena[ends[size] + place] = word[start + place]
    return table[slot]


number_of = inlined(_number_of)


def _number_rows(
    text: Bytes,
    starts: Ints,
    modes: NDArray[np.int8],
    known: Vocabulary,
    size: int,
    seen: Numbers,
    out: Numbers,
    counts: Numbers,
) -> tuple[int, int]:
    """Write the distinct word numbers of each row to ``out``, their number to ``counts``.

    Row i is ``text[starts[i]:starts[i + 1]]``. A row without a word holds the empty word.
    ``seen`` says per number the last row with it. Gives the size of the vocabulary and the
    length of ``out``.
    """
    scratch, used = np.empty(text.size + 1, np.uint8), 0
    for row in range(counts.size):
        first, place, end = used, starts[row], starts[row + 1]
        while place <= end:
            start, stop, place = next_unit(text, place, end, modes[row])
            if start == stop and used > first and modes[row] == WORDS:
                break
            if modes[row] == WORDS:
                stop = lower(text, start, stop, scratch)
                number = number_of(scratch, 0, stop, known, size)
            else:
                number = number_of(text, start, stop, known, size)
            size += number == size
            if seen[number] != row:
                seen[number] = row
                out[used] = number
                used += 1
        counts[row] = used - first
    return size, used


number_rows = compiled(_number_rows)


def _refill(table: Numbers, hashes: Hashes, size: int) -> None:
    """Enter the first ``size`` words into a table of free slots."""
    mask = table.size - 1
    for number in range(size):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number


refill = compiled(_refill)


def _rank_rows(tokens: Numbers, starts: Ints, rank: Numbers) -> None:
    """Replace numbers by ranks and sort each row ascending, in place."""
    for row in range(starts.size - 1):
        start, end = starts[row], starts[row + 1]
        for place in range(start, end):
            value, hole = rank[tokens[place]], place
            while hole > start and tokens[hole - 1] > value and place - start < 64:  # noqa: PLR2004 - short
                tokens[hole] = tokens[hole - 1]
                hole -= 1
            tokens[hole] = value
        if end - start > 64:  # noqa: PLR2004 - insertion is for short rows
            tokens[start:end].sort()


rank_rows = compiled(_rank_rows)
