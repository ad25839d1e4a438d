"""Compiled loops of ``word_sets`` that cut texts into elements: spans of their bytes.

A text is cut into ASCII words, into pieces between separators (for texts with other
characters, which were split before), or into windows of five characters.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]

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
