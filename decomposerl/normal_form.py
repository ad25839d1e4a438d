"""Unicode normal forms in linear time.

Takes a form and a text, gives the text in that form, as ``unicodedata.normalize`` does. That
sorts a run of combining marks by insertion, so 200 kB of accents on one letter take seconds
and 2 MB hours. Here a long run is first broken up by combining grapheme joiners, as in the
Stream-Safe Text Format (Unicode, annex 15); text without such a run comes out the same.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
LONGEST_RUN, _PIECE = 128, 30
"""Combining marks behind each other from which on they are broken up, and of each piece."""
_JOINER = "\u034f"


def normalised(form: Form, text: str) -> str:
    """``text`` in a normal form; a long run of combining marks is broken up before."""
    if text.isascii():
        return text
    places = text[::LONGEST_RUN]  # a long run holds one of them
    if not places.isascii() and any(map(_is_mark, places)):
        text = _runs().sub(_broken_up, text)
    return unicodedata.normalize(form, text)


def _broken_up(run: re.Match[str]) -> str:
    marks = "".join(unicodedata.normalize("NFKD", mark) for mark in run[0])
    return _JOINER.join(marks[at : at + _PIECE] for at in range(0, len(marks), _PIECE))


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """Whether it is sorted among combining marks, as itself or decomposed."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) != 0


@lru_cache(maxsize=1)
def _runs() -> re.Pattern[str]:
    marks = "".join(filter(_is_mark, map(chr, range(0x300, 0x1F000))))
    return re.compile(f"[{marks}]{{{LONGEST_RUN},}}")
