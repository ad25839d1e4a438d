"""Compiled loops that decode a UTF-8 text: the kind of each code point, and where words end.

A text is decoded once, and each further loop does one thing to all of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.code_points import APOSTROPHE, BREAK, SPACE, WORD, Codes, Ints, Kinds
from decomposerl.kernels.jit import compiled, internal

Text = NDArray[np.uint8]
_OF_TWO_BYTES, _OF_THREE, _OF_FOUR = 0xC0, 0xE0, 0xF0  # least first byte in UTF-8
_PRIME = np.int64(1_099_511_628_211)  # of FNV-1a
_STRAIGHT, _S = np.int32(ord("'")), ord("s")


class Texts(NamedTuple):
    """Text i is ``data[offsets[i]:offsets[i + 1]]``, in UTF-8."""

    data: Text
    offsets: Ints


class DecodedText(NamedTuple):
    """A text by code points: kinds, lower case, and the hash of the word up to each.

    ``words`` are the positions where words end, ``sentences`` those where sentences end.
    """

    kinds: Kinds
    codes: Codes
    hashes: Ints
    words: Ints
    sentences: Ints


@compiled
def decode(texts: Texts, number: int, kinds_of: Kinds, lower_of: Codes, out: DecodedText) -> int:
    """Write kind and lower case of each code point of a text; returns their number."""
    text = texts.data[texts.offsets[number] : texts.offsets[number + 1]]
    kinds, codes = out.kinds, out.codes
    position = count = 0
    while position < len(text):
        code = np.int64(text[position])
        position += 1
        if code >= _OF_TWO_BYTES:
            # The lead byte keeps 7 - (bytes of the character) value bits.
            more = 1 + int(code >= _OF_THREE) + int(code >= _OF_FOUR)
            code &= 0x3F >> more
            for _ in range(more):
                code = code << 6 | np.int64(text[position]) & 0x3F
                position += 1
        kinds[count], codes[count] = kinds_of[code], lower_of[code]
        count += 1
    # A closing line break: the loops below stop at it and need not compare with the length.
    kinds[count], codes[count] = BREAK, 0
    return count


@internal
def count_tokens(kinds: Kinds, length: int) -> tuple[int, int]:
    """Number of runs without white space, and the union of the kinds of all code points."""
    spaces, seen = 0, 0
    for position in range(length):  # no branch: where a run ends is unpredictable
        spaces += kinds[position] & ~kinds[position + 1] & SPACE  # the last one of a run
        seen |= kinds[position]
    starts_at_once = length > 0 and not kinds[0] & SPACE
    ends_in_space = length > 0 and kinds[length - 1] & SPACE != 0
    return spaces // SPACE + starts_at_once - ends_in_space, seen


@compiled
def mix(value: np.int64, code: np.int32) -> np.int64:
    """Hash of ``value`` and one more code point."""
    return (value ^ code) * _PRIME


@compiled
def find_words(decoded: DecodedText, length: int) -> int:
    """Hash all runs of word characters and list where they end; returns their number."""
    kinds, codes, hashes, words, _ = decoded
    count, value = 0, np.int64(0)
    for position in range(length):
        # -1 has all bits set: outside a word the hash starts again from 0, without a branch. Each
        # position is written to the list, and the list grows only where a word ends.
        is_word = np.int64(kinds[position]) & WORD
        value = mix(value, codes[position]) & -is_word
        hashes[position], words[count] = value, position + 1
        count += int(is_word & ~np.int64(kinds[position + 1]))
    return count


@internal
def join_words(decoded: DecodedText, count: int) -> int:
    """Join runs with one apostrophe between them and cut possessives; returns the number left."""
    kinds, codes, hashes, words, _ = decoded
    kept = after = 0
    for number in range(count):
        end = words[number]
        if end <= after:
            continue
        after, value = end, hashes[end - 1]
        while kinds[after] & APOSTROPHE and kinds[after + 1] & WORD:
            end, value = after, mix(value, _STRAIGHT)
            after += 1
            while kinds[after] & WORD:
                value = mix(value, codes[after])
                after += 1
            hashes[after - 1] = value
        possessive = after == end + 2 and codes[end + 1] == _S
        words[kept] = end if possessive else after
        kept += 1
    return kept


@internal
def start_of(kinds: Kinds, position: int) -> int:
    """Where the word that ends at ``position`` starts."""
    while position > 0 and kinds[position - 1] & WORD:
        position -= 1
        if position > 1 and kinds[position - 1] & APOSTROPHE and kinds[position - 2] & WORD:
            position -= 1
    return position
