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
"""Table of numbers (-1: free), bytes of all elements, where each ends, key of each."""

APOSTROPHE, SEPARATOR, UNDERSCORE, SMALL_S = 39, 0, 95, 115
WORDS, PIECES, WINDOWS = 0, 1, 2
WINDOW = 5
KEY_BYTES = 8
_LONG = np.uint64(1 << 63)
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


LOWERED = np.zeros(256, np.uint8)
"""Per byte its lower case if it is an ASCII letter, digit or underscore, else 0."""
for _byte in range(128):
    if chr(_byte).isalnum() or _byte == UNDERSCORE:
        LOWERED[_byte] = ord(chr(_byte).lower())


def _is_continuation(byte: int) -> bool:
    """Whether a byte continues a UTF-8 character."""
    return (byte & 0xC0) == 0x80  # noqa: PLR2004 - the two highest bits


is_continuation = inlined(_is_continuation)


def _read_word(text: Bytes, place: int, end: int, out: Bytes) -> tuple[int, int]:
    """Lower-case the next ASCII word at or after ``place`` into ``out``.

    A word is a run of word bytes, inner apostrophes included, without a final ``'s``.
    Gives its length (0: there is none) and where it ended in the text.
    """
    while place < end and LOWERED[text[place]] == 0:
        place += 1
    size = 0
    while place < end:
        byte = LOWERED[text[place]]
        if byte == 0:
            inner = size > 0 and place + 1 < end and LOWERED[text[place + 1]] > 0
            if not inner or text[place] != APOSTROPHE:
                break
            byte = np.uint8(APOSTROPHE)
        out[size] = byte
        size += 1
        place += 1
    if size > 2 and out[size - 1] == SMALL_S and out[size - 2] == APOSTROPHE:  # noqa: PLR2004 - x's
        size -= 2
    return size, place


read_word = inlined(_read_word)


def _copy_bytes(text: Bytes, start: int, stop: int, out: Bytes) -> int:
    """Write ``text[start:stop]`` to the start of ``out``; gives how many bytes."""
    for place in range(stop - start):
        out[place] = text[start + place]
    return stop - start


copy_bytes = inlined(_copy_bytes)


def _read_piece(text: Bytes, place: int, end: int, out: Bytes) -> tuple[int, int]:
    """Copy the piece from ``place`` to the next separator; gives length and the place after."""
    stop = place
    while stop < end and text[stop] != SEPARATOR:
        stop += 1
    return copy_bytes(text, place, stop, out), stop + 1


read_piece = inlined(_read_piece)


def _read_window(text: Bytes, place: int, end: int, out: Bytes) -> tuple[int, int]:
    """Copy five UTF-8 characters from ``place``, fewer at the end; gives length and next place.

    The next place lies past ``end`` when this window reached it.
    """
    stop, after = place, place
    for character in range(WINDOW):
        stop += 1 if stop < end else 0
        while stop < end and is_continuation(text[stop]):
            stop += 1
        if character == 0:
            after = stop
    return copy_bytes(text, place, stop, out), after if stop < end else end + 1


read_window = inlined(_read_window)


def _read_element(text: Bytes, place: int, end: int, mode: int, out: Bytes) -> tuple[int, int]:
    """Copy the next element at or after ``place`` to ``out``; gives its length and next place.

    The next place lies past ``end`` when the row is over.
    """
    if mode == PIECES:
        return read_piece(text, place, end, out)
    if mode == WINDOWS:
        return read_window(text, place, end, out)
    size, place = read_word(text, place, end, out)
    return size, place + (place == end)


read_element = inlined(_read_element)


def _key_of(word: Bytes, words: Hashes, size: int) -> np.uint64:
    """A word of up to eight bytes as one number; of a longer one its hash, highest bit set.

    A short word has the highest bit set only where its eighth byte is not ASCII; it is then
    treated like a long one. ``words`` is the same memory as ``word``.
    """
    if size == KEY_BYTES:
        return np.uint64(words[0])
    if size < KEY_BYTES:
        return np.uint64(words[0]) & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
    key = np.uint64(0)
    for place in range(size):
        key = (key ^ np.uint64(word[place])) * _PRIME
    return (key ^ (key >> _HALF)) | _LONG


key_of = inlined(_key_of)


def _is_element(
    number: int, key: np.uint64, word: Bytes, size: int, arena: Bytes, ends: Ints
) -> bool:
    """Whether the element with this number and the same key is this word."""
    if key < _LONG:
        return True
    start, place = ends[number], 0
    same = bool(ends[number + 1] - start == size)
    while same and place < size:
        same = bool(arena[start + place] == word[place])
        place += 1
    return same


is_element = inlined(_is_element)


def _slot_of(
    key: np.uint64, word: Bytes, size: int, table: Numbers, arena: Bytes, ends: Ints, keys: Hashes
) -> np.int64:
    """The slot of the table that holds the element's number, or the free slot for it."""
    mask = table.size - 1
    slot = np.int64((key * _MIX) >> _HALF) & mask
    while table[slot] >= 0 and not (
        keys[table[slot]] == key and is_element(table[slot], key, word, size, arena, ends)
    ):
        slot = (slot + 1) & mask
    return slot


slot_of = inlined(_slot_of)


def _number_rows(
    text: Bytes,
    starts: Ints,
    modes: NDArray[np.int8],
    known: Vocabulary,
    size: int,
    seen: Numbers,
    first_row: int,
    out: Numbers,
    counts: Numbers,
) -> tuple[int, int]:
    """Write the distinct element numbers of each row to ``out``, how many to ``counts``.

    Row i is ``text[starts[i]:starts[i + 1]]``; one without a word holds the empty word.
    ``seen`` says per number the last row with it, counted from ``first_row``. Gives the
    number of elements known, ``size`` before, and the length of ``out``.
    """
    table, arena, ends, keys = known
    word, used = np.empty((text.size // 8 + 2) * 8, np.uint8), 0
    words = word.view(np.uint64)
    for row in range(counts.size):
        first, place, end = used, starts[row], starts[row + 1]
        while place <= end:
            length, place = read_element(text, place, end, modes[row], word)
            if length == 0 and used > first and modes[row] == WORDS:
                break
            key = key_of(word, words, length)
            slot = slot_of(key, word, length, table, arena, ends, keys)
            if table[slot] < 0:
                table[slot], keys[size] = size, key
                ends[size + 1] = ends[size] + length
                arena[ends[size] : ends[size + 1]] = word[:length]
                size += 1
            number = table[slot]
            if seen[number] != first_row + row:
                seen[number] = first_row + row
                out[used] = number
                used += 1
        counts[row] = used - first
    return size, used


number_rows = compiled(_number_rows)


def _hash_elements(arena: Bytes, ends: Ints, hashes: Hashes) -> None:
    """64 bits of each element that depend on all its bytes (FNV-1a, then mixed)."""
    for number in range(hashes.size):
        state = _BASIS
        for place in range(ends[number], ends[number + 1]):
            state = (state ^ np.uint64(arena[place])) * _PRIME
        state = (state ^ (state >> _HALF)) * _MIX
        hashes[number] = state ^ (state >> _HALF)


hash_elements = compiled(_hash_elements)


def _refill(table: Numbers, keys: Hashes, size: int) -> None:
    """Enter the first ``size`` elements into a table of free slots."""
    mask = table.size - 1
    for number in range(size):
        slot = np.int64((keys[number] * _MIX) >> _HALF) & mask
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
