"""What each Unicode code point is to the text rules, as arrays that compiled loops look up.

The arrays hold what ``str`` says of single characters, so the loops and the definitions in
``text_scan`` cannot disagree about one. ``HARD`` marks code points that cannot be judged
alone: those that composing may change, some capitals, and letters of scripts without spaces.
"""

import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.unspaced import unspaced

WORD = 1  # \w
SPACE = 2  # \s
BREAK = 4  # ends a line for str.splitlines; always SPACE too
UPPER = 8
DIGIT = 16
DECIMAL = 32  # \d
TERMINATOR = 64
CLOSER = 128
OPENING = 256
QUOTE = 512
APOSTROPHE = 1024
HARD = 2048

QUOTES = "\"'“‘«"
OPENINGS = QUOTES + "([{—–-"
TERMINATORS = ".!?…"
CLOSERS = "\"'”’)]»"
APOSTROPHES = "'’"
ODD_CAPITALS = "Σİ"  # their lower case depends on the neighbours, or is two characters

Kinds = NDArray[np.uint16]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]

_ASSIGNED = 0x40000  # above are only tags, selectors and private use: no kind, no case
_SIGNS = {
    BREAK: "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029",
    TERMINATOR: TERMINATORS,
    CLOSER: CLOSERS,
    OPENING: OPENINGS,
    QUOTE: QUOTES,
    APOSTROPHE: APOSTROPHES,
    HARD: ODD_CAPITALS,
}


@lru_cache(maxsize=1)
def code_points() -> tuple[Kinds, Codes]:
    """Kinds and lower case of every code point, shape (0x110000,) each.

    The lower case of an apostrophe is the straight one, that of an odd capital itself.
    """
    kinds = np.zeros(sys.maxunicode + 1, np.uint16)
    lower = np.arange(sys.maxunicode + 1, dtype=np.int32)
    # Filled from str itself: a quarter of a second once per process beats a table that may age.
    characters = list(map(chr, range(_ASSIGNED)))
    for kind, predicate in _PREDICATES.items():
        has_kind = np.fromiter(map(predicate, characters), np.bool_, _ASSIGNED)
        kinds[:_ASSIGNED][has_kind] |= kind
    for kind, signs in _SIGNS.items():
        kinds[[ord(sign) for sign in signs]] |= kind
    kinds[list(_joining_the_character_before())] |= HARD
    changed = [character for character in characters if character != character.lower()]
    for character in set(changed).difference(ODD_CAPITALS):
        lower[ord(character)] = ord(character.lower())
    lower[[ord(sign) for sign in APOSTROPHES]] = ord("'")
    return kinds, lower


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _moves(character: str) -> bool:
    """Whether composing a text may change or move the character."""
    return unicodedata.combining(character) > 0 or not unicodedata.is_normalized("NFC", character)


_PREDICATES: dict[int, Callable[[str], bool]] = {
    WORD: _is_word,
    SPACE: str.isspace,
    UPPER: str.isupper,
    DIGIT: str.isdigit,
    DECIMAL: str.isdecimal,
    HARD: lambda character: _moves(character) or unspaced(character),
}


def _joining_the_character_before() -> set[int]:
    """Code points that composing may join to the one before, though they do not combine."""
    vowels_and_finals = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # of Hangul syllables
    decompositions = map(unicodedata.decomposition, map(chr, range(_ASSIGNED)))
    # One in angle brackets is a compatibility form, which NFC leaves alone.
    pairs = (parts.split() for parts in decompositions if " " in parts and parts[0] != "<")
    return vowels_and_finals | {int(second, 16) for _, second in pairs}
