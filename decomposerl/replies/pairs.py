"""Questions with their answers as a model writes them out in one reply.

Beside ``Q1: …`` and ``A1: …`` a model writes ``1. Q: …``, ``Question 1: …``, ``**Q1:** …``,
``Follow up: …`` with ``Intermediate answer: …``, a numbered question with an answer below it, the
text on the line after its label, or both on one line. Where no pair is labelled: rows of a table,
numbered questions with an answer as a bullet, or a list of questions before one of as many answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from decomposerl.replies.lines import bare, lines_of
from decomposerl.replies.lists import LISTS


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


def count_sure(text: str) -> int:
    """How many lines of a reply say that the writer is sure of an answer."""
    return sum(LISTS["sure"].fullmatch(bare(line)) is not None for line in lines_of(text))


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
        question, answer = _question(line), LISTS["answer_below"].fullmatch(below)
        if question and answer and not (LISTS["other_label"].match(below) or below.endswith("?")):
            pairs.append((question, answer["text"]))
    return tuple(pairs)


def _two_lists(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The questions before the heading of the answers with these, if the numbers are the same."""
    heading = next(
        (place for place, line in enumerate(lines) if LISTS["answers"].fullmatch(line)), None
    )
    if heading is None:
        return ()
    asked = [LISTS["item"].fullmatch(line) for line in lines[:heading] if _question(line)]
    answers = [
        LISTS["item"].fullmatch(line) for line in lines[heading + 1 :] if not _question(line)
    ]
    questions = [item for item in asked if item]
    given = [item for item in answers if item]
    if [item["number"] for item in questions] != [item["number"] for item in given]:
        return ()
    return tuple(
        (LISTS["short_remark"].sub("", question["text"]), answer["text"])
        for question, answer in zip(questions, given, strict=True)
    )


def _question(line: str) -> str:
    """The text of a numbered question, without a remark behind it; empty for another line."""
    item = LISTS["item"].fullmatch(line)
    text = LISTS["short_remark"].sub("", item["text"]) if item else ""
    return text if text.endswith("?") else ""


def _pair_lines(text: str) -> Iterator[_Line]:
    """The questions and answers of a reply's lines, those without text left out."""
    label: _Line | None = None
    for line in (part for whole in lines_of(text) for part in LISTS["inline"].split(whole)):
        read = _read(line)
        if read is None and label is not None and not LISTS["other_label"].match(line):
            yield _Line(label.asks, label.number, line)
        if read is not None and read.text:
            yield read
        if read is not None or not LISTS["other_label"].match(line):
            label = read if read is not None and not read.text else None


def _read(line: str) -> _Line | None:
    labelled = LISTS["labelled"].fullmatch(line)
    if labelled is not None:
        text = labelled["text"].strip(" _*")
        return _Line(labelled["asks"] is not None, labelled["number"] or "", text)
    heading = LISTS["heading"].fullmatch(line)
    if heading is not None:
        return _Line(heading["asks"] is not None, heading["number"], "")
    numbered = LISTS["numbered_question"].fullmatch(line)
    return _Line(True, "", numbered["text"]) if numbered else None
