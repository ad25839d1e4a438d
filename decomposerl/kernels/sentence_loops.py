"""The compiled loops that find where sentences end in a spelled text.

Take and give arrays alone; imported by other loops. They decide as ``text_scan.sentences``
does, which is the readable definition.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.code_points import (
    BREAK,
    CLOSER,
    DECIMAL,
    DIGIT,
    OPENING,
    QUOTE,
    SPACE,
    TERMINATOR,
    UPPER,
    WORD,
)
from decomposerl.kernels.jit import internal

MOST_LETTERS = 7  # of an abbreviation, packed into one integer
BEFORE_DIGIT = 1
BEGIN: Any = np.int64(0)  # a plain 0 would be compiled as a literal, once more

Kinds = NDArray[np.uint16]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
_STOP, _HYPHEN, _LOW_LINE = ord("."), ord("-"), ord("_")
_BEYOND_ASCII = 0x80


@internal
def is_marker(kinds: Kinds, codes: Codes, start: int, stop: int) -> bool:
    """Whether a number or one letter, after signs at most, is all before the full stop."""
    while start < stop and not kinds[start] & WORD:
        start += 1
    if kinds[start] & DECIMAL:
        while kinds[start] & DECIMAL:
            start += 1
        return start == stop
    return start + 1 == stop and codes[start] != _LOW_LINE


@internal
def is_dotted(kinds: Kinds, codes: Codes, place: int, stop: int) -> bool:
    """Whether letters with full stops between them, such as U.S or J.-P, end at ``stop``."""
    while kinds[place] & WORD and not kinds[place] & DECIMAL and codes[place] != _LOW_LINE:
        place += 1
        if place == stop:
            return True
        if codes[place] != _STOP:
            return False
        place += 1
        if codes[place] == _HYPHEN:
            place += 1
    return False


@internal
def packed(codes: Codes, start: int, stop: int) -> int:
    """The letters in one integer; 0 where they are many or not all ASCII."""
    if stop - start > MOST_LETTERS:
        return 0
    value = 0
    for place in range(start, stop):
        if codes[place] >= _BEYOND_ASCII:
            return 0
        value = value << 8 | codes[place]
    return value


@internal
def holds(numbers: Ints, number: int) -> bool:
    """Whether ``number`` is one of a few."""
    found = False
    for known in numbers:
        found |= bool(known == number)
    return found


@internal
def begins(kinds: Kinds, place: int) -> int:
    """How a sentence begins at ``place``: UPPER, DIGIT or QUOTE kinds, 0 where none can."""
    kind = first = kinds[place]
    if kind & OPENING:
        first = kinds[place + 1]
        if first & OPENING:
            first = 0
    return int(first & (UPPER | DIGIT) | kind & QUOTE)


@internal
def is_end(
    kinds: Kinds, codes: Codes, start: int, marks: tuple[int, int, int], short: Ints
) -> bool:
    """Whether the sentence that starts at ``start`` ends with its marks.

    These are told by their first place, their end, and where the line goes on after them.
    """
    stop, closed, following = marks
    beginning = begins(kinds, following)
    if following == closed or beginning == 0:
        return False
    if closed > stop + 1 or codes[stop] != _STOP:
        return True
    if is_marker(kinds, codes, start, stop):
        return False
    end = stop
    while end > start and kinds[end - 1] & SPACE:
        end -= 1
    token = end
    while token > start and not kinds[token - 1] & SPACE:
        token -= 1
    while kinds[token] & OPENING:
        token += 1
    letters = packed(codes, token, end)
    if is_dotted(kinds, codes, token, end) or holds(short, letters << 1):
        return False
    return not (beginning & DIGIT and holds(short, letters << 1 | BEFORE_DIGIT))


@internal
def after_signs(kinds: Kinds, place: int) -> tuple[int, int]:
    """Where a run of terminators and closing signs ends, and where its line goes on."""
    while kinds[place] & TERMINATOR:
        place += 1
    while kinds[place] & CLOSER:
        place += 1
    closed = place
    while kinds[place] & (SPACE | BREAK) == SPACE:
        place += 1
    return closed, place


@internal
def find_sentences(kinds: Kinds, codes: Codes, length: int, short: Ints, sentences: Ints) -> int:
    """Fill ``sentences`` with the places where they end; gives their number.

    ``short`` are the abbreviations, packed and shifted left by one; the lowest bit says that
    a word is one before a digit only.
    """
    count = place = 0
    start = BEGIN
    while start < length:
        if kinds[start] & SPACE:  # between two sentences
            place = start = start + 1
            continue
        while not kinds[place] & (TERMINATOR | BREAK):
            place += 1
        ended = True
        if kinds[place] & TERMINATOR:
            stop = place
            closed, place = after_signs(kinds, stop)
            ended = is_end(kinds, codes, start, (stop, closed, place), short)
        if ended:
            sentences[count] = place
            count, start = count + 1, place
    return count
