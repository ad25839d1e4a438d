"""Questions with their answers as a model writes them out in one reply.

Beside ``Q1: …`` and ``A1: …`` a model writes ``1. Q: …``, ``Question 1: …``, ``**Q1:** …``,
``Follow up: …`` with ``Intermediate answer: …``, a numbered question with an answer below it, the
text on the line after its label, or both on one line. Where no pair is labelled: rows of a table,
numbered questions with an answer as a bullet, or a list of questions before one of as many answers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from decomposerl.replies.languages import ANSWER, QUESTION
from decomposerl.replies.lines import lines_of

_ASKING = rf"(?:sub-?|follow[-\s]?up\s)?(?:{QUESTION})|q|follow[-\s]?up|step(?=\s?\d)"
_ANSWERING = rf"(?:intermediate\s|final\s)?(?:{ANSWER})|a|result|response"
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

_ITEM = re.compile(r"\(?(?P<number>\d{1,2})[.)]\s+(?P<text>\S.*)")
_REMARK = re.compile(r"(?<=\?)\s*\([^()]{1,60}\)\Z")
_BULLET = re.compile(r"[-*•–→]\s+(?P<text>\S.*)")
_ANSWERS = re.compile(r"(?:the\s)?answers\s?:?", re.IGNORECASE)


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
    labelled = tuple(
        (question.text, answer.text)
        for question, answer in pairwise(_pair_lines(text))
        if question.asks and not answer.asks
        if answer.number in {"", question.number}
    )
    if labelled:
        return labelled
    lines = lines_of(text)
    return _rows(lines) or _two_lists(lines) or _bulleted(lines)


def _rows(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The question of each row of a table, with the cell behind it."""
    tables = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[0] == "|"
    ]
    return tuple(
        (question, answer)
        for cells in tables
        for question, answer in pairwise(cells)
        if question.endswith("?") and answer and not answer.endswith("?")
    )


def _bulleted(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each numbered question with the bullet on the line below it."""
    pairs = []
    for line, below in pairwise(lines):
        question, answer = _question(line), _BULLET.fullmatch(below)
        if question and answer and not (_OTHER_LABEL.match(below) or below.endswith("?")):
            pairs.append((question, answer["text"]))
    return tuple(pairs)


def _two_lists(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The questions before the heading of the answers with these, if the numbers are the same."""
    heading = next((place for place, line in enumerate(lines) if _ANSWERS.fullmatch(line)), None)
    if heading is None:
        return ()
    asked = [_ITEM.fullmatch(line) for line in lines[:heading] if _question(line)]
    answers = [_ITEM.fullmatch(line) for line in lines[heading + 1 :] if not _question(line)]
    questions = [item for item in asked if item]
    given = [item for item in answers if item]
    if [item["number"] for item in questions] != [item["number"] for item in given]:
        return ()
    return tuple(
        (_REMARK.sub("", question["text"]), answer["text"])
        for question, answer in zip(questions, given, strict=True)
    )


def _question(line: str) -> str:
    """The text of a numbered question, without a remark behind it; empty for another line."""
    item = _ITEM.fullmatch(line)
    text = _REMARK.sub("", item["text"]) if item else ""
    return text if text.endswith("?") else ""


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
