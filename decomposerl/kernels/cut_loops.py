"""The compiled loops of ``word_sets`` that cut texts into elements: spans of their bytes.

Takes and gives arrays alone. A text is cut into ASCII words, into pieces between
separators, or into windows of five characters.
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

IN_WORD = np.zeros(256, np.bool_)
"""Per byte whether it is an ASCII letter, digit or underscore."""
for _byte in range(128):
    IN_WORD[_byte] = chr(_byte).isalnum() or _byte == UNDERSCORE


@inlined
def cut_words(text: Bytes, place: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Write the spans of a text's ASCII words behind ``used`` others; gives how many there are.

    A word is a run of word bytes, inner apostrophes included, without a final ``'s``.
    """
    while True:
        while place < end and not IN_WORD[text[place]]:
            place += 1
        if place == end:
            return used
        begins[used] = place
        while place < end and (
            IN_WORD[text[place]]
            or (text[place] == APOSTROPHE and place + 1 < end and IN_WORD[text[place + 1]])
        ):
            place += 1
        size = place - begins[used]
        if size > 2 and text[place - 1] == SMALL_S and text[place - 2] == APOSTROPHE:  # noqa: PLR2004 - x's
            size -= 2
        sizes[used] = size
        used += 1


@inlined
def cut_pieces(text: Bytes, begin: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Write the spans between separators behind ``used`` others; gives how many there are."""
    for stop in range(begin, end + 1):
        if stop == end or text[stop] == SEPARATOR:
            begins[used], sizes[used] = begin, stop - begin
            used += 1
            begin = stop + 1
    return used


@inlined
def next_character(text: Bytes, place: int, end: int) -> int:
    """Where the UTF-8 character behind the one at ``place`` begins, at most ``end``."""
    place = min(place + 1, end)
    while place < end and (text[place] & 0xC0) == 0x80:  # noqa: PLR2004 - continues a character
        place += 1
    return place


@inlined
def cut_windows(text: Bytes, begin: int, end: int, begins: Ints, sizes: Numbers, used: int) -> int:
    """Write the spans of all runs of five characters behind ``used`` others.

    A shorter text is one span. Gives how many there are.
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
    """Cut each row ``text[starts[i]:starts[i + 1]]`` as its mode says; gives how many elements.

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
        if used == first:
            begins[used], sizes[used] = start, 0
            used += 1
        counts[row] = used - first
    return used
