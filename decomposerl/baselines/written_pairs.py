"""Questions with their answers as a model writes them out in one reply.

Beside ``Q1: …`` and ``A1: …`` a model writes ``1. Q: …``, ``Question 1: …``, ``**Q1:** …``,
``Follow up: …`` with ``Intermediate answer: …``, a numbered question with an answer below it, the
text on the line after its label, or both on one line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from decomposerl.replies.lines import lines_of

_ASKING = r"(?:sub-?|follow[-\s]?up\s)?question|q|follow[-\s]?up|step(?=\s?\d)"
_ANSWERING = r"(?:intermediate\s|final\s)?answer|a|result|response"
_LIST_MARK = r"(?:[-*•–→]\s*|\(?\d{1,2}[.)]\s+)?"
_LABELLED = re.compile(
    rf"{_LIST_MARK}[_*]*(?:(?P<asks>{_ASKING})|(?:{_ANSWERING})|(?=#\d))\s?"
    r"(?:#?\(?(?P<number>\d{1,2})\)?_?(?:\s?\([^()]{0,40}\))?(?:\s?[:.)]|\s[-–—])|_?:)[_*]*\s*(?P<text>.*)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:(?P<asks>question)|answer)\s?(?P<number>\d{0,2})", re.IGNORECASE)
_NUMBERED_QUESTION = re.compile(r"\(?(?P<number>\d{1,2})[.):]\s+(?P<text>\S.*\?)\W{0,2}")
_INLINE = re.compile(
    r"(?:(?<=[?.!\"”])|(?<=\bno)|(?<=\byes))\s+(?=(?:sure|a\s?\d{1,2}|a|answer\s?\d{0,2}|intermediate\sanswer)\s?:)",
    re.IGNORECASE,
)
_OTHER_LABEL = re.compile(
    r"[-*•\s]*(?:sure|enough|sufficient|verdict|sub-?claim|step|summary|conjunction|predicate)"
    r"\b[\s\w]{0,12}[:?]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A question or an answer, its number, empty where it has none, and its text."""

    asks: bool
    number: str
    text: str


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The questions of a reply with the answers after them, in order.

    Where both have a number, it must be the same. A question without an answer before the next
    question is no pair, nor is an answer without its question.
    """
    return tuple(
        (question.text, answer.text)
        for question, answer in pairwise(_pair_lines(text))
        if question.asks and not answer.asks
        if answer.number in {"", question.number}
    )


def _pair_lines(text: str) -> Iterator[_Line]:
    """The questions and answers of a reply's lines, those without text left out."""
    label: _Line | None = None
    for line in (part for whole in lines_of(text) for part in _INLINE.split(whole)):
        read = _read(line)
        if read is None and label is not None and not _OTHER_LABEL.match(line):
            yield _Line(label.asks, label.number, line)
        if read is not None and read.text:
            yield read
        if read is not None or not _OTHER_LABEL.match(line):
            label = read if read is not None and not read.text else None


def _read(line: str) -> _Line | None:
    labelled = _LABELLED.fullmatch(line)
    if labelled is not None:
        text = labelled["text"].strip(" _*")
        return _Line(labelled["asks"] is not None, labelled["number"] or "", text)
    heading = _HEADING.fullmatch(line)
    if heading is not None:
        return _Line(heading["asks"] is not None, heading["number"], "")
    numbered = _NUMBERED_QUESTION.fullmatch(line)
    return _Line(True, "", numbered["text"]) if numbered else None
