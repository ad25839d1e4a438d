"""A text in normal form, with the way back to the original's offsets.

Takes a text, gives its normal form: Unicode's compatibility form, case folded, runs of white
space as one space, quote marks and dashes in one shape, invisible characters gone, white
space and punctuation trimmed at both ends. Each character of the form knows the stretch of
the original that it comes from.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.normal_form import normalised

# Before the compatibility form, which would make two marks of one, or a space and an accent.
_MARKS = {ord(mark): "'" for mark in '"“”„‟«»‘’‚‛‹›ʼ`´′″'}
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-")
_WORDS = re.compile(r"\S+")
_EDGES = " '.,;:!?-()[]…*_"


@dataclass(frozen=True, slots=True)
class NormalText:
    """``text`` is the form; its character i comes from ``[starts[i], ends[i])`` of the original.

    Stretches are in order and either equal (one character became several) or disjoint.
    """

    text: str
    starts: list[int]
    ends: list[int]

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The original's offsets of ``text[start:end]``.

        None where an end would cut a character of the original in two.
        """
        inside_first = start > 0 and self.starts[start - 1] == self.starts[start]
        inside_last = end < len(self.text) and self.starts[end] == self.starts[end - 1]
        if start >= end or inside_first or inside_last:
            return None
        return self.starts[start], self.ends[end - 1]


def normal_form(text: str) -> str:
    """The normal form of ``text`` alone."""
    return normal_text(text).text


def normal_text(text: str) -> NormalText:
    """``text`` in normal form with its offsets. Linear; never raises."""
    if text.isascii():
        return _trimmed(*_ascii_form(text))
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    spaced = True  # leading white space goes
    for start, end in _clusters(text):
        form = _folded(text[start:end])
        if form == " " and spaced:
            continue
        spaced = form == " " or (spaced and not form)
        parts.append(form)
        starts += [start] * len(form)
        ends += [end] * len(form)
    return _trimmed("".join(parts), starts, ends)


def _ascii_form(text: str) -> tuple[str, list[int], list[int]]:
    """The same for ASCII, where one character stays one and needs no table."""
    words = list(_WORDS.finditer(text.translate(_MARKS).lower()))
    starts = [place for word in words for place in range(word.start(), word.end() + 1)]
    return " ".join(word[0] for word in words), starts[:-1], [place + 1 for place in starts[:-1]]


def _trimmed(whole: str, starts: list[int], ends: list[int]) -> NormalText:
    """The form without white space and punctuation at its ends."""
    left = len(whole) - len(whole.lstrip(_EDGES))
    right = len(whole.rstrip(_EDGES)) if left < len(whole) else left
    return NormalText(whole[left:right], starts[left:right], ends[left:right])


def _clusters(text: str) -> list[tuple[int, int]]:
    """A character with the combining ones after it: the least that can be normalised alone."""
    starts = [index for index, letter in enumerate(text) if not index or not _combines(letter)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


@lru_cache(maxsize=4096)
def _combines(letter: str) -> bool:
    """Whether the character can melt into the one before it."""
    first = unicodedata.normalize("NFKD", letter)[0]
    jamo = "\u1160" <= first <= "\u11ff"  # Korean vowels and finals
    return unicodedata.combining(first) != 0 or jamo


@lru_cache(maxsize=8192)
def _folded(cluster: str) -> str:
    """The normal form of one cluster; a space for white space, nothing for invisible ones."""
    if cluster.isspace():
        return " "
    form = normalised("NFKD", cluster.translate(_MARKS)).casefold()
    form = normalised("NFKC", form).translate(_DASHES)
    form = "".join(" " if c.isspace() else c for c in form if unicodedata.category(c) != "Cf")
    return form.strip() or (" " if form else "")
