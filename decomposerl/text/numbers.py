"""Numbers and dates that a text asserts, with their units.

What a text denies ("never mentions 1867") or reports of a claim is left out. A range or a
hedge ("between", "about", "at least") makes the whole text indefinite. ``lists_more`` compares the
years and numbers that a statement lists or spans with those that a text holds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from decomposerl.text.words import CARDINALS, MONTHS, WORD, parse, stem, word_set

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


_SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "trillion": 10**12,
}  # fmt: skip
UNITS = frozenset(
    map(
        stem,
        word_set(
            """percent percentage second minute hour day week month year decade century mile km
            kilometre kilometer metre meter m cm mm foot feet inch yard acre hectare kg kilogram
            gram ton tonne pound dollar euro crown degree time times litre liter gallon point"""
        ),
    )
)
_SIGNS = {"$": stem("dollar"), "€": stem("euro"), "£": stem("pound")}
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
_TENS, _ONES = (
    "|".join(word for word, value in CARDINALS.items() if low <= value <= high)
    for low, high in ((20, 90), (1, 9))
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\b"
_TOKEN = re.compile(
    rf"""(?P<range>(?<![\w.,])\d[\d.,]*\s?[-–—/]\s?\d[\w.,]*(?:[-–—/]\d+)*)
    |(?P<date>\b(?:(?:{_DAY}\s(?:of\s)?)(?i:{_MONTH})\b\.?(?:,?\s\d{{4}}\b)?
        |(?i:{_MONTH})\b\.?\s(?:{_DAY}(?:,?\s\d{{4}}\b)?|\d{{4}}\b)))
    |(?P<number>[$€£]?\b(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)(?!\w))
    |(?P<ten>\b(?i:{_TENS})[-\s](?i:{_ONES})\b)
    |(?P<word>\w+(?:['’]\w+)?|%)
    |(?P<mark>[,;:.!?()—–])""",
    re.VERBOSE,
)
_DENIES = word_set(
    """not never no none neither nor without cannot rather instead unlike claim claims claimed
    claim's if whether unclear unknown contrary supposedly"""
)
_HEDGES = word_set(
    """about around approximately approx roughly nearly almost circa ca over under above below
    least most than up between until till before after since early late mid estimated
    maximum minimum or to through some several"""
)
_NOT_ONE = word_set("no any some every each the this that which another")
_YEARS = range(1000, 2100)
_NEAR, _TAIL = 60, 3
"""Characters, and words, between a number and a word that can name what it counts."""
_ROUND = 1000  # from here on trailing zeros may come from rounding
_DIGITS = 300  # more do not fit a float


class Date(NamedTuple):
    """A date; 0 stands for a part that is not given."""

    year: int = 0
    month: int = 0
    day: int = 0

    def differs(self, other: "Date") -> bool:
        """Whether both give some part and disagree on it."""
        return any(a and b and a != b for a, b in zip(self, other, strict=True))


@dataclass(slots=True)
class Number:
    """A number written to the nearest ``step``, in ``unit``, at characters ``[start, end)``.

    ``after`` holds the stems of up to three words that follow. ``year``: it could be one.
    ``whole``: something is a part of it ("of the five").
    """

    value: float
    step: float
    unit: str
    start: int
    end: int
    year: bool
    whole: bool
    after: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Values:
    """Dates with their character offsets, numbers, and whether the text is definite."""

    dates: list[tuple[Date, int, int]] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    definite: bool = True

    def date(self) -> Date | None:
        """The one date or year; None where there is none, or several that differ."""
        found = [date for date, _, _ in self.dates]
        found += [Date(int(number.value)) for number in self.numbers if number.year]
        if not self.definite or not found or any(map(found[0].differs, found)):
            return None
        return max(found, key=lambda date: (date.month > 0, date.day > 0, date.year > 0))

    def spans(self) -> list[tuple[int, int]]:
        """Offsets of all dates and numbers."""
        numbers = [(number.start, number.end) for number in self.numbers]
        return [*((start, end) for _, start, end in self.dates), *numbers]


def read_values(text: str) -> Values:
    """The dates and numbers that ``text`` asserts. Linear in its length; never raises."""
    values = Values()
    before: list[str] = []
    denied = False
    for token in _TOKEN.finditer(text):
        word = token[0].lower()
        if token.lastgroup == "mark" or word == "but":
            denied = False
        elif word in _DENIES or word.endswith(("n't", "n’t")):
            denied = True
        elif not denied:
            _take(values, token, word, before)
        before = [*before[-_TAIL + 1 :], word]
    return values


def _take(values: Values, token: re.Match[str], word: str, before: list[str]) -> None:
    if token["range"]:
        values.definite = False
    elif token["date"]:
        values.dates.append((_date(word), *token.span()))
        values.definite &= _HEDGES.isdisjoint(before[-2:]) and before[-1:] != ["by"]
    elif (read := _number(token, word, before)) is not None:
        value, step, unit = read
        values.definite &= _HEDGES.isdisjoint(before) and before[-1:] != ["by"]
        year = word.isdigit() and int(value) in _YEARS  # a float is looked for one by one
        values.numbers.append(Number(value, step, unit, *token.span(), year, "of" in before[-2:]))
    elif values.numbers:
        _follow(values.numbers[-1], token, word)


def _follow(number: Number, token: re.Match[str], word: str) -> None:
    """A word after a number: a scale, or a part of what it counts."""
    if token.start() - number.end > _NEAR or len(number.after) == _TAIL:
        return
    scale = _SCALES.get(word)
    if scale and not number.after:
        number.value, number.year, number.end = number.value * scale, False, token.end()
        number.step *= scale if scale >= _ROUND else 1
        return
    root = stem("percent" if word == "%" else word)
    if not number.after and root in UNITS:
        number.unit = number.unit or root
    number.after.append(root)


def _date(text: str) -> Date:
    name = re.search(_MONTH, text)
    digits = [int(number) for number in re.findall(r"\d+", text)]
    year = next((number for number in digits if number in _YEARS), 0)
    day = next((number for number in digits if number not in _YEARS), 0)
    return Date(year, [month[:3] for month in MONTHS].index(name[0][:3]) + 1 if name else 0, day)


def _number(token: re.Match[str], word: str, before: list[str]) -> tuple[float, float, str] | None:
    """Value, step and unit of a token that is a number."""
    if token["number"]:
        plain = word.lstrip("$€£").replace(",", "")[:_DIGITS]
        step = 10.0 ** -len(plain.partition(".")[2])
        if step == 1 and float(plain) >= _ROUND:
            step = 10.0 ** (len(plain) - len(plain.rstrip("0")))
        return float(plain), step, _SIGNS.get(word[0], "")
    if word == "one" and _NOT_ONE.intersection(before[-1:]):
        return None
    parts = re.split(r"[-\s]", word) if token["ten"] else [word]
    if not all(part in CARDINALS for part in parts):
        return None
    return float(sum(CARDINALS[part] for part in parts)), 1.0, ""
