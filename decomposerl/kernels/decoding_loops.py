"""The compiled loops that spell a text: what each code point is, and where words end.

Take and give arrays alone; imported by other loops. A text is spelled once, and each further
loop does one thing to all of it. The line break that closes it spares the loops a look at
its length, and hardly any of them branches, because where a word ends is unforeseeable.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.code_points import APOSTROPHE, BREAK, SPACE, WORD
from decomposerl.kernels.jit import compiled, internal

Text = NDArray[np.uint8]
Kinds = NDArray[np.uint16]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
_OF_TWO_BYTES, _OF_THREE, _OF_FOUR = 0xC0, 0xE0, 0xF0  # least first byte in UTF-8
_PRIME = np.int64(1_099_511_628_211)
_STRAIGHT, _S = np.int32(ord("'")), ord("s")


class Texts(NamedTuple):
    """Text i is ``data[offsets[i]:offsets[i + 1]]``, in UTF-8."""

    data: Text
    offsets: Ints


class Spelled(NamedTuple):
    """A text by code points: kinds, lower case, and the hash of the word up to each.

    ``words`` are the places where words end, ``sentences`` those where sentences end.
    """

    kinds: Kinds
    codes: Codes
    hashes: Ints
    words: Ints
    sentences: Ints


@compiled
def spell(texts: Texts, number: int, kinds_of: Kinds, lower_of: Codes, into: Spelled) -> int:
    """Write kind and lower case of each code point of a text; gives how many there are."""
    text = texts.data[texts.offsets[number] : texts.offsets[number + 1]]
    kinds, codes = into.kinds, into.codes
    place = count = 0
    while place < len(text):
        code = np.int64(text[place])
        place += 1
        if code >= _OF_TWO_BYTES:
            more = 1 + int(code >= _OF_THREE) + int(code >= _OF_FOUR)
            code &= 0x3F >> more
            for _ in range(more):
                code = code << 6 | np.int64(text[place]) & 0x3F
                place += 1
        kinds[count], codes[count] = kinds_of[code], lower_of[code]
        count += 1
    kinds[count], codes[count] = BREAK, 0
    return count


@internal
def count_tokens(kinds: Kinds, length: int) -> tuple[int, int]:
    """Number of runs without white space, and the kinds of all code points."""
    spaces, seen = 0, 0
    for place in range(length):
        spaces += kinds[place] & ~kinds[place + 1] & SPACE  # the last one of a run
        seen |= kinds[place]
    starts_at_once = length > 0 and not kinds[0] & SPACE
    ends_in_space = length > 0 and kinds[length - 1] & SPACE != 0
    return spaces // SPACE + starts_at_once - ends_in_space, seen


@compiled
def mixed(value: np.int64, code: np.int32) -> np.int64:
    """Hash ``value`` with one code point more."""
    return (value ^ code) * _PRIME


@compiled
def find_words(spelled: Spelled, length: int) -> int:
    """Hash all runs of word characters and list where they end; gives their number."""
    kinds, codes, hashes, words, _ = spelled
    count, value = 0, np.int64(0)
    for place in range(length):
        is_word = np.int64(kinds[place]) & WORD
        value = mixed(value, codes[place]) & -is_word
        hashes[place], words[count] = value, place + 1
        count += int(is_word & ~np.int64(kinds[place + 1]))
    return count


@internal
def join_words(spelled: Spelled, count: int) -> int:
    """Join runs with one apostrophe between them and cut possessives off."""
    kinds, codes, hashes, words, _ = spelled
    kept = after = 0
    for number in range(count):
        end = words[number]
        if end <= after:
            continue
        after, value = end, hashes[end - 1]
        while kinds[after] & APOSTROPHE and kinds[after + 1] & WORD:
            end, value = after, mixed(value, _STRAIGHT)
            after += 1
            while kinds[after] & WORD:
                value = mixed(value, codes[after])
                after += 1
            hashes[after - 1] = value
        possessive = after == end + 2 and codes[end + 1] == _S
        words[kept] = end if possessive else after
        kept += 1
    return kept


@internal
def start_of(kinds: Kinds, place: int) -> int:
    """Where the word that ends at ``place`` starts."""
    while place > 0 and kinds[place - 1] & WORD:
        place -= 1
        if place > 1 and kinds[place - 1] & APOSTROPHE and kinds[place - 2] & WORD:
            place -= 1
    return place
