"""The years and numbers that a statement lists or spans, beside those that a text holds."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from decomposerl.text.words import CARDINALS, WORD, parse, stem

_YEAR = re.compile(r"1\d{3}|20\d{2}")
_DASH = re.compile(r"\s?[-–—/]\s?")
_JOINS = re.compile(
    r"\s?(?:,|,?\s?(?:(?:and|as well as|plus|followed by|then)\b|&)[^.;:!?()]{0,20})\s?"
)
_SPANS = re.compile(r"\s?(?:[-–—/]|to|through|until|till|up to)\s?(?:the year\s)?")
_LONGEST_SPAN = 200  # years between the ends of a range


class _Value(NamedTuple):
    """A number of a text: its stem, whether it can be a year, and its characters."""

    stem: str
    year: bool
    start: int
    end: int


def lists_more(statement: str, text: str) -> bool:
    """Whether a statement lists several numbers of which ``text`` holds some but not all.

    "In 1937 and 1936" lists both years, and so does "from 1936 to 1937"; a text that holds only
    one of them does not support it. A range in the text holds every year from end to end. A
    statement that denies something lists nothing.
    """
    if parse(statement).negated:
        return False
    held = _held(text)
    return any(not values <= held and not values.isdisjoint(held) for values in _listed(statement))


def _listed(statement: str) -> list[frozenset[str]]:
    """The values of each list or range of years, and of other numbers, in a statement."""
    values = _values(statement)
    lists: list[frozenset[str]] = []
    for alike in ([one for one in values if one.year], [one for one in values if not one.year]):
        run: set[str] = set()
        for one, other in pairwise(alike):
            between = statement[one.end : other.start]
            joined = _JOINS.fullmatch(between) or _SPANS.fullmatch(between)
            run = (run or {one.stem}) | {other.stem} if joined else set()
            lists += [frozenset(run)] if joined else []
    return lists


@lru_cache(maxsize=64)
def _held(text: str) -> frozenset[str]:
    """The numbers of a text, with the years inside its ranges."""
    values = _values(text)
    spans = (
        map(str, range(int(one.stem), int(other.stem) + 1))
        for one, other in pairwise(values)
        if one.year and other.year and _SPANS.fullmatch(text[one.end : other.start])
        if int(other.stem) - int(one.stem) <= _LONGEST_SPAN
    )
    return frozenset(one.stem for one in values).union(*spans)


def _values(text: str) -> list[_Value]:
    """The numbers of a text in order; 37 in 1936-37 is a year of the same century."""
    return list(_written_out(text, _numbers(text)))


def _numbers(text: str) -> Iterator[_Value]:
    for word in WORD.finditer(text):
        root = stem(word[0].lower())
        if word[0][0].isdigit() or CARDINALS.get(word[0].lower(), 0) > 1:
            yield _Value(root, _YEAR.fullmatch(word[0]) is not None, *word.span())


def _written_out(text: str, values: Iterator[_Value]) -> Iterator[_Value]:
    before: _Value | None = None
    for value in values:
        one = value
        short = before is not None and before.year and len(value.stem) == 2  # noqa: PLR2004 - digits
        if before is not None and short and _DASH.fullmatch(text[before.end : value.start]):
            one = value._replace(stem=before.stem[:2] + value.stem, year=True)
        yield one
        before = one
