"""The numbers of passages that a reply selects.

Numbers behind a label or in a sentence that calls them relevant, between them commas, "and", line
breaks or a dash for a range, each with a remark in brackets or behind a dash at most. None of them
may be denied or unsure ("3, but not 4", "1 or so"), and no other number may stand beside them.
"""

import re

from decomposerl.replies.lines import lines_of
from decomposerl.replies.lists import says_none
from decomposerl.replies.wordings import Wordings

_PASSAGES = Wordings("passages")
_LONGEST = 300  # of a line that selects passages; patterns stay linear below it
_MOST_IN_RANGE = 50


def read_numbers(text: str, most: int) -> tuple[int, ...] | None:
    """The distinct numbers of 1..``most`` that a reply selects, in order; none is no number.

    None where a number is out of range, denied or not clear. Lines without a number are passed
    over; where one line is the numbers alone, so are sentences about them.
    """
    lines = [_plain(line) for line in lines_of(text) if len(line) <= _LONGEST]
    with_numbers = [line for line in lines if re.search(r"\d", line)]
    if lines and _PASSAGES["none_first"].match(lines[0]):
        return ()
    if not with_numbers:
        silent = says_none(text) or any(map(_PASSAGES["no_passage"].match, lines))
        return () if silent else None
    own = _PASSAGES["own_number"].fullmatch(lines[0])
    if own and len(lines) == 1 and not _PASSAGES["denied"].search(lines[0]):
        with_numbers = [own["number"]]
    read = [_read_line(line) for line in with_numbers]
    alone = [numbers for numbers, plain in read if plain and numbers]
    if not alone and any(numbers is None for numbers, _ in read):
        return None
    selected = alone or [numbers or () for numbers, _ in read]
    distinct = dict.fromkeys(number for numbers in selected for number in numbers)
    return tuple(distinct) if distinct and all(1 <= one <= most for one in distinct) else None


def _plain(line: str) -> str:
    """A line without asides and code marks; numbers in a JSON list or between blanks alone."""
    plain = _PASSAGES["aside"].sub("", line.replace("，", ",")).strip(" `\t")
    listed = _PASSAGES["json"].fullmatch(line.strip())
    if listed is not None:
        return listed["numbers"].replace('"', "").strip()
    return ", ".join(plain.split()) if _PASSAGES["blanks"].fullmatch(plain) else plain


def _read_line(line: str) -> tuple[tuple[int, ...] | None, bool]:
    """The numbers of a line, and whether it has nothing beside them but a label."""
    match = _PASSAGES["line"].fullmatch(_PASSAGES["list_mark"].sub("", line))
    if _PASSAGES["denied"].search(line):
        return None, False
    if match is None:
        return _with_reasons(line), False
    tail = match["tail"].strip(" .;,")
    if tail and not (_PASSAGES["of_passages"].search(line) or _PASSAGES["remark"].match(tail)):
        return None, False
    return _expanded(match["numbers"]), not tail


def _with_reasons(line: str) -> tuple[int, ...] | None:
    """The numbers of passages before a reason that names no other passage."""
    numbers: list[int] = []
    for clause in _PASSAGES["next_passage"].split(line):
        reasoned = _PASSAGES["reasoned"].fullmatch(clause)
        head, reason = (reasoned["head"], reasoned["reason"]) if reasoned else (clause, "")
        match = _PASSAGES["line"].fullmatch(head)
        named = _PASSAGES["of_passages"].search(head)
        found = _expanded(match["numbers"]) if match and named else None
        if not found or not set(map(int, _PASSAGES["named"].findall(reason))) <= set(found):
            return None
        numbers.extend(found)
    return tuple(numbers)


def _expanded(text: str) -> tuple[int, ...] | None:
    """Numbers and ranges one by one; None where a range is no range."""
    numbers: list[int] = []
    for part in _PASSAGES["range"].finditer(text):
        first, last = int(part["single"] or part["first"]), int(part["single"] or part["last"])
        if not part["single"] and not 0 < last - first <= _MOST_IN_RANGE:
            return None
        numbers.extend(range(first, last + 1))
    return tuple(numbers)
