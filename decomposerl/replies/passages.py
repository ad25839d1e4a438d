"""The numbers of passages that a reply selects.

Numbers behind a label or in a sentence that calls them relevant, between them commas, "and", line
breaks or a dash for a range, each with a remark in brackets or behind a dash at most. None of them
may be denied or unsure ("3, but not 4", "1 or so"), and no other number may stand beside them.
"""

import re

from decomposerl.replies.lines import lines_of
from decomposerl.replies.lists import says_none

_LONGEST = 300  # of a line that selects passages; patterns stay linear below it
_NO_PASSAGE = re.compile(
    r"(?:there\s(?:is|are)\s)?(?:none|no)\s(?:of\s)?(?:(?:the|these|those|given|numbered|listed"
    r"|relevant|above|provided)\s)*(?:passages?|them|these|those|is|are|bears?|holds?)\b"
    r"(?![^.]*\b(?:except|but|other|apart|besides)\b)[^\d]*",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\((?=[^()]*[a-z])[^()]*\)|[\"“„][^\"“”]*[\"”“]", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:not|none|or|except|but|without|neither|nor|excluding|cannot|never|irrelevant|unless|if"
    r"|maybe|perhaps|unrelated)\b|n't\b",
    re.IGNORECASE,
)
_ONE = r"(?:passages?\s?)?[\[(]?#?\s?\d{1,6}[\])]?"
_JOIN = r"\s?(?:,\s?and\s|[,;/&]|\sand\s|\sas\swell\sas\s|\splus\s|\]\s?(?=\[)|(?:-|–|—|\sto\s))\s?"
_NUMBERS = rf"{_ONE}(?:{_JOIN}{_ONE})*(?:\[\d{{1,6}}\])*"
_LEAD = r"(?:[-*•]\s+)?(?:[^\d\[\]]{0,80}?(?:[:=]|\b(?:passages?|numbers?|is|are|read)))?"
_LINE = re.compile(
    rf"(?P<lead>{_LEAD})\s?(?P<numbers>{_NUMBERS})(?P<tail>(?:\s?[:–—]|\s-|\.)?(?:\s[^\d]*)?|[.;,])",
    re.IGNORECASE,
)
_NONE_FIRST = re.compile(r"\W*NONE[,;.:]?\s(?:although|though|as|since|because|while)\b")
_JSON = re.compile(r"\{\s*\"[a-z_ ]{1,30}\"\s*:\s*\[([\d,\s\"]*)\]\s*\}", re.IGNORECASE)
_BLANKS = re.compile(r"\d{1,6}(?:\s\d{1,6})+")
_OWN_NUMBER = re.compile(r"(\d{1,6})\.\s(?:it|this|because)\s[^\d]*", re.IGNORECASE)
_REASONED = re.compile(
    r"(?P<head>[^;:]*?\d[\])]?)"
    r"(?:,\s(?=because|since|as|which)|\s(?=because|since)|\s?:\s(?=[a-z]))(?P<reason>.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\bpassages?\s#?(\d{1,6})", re.IGNORECASE)
_NEXT_PASSAGE = re.compile(r";\s(?=passages?\b)", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,6})\D{0,3}(?:[-–—]|\bto\b)\D{0,3}?(\d{1,6})|(\d{1,6})", re.IGNORECASE)
_LIST_MARK = re.compile(r"(?:\[?\d{1,2}[.)]\s+|[-*•]\s+)(?=\W{0,2}passages?\b)", re.IGNORECASE)
_OF_PASSAGES = re.compile(r"\bpassages?\b", re.IGNORECASE)
_REMARK = re.compile(
    r"[:–—-]|(?:is|are|hold|bear|contain|answer|give|have|should|would)s?\b", re.IGNORECASE
)
_MOST_IN_RANGE = 50


def read_numbers(text: str, most: int) -> tuple[int, ...] | None:
    """The distinct numbers of 1..``most`` that a reply selects, in order; none is no number.

    None where a number is out of range, denied or not clear. Lines without a number are passed
    over; where one line is the numbers alone, so are sentences about them.
    """
    lines = [_plain(line) for line in lines_of(text) if len(line) <= _LONGEST]
    with_numbers = [line for line in lines if re.search(r"\d", line)]
    if lines and _NONE_FIRST.match(lines[0]):
        return ()
    if not with_numbers:
        silent = says_none(text) or any(map(_NO_PASSAGE.match, lines))
        return () if silent else None
    own = _OWN_NUMBER.fullmatch(lines[0]) if len(lines) == 1 else None
    read = [
        _read_line(own[1] if own and not _DENIED.search(lines[0]) else one) for one in with_numbers
    ]
    alone = [numbers for numbers, plain in read if plain and numbers]
    if not alone and any(numbers is None for numbers, _ in read):
        return None
    found = [number for numbers in alone or (each for each, _ in read) for number in numbers or ()]
    if not found or not all(1 <= number <= most for number in found):
        return None
    return tuple(dict.fromkeys(found))


def _plain(line: str) -> str:
    """A line without asides and code marks; numbers in a JSON list or between blanks alone."""
    plain = _ASIDE.sub("", line.replace("，", ",")).strip(" `\t")
    listed = _JSON.fullmatch(line.strip())
    if listed is not None:
        return listed[1].replace('"', "").strip()
    return ", ".join(plain.split()) if _BLANKS.fullmatch(plain) else plain


def _read_line(line: str) -> tuple[tuple[int, ...] | None, bool]:
    """The numbers of a line, and whether it has nothing beside them but a label."""
    match = _LINE.fullmatch(_LIST_MARK.sub("", line))
    if _DENIED.search(line):
        return None, False
    if match is None:
        return _with_reasons(line), False
    tail = match["tail"].strip(" .;,")
    if tail and not (_OF_PASSAGES.search(line) or _REMARK.match(tail)):
        return None, False
    return _expanded(match["numbers"]), not tail


def _with_reasons(line: str) -> tuple[int, ...] | None:
    """The numbers of passages before a reason that names no other passage."""
    numbers: list[int] = []
    for clause in _NEXT_PASSAGE.split(line):
        reasoned = _REASONED.fullmatch(clause)
        head, reason = (reasoned["head"], reasoned["reason"]) if reasoned else (clause, "")
        match = _LINE.fullmatch(head)
        found = _expanded(match["numbers"]) if match and _OF_PASSAGES.search(head) else None
        if not found or not set(map(int, _NAMED.findall(reason))) <= set(found):
            return None
        numbers.extend(found)
    return tuple(numbers)


def _expanded(text: str) -> tuple[int, ...] | None:
    numbers: list[int] = []
    for first, last, single in _RANGE.findall(text):
        if single:
            numbers.append(int(single))
        elif 0 < int(last) - int(first) <= _MOST_IN_RANGE:
            numbers.extend(range(int(first), int(last) + 1))
        else:
            return None
    return tuple(numbers)
