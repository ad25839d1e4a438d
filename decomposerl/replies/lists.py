"""Lists and questions in a reply: items of a list, one next question, or that none is left.

A reader gives the content, or None where the reply does not hold it. Lines before, between and
after items are passed over. An item is one line, behind a label or a number; its label may stand
on the line before it.
"""

import re
from collections.abc import Sequence

from decomposerl.replies.languages import QUESTION
from decomposerl.replies.lines import bare, lines_of, one_line, without_marks

MOST_ITEMS = 20
"""Beyond so many items of a list a model repeats itself."""
_NUMBER = (
    rf"(?:(?:sub-?question|{QUESTION}|sub[-\s]?claim|predicate|step|q|p)\s?)?[\[(]?#?(\d{{1,2}})"
    r"(?:\s?[\])]?\s?[.):\]](?!\d)|\s[–—-](?=\s))"
)
_NUMBERED = re.compile(rf"{_NUMBER}\s*(\S.*)", re.IGNORECASE)
_OPEN_NUMBER = re.compile(_NUMBER, re.IGNORECASE)
_BULLET = re.compile(r"(?:[-*–]\s+|•\s*|\(?[a-h]\)\s+)(\S.*)")
_BEFORE_QUESTION = re.compile(
    rf"\A(?:[-*•]\s+)?(?:{_NUMBER}|[-*•]\s+|[^:?]{{0,60}}\b(?:questions?|ask|follow[-‐‑\s]?ups?)\b[^:：?]{{0,30}}[:：]"
    r"|(?:q|next|reply|sure|yes|no)\s?\d{0,2}\s?:|(?:yes|no|sure|okay)\s?[.,!]\s)\s*",
    re.IGNORECASE,
)
_QUESTION_TAG = re.compile(r"</?(?:(?:next|sub|follow_?up)_?)?question>", re.IGNORECASE)
# A sentence about the question behind it, on its line.
_ABOUT_IT = re.compile(
    r"(?<=[^?]\?)[\"'”]?\s+(?:This|That|It|Answering|Because|Since|If)\b[^?]{1,300}[.!]\Z"
)
_REMARK = re.compile(r"(?<=\?)[\"'”]?\s*\([^()]*\)\s*\Z")
_ASKED = re.compile(r"\?[\"'”)]?\W*(?:[\w\s]{0,40}[:=]\s*)?\W*(?:yes|no)?\W*\Z", re.IGNORECASE)
_TAIL = 80  # of a line: what may stand behind its question; the pattern stays linear below it
_NONE_FIRST = re.compile(
    r"\W*none\s*(?:[.,;:!(—–-].*|(?:needed|left|required)\b.*)?", re.IGNORECASE
)
_NONE_LAST = re.compile(r".*(?:[:=.—–-]|\bis|\bwith|\breply)\s*\W?(?:NONE|None)\W*")
_STEP = re.compile(r"\A(?:next\s)?step\s?\d{0,2}\s?[:.)–-]\s*", re.IGNORECASE)
_NO_MORE = re.compile(
    r"\bno\s(?:(?:further|more|additional|other|remaining|new|follow[-\s]?up)\s?){1,3}"
    r"(?:questions?|steps?|follow[-\s]?ups?|look-?ups?|checks?|information)?\b"
    r"|\bno\s(?:questions?|steps?)\s(?:is|are|remains?)\s(?:needed|required|necessary|left)\b"
    r"|\bnothing\s(?:(?:else|more|further)\s)?(?:(?:is|remains|needs)\s)?(?:left|needed|to\s(?:be\s)?"
    r"(?:ask|check|look))"
    r"|\b(?:all|each|every)\s(?:of\s)?(?:the\s)?(?:parts?|facts?)\b[^.]{0,40}\s(?:have|has|been|are|is)"
    r"\s[^.]{0,20}(?:asked|addressed|covered|dealt|checked|answered|verified|looked)"
    r"|\b(?:questions?|steps?|follow[-\s]?ups?)\s(?:is|are)\s(?:not|no\slonger)\s(?:needed|required"
    r"|necessary)",
    re.IGNORECASE,
)


def says_none(text: str) -> bool:
    """Whether some line of a reply is the word none, behind a label or before a remark."""
    return any(map(_is_none, lines_of(text)))


def says_no_more(text: str) -> bool:
    """Whether a reply says that nothing is left to ask: none, or a sentence to that effect."""
    return says_none(text) or any(map(_NO_MORE.search, lines_of(text)))


def read_list(text: str) -> tuple[str, ...] | None:
    """The items of a numbered list, one a line; of a bulleted list where there are no numbers.

    The numbers count up from 1. The word none instead of a list is the empty list.
    """
    lines = _joined(lines_of(text))
    numbered = [item for line in lines if (item := _NUMBERED.match(line))]
    if [int(item[1]) for item in numbered] != list(range(1, len(numbered) + 1)):
        return None
    if says_none(text) and not numbered:
        return ()
    items = numbered or [item for line in lines if (item := _BULLET.match(line))]
    texts = (without_marks(item[item.re.groups]) for item in items)
    return tuple(text for text in texts if text) or None


def read_items(text: str) -> tuple[str, ...] | None:
    """The first ``MOST_ITEMS`` distinct items of a list of questions.

    Without numbers that count up and without bullets, each line that is a question is an item.
    Items that differ in letter case or white space alone are one item.
    """
    items = read_list(text)
    if items is None:
        asked = (line for line in _joined(lines_of(text)) if _ASKED.search(line[-_TAIL:]))
        items = tuple(without_marks(_unnumbered(line)) for line in asked)
    return distinct(items or ())[:MOST_ITEMS] or None


def distinct(items: Sequence[str]) -> tuple[str, ...]:
    """The items on one line each, without those that repeat an earlier one in any letter case."""
    first: dict[str, str] = {}
    for item in map(one_line, items):
        first.setdefault(item.casefold(), item)
    return tuple(first.values())


def read_question(text: str) -> str | None:
    """The one line of a reply that is a question, without a label or number before it.

    A tag around it, and a remark behind it in brackets or as a sentence of its own, are dropped.
    """
    untagged = lines_of(_QUESTION_TAG.sub("\n", text))
    lines = (_ABOUT_IT.sub("", _REMARK.sub("", line)) for line in untagged)
    plain = (_BEFORE_QUESTION.sub("", line, count=1) for line in lines)
    questions = [line for line in map(without_marks, plain) if line.endswith("?")]
    return questions[0] if len(questions) == 1 else None


def _is_none(line: str) -> bool:
    plain = _STEP.sub("", line)
    plain = _unnumbered(plain)
    return bare(plain) == "none" or bool(
        _NONE_FIRST.fullmatch(plain) or _NONE_LAST.fullmatch(plain)
    )


def _unnumbered(line: str) -> str:
    """The line without a number or numbered label before it."""
    number = _OPEN_NUMBER.match(line)
    return line[number.end() :].strip() if number else line


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines; a number or label without text is joined with the line after it."""
    whole: list[str] = []
    for line in lines:
        if whole and _OPEN_NUMBER.fullmatch(whole[-1]) and not _OPEN_NUMBER.match(line):
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
    return whole
