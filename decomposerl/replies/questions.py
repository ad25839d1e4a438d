"""The questions that a reply lists: in ``<question>`` tags, or in a list without tags.

A list without tags is read where each of its items is a question. Items have numbers, bullets or
labels (``Q1:``), or are at least two lines that are nothing but questions. Sentences around the
list, and questions to the reader there, are skipped; among its items they make it no list.
"""

import re
from collections.abc import Sequence

from decomposerl.replies.lines import lines_of, without_marks

_LABEL = re.compile(r"(?:sub-?question|question|q)\s?#?\d{0,2}\s?[:.)]\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\(?(\d{1,2})[.):]\s+")
_ITEM = re.compile(
    r"(?:\(?\d{1,2}\\?[.):]|\(?[a-z]\)|[-*•–—+](?:\s+\[[ x]?\])?)\s+"
    r"(?:(?:sub-?)?question\s?\d{0,2}\s?[:.]\s*)?"
    r"|(?:sub-?question|question|q)\s?#?\d{1,2}\s?[:.)]\s*",
    re.IGNORECASE,
)
_LABEL_ALONE = re.compile(r"(?:sub-?question|question|q)\s?#?\d{1,2}\s?[:.)]?", re.IGNORECASE)
_INLINE = re.compile(r"(?<=\?)[ \t,;]+(?=\(?\d{1,2}[.)]\s)")  # 1. Who? 2. When?
_REMARK = re.compile(r"(?<=\?)\s*[(\[][^()\[\]?]{1,80}[)\]]\.?\Z")
_TO_THE_READER = re.compile(
    r"\b(?:you|your)\b|\A(?:can|could|may|shall|should)\s(?:i|we)\b", re.IGNORECASE
)


def listed_questions(text: str) -> list[str]:
    """The questions of a list without tags, in order, without its marks.

    Raises:
        ValueError: the text is no such list.
    """
    lines = lines_of(_INLINE.sub("\n", text))
    lines = [line for line in lines if not _LABEL_ALONE.fullmatch(line)]
    items = [_item(line) for line in lines]
    if not any(items):
        items = _plain(lines)
    questions = [item for item in items if item]
    if not questions:
        raise ValueError("the reply lists no questions")
    first, last = items.index(questions[0]), len(items) - 1 - items[::-1].index(questions[-1])
    if not all(items[first : last + 1]):
        raise ValueError("text stands between the questions")
    beside = [without_marks(line) for line, item in zip(lines, items, strict=True) if not item]
    if any(_is_question(line) and not _TO_THE_READER.search(line) for line in beside):
        raise ValueError("a question stands beside the list")
    if not all(_is_question(one) and not _TO_THE_READER.search(one) for one in questions):
        raise ValueError("an item of the list is no question about the claim")
    return questions


def without_numbers(questions: Sequence[str]) -> list[str]:
    """Questions without ``Q1:``, and without 1, 2, 3 … where all of several carry them.

    A single "1. FC Torbeck" may be a name.
    """
    labelled = [_LABEL.sub("", one, count=1) if _LABEL.match(one) else one for one in questions]
    numbers = [_NUMBER.match(one) for one in labelled]
    counted = [int(number[1]) for number in numbers if number]
    if len(counted) > 1 and counted == list(range(1, len(questions) + 1)):
        return [_NUMBER.sub("", one, count=1) for one in labelled]
    return labelled


def _item(line: str) -> str:
    """The words of a list's item, empty where the line is none."""
    mark = _ITEM.match(line)
    return _REMARK.sub("", without_marks(line[mark.end() :])) if mark else ""


def _plain(lines: Sequence[str]) -> list[str]:
    """Lines of a list without marks; a lead or a closing sentence is empty."""
    plain = [without_marks(line) for line in lines]
    found = [line if _is_question(line) else "" for line in plain]
    return found if sum(map(bool, found)) > 1 else []


def _is_question(text: str) -> bool:
    """Whether a text ends as a question."""
    return text.rstrip("\"'”’*_ ").endswith("?")
