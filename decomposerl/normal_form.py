"""Unicode normal forms in linear time.

``unicodedata.normalize`` sorts a run of combining marks by insertion, so 200 kB of accents on
one letter take seconds and 2 MB hours. Here a long run is first split by combining grapheme
joiners, as in the Stream-Safe Text Format (Unicode, annex 15). Other text comes out the same.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
LONGEST_RUN, _PIECE = 128, 30  # combining marks of a run that is split, and of each piece
_JOINER = "\u034f"


def normalised(form: Form, text: str) -> str:
    """``text`` in a normal form; a long run of combining marks is split before."""
    if text.isascii():
        return text
    sample = text[::LONGEST_RUN]  # a long run contains at least one of these characters
    if not sample.isascii() and any(map(_is_mark, sample)):
        text = _runs().sub(_split, text)
    return unicodedata.normalize(form, text)


def _split(run: re.Match[str]) -> str:
    marks = "".join(unicodedata.normalize("NFKD", mark) for mark in run[0])
    return _JOINER.join(marks[at : at + _PIECE] for at in range(0, len(marks), _PIECE))


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """Whether normalising sorts it among combining marks, as itself or decomposed."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) != 0


@lru_cache(maxsize=1)
def _runs() -> re.Pattern[str]:
    marks = "".join(filter(_is_mark, map(chr, range(0x300, 0x1F000))))
    return re.compile(f"[{marks}]{{{LONGEST_RUN},}}")
