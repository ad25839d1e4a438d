"""Compiled loops that find where sentences end in a decoded text.

They decide as ``text_scan.sentences``, the readable definition, does.
"""

from typing import Any

import numpy as np

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
    Codes,
    Ints,
    Kinds,
)
from decomposerl.kernels.jit import internal

MOST_LETTERS = 7  # of an abbreviation: they are packed into one integer, with a bit to spare
BEFORE_DIGIT = 1
BEGIN: Any = np.int64(0)  # for a literal 0 the callees would be compiled a second time

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
def is_dotted(kinds: Kinds, codes: Codes, position: int, stop: int) -> bool:
    """Whether letters with full stops between them, such as U.S or J.-P, end at ``stop``."""
    while kinds[position] & WORD and not kinds[position] & DECIMAL and codes[position] != _LOW_LINE:
        position += 1
        if position == stop:
            return True
        if codes[position] != _STOP:
            return False
        position += 1
        if codes[position] == _HYPHEN:
            position += 1
    return False


@internal
def pack_letters(codes: Codes, start: int, stop: int) -> int:
    """The letters as one integer; 0 where they are too many or not all ASCII."""
    if stop - start > MOST_LETTERS:
        return 0
    value = 0
    for position in range(start, stop):
        if codes[position] >= _BEYOND_ASCII:
            return 0
        value = value << 8 | codes[position]
    return value


@internal
def holds(numbers: Ints, number: int) -> bool:
    """Whether ``number`` is among ``numbers``."""
    is_known = False
    for known in numbers:  # a vector instruction compares several; leaving early would not
        is_known |= bool(known == number)
    return is_known


@internal
def begins(kinds: Kinds, position: int) -> int:
    """Which of the kinds UPPER, DIGIT and QUOTE begin a sentence at ``position``; 0 where none."""
    kind = first = kinds[position]
    if kind & OPENING:
        first = kinds[position + 1]
        if first & OPENING:  # only one opening sign is looked through, as in the definition
            first = 0
    return int(first & (UPPER | DIGIT) | kind & QUOTE)


@internal
def is_end(
    kinds: Kinds, codes: Codes, start: int, marks: tuple[int, int, int], short: Ints
) -> bool:
    """Whether the sentence that starts at ``start`` ends with its closing marks.

    ``marks``: their first position, their end, and where the line continues after them.
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
    # Compared as integers: numba is slow to compile strings and sets, and slow to compare them.
    letters = pack_letters(codes, token, end)
    if is_dotted(kinds, codes, token, end) or holds(short, letters << 1):
        return False
    return not (beginning & DIGIT and holds(short, letters << 1 | BEFORE_DIGIT))


@internal
def after_signs(kinds: Kinds, position: int) -> tuple[int, int]:
    """Where a run of terminators and closing signs ends, and where its line continues."""
    while kinds[position] & TERMINATOR:
        position += 1
    while kinds[position] & CLOSER:
        position += 1
    closed = position
    while kinds[position] & (SPACE | BREAK) == SPACE:
        position += 1
    return closed, position


@internal
def find_sentences(kinds: Kinds, codes: Codes, length: int, short: Ints, sentences: Ints) -> int:
    """Fill ``sentences`` with the positions where they end; returns their number.

    ``short`` holds the abbreviations as ``pack_letters`` gives them, shifted left by one; the
    lowest bit marks those that are abbreviations only before a digit.
    """
    count = position = 0
    start = BEGIN
    while start < length:
        if kinds[start] & SPACE:  # between two sentences
            position = start = start + 1
            continue
        while not kinds[position] & (TERMINATOR | BREAK):
            position += 1
        ended = True
        if kinds[position] & TERMINATOR:
            stop = position
            closed, position = after_signs(kinds, stop)
            ended = is_end(kinds, codes, start, (stop, closed, position), short)
        if ended:
            sentences[count] = position
            count, start = count + 1, position
    return count
