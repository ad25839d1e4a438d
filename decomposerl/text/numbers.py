"""Numbers and dates that a text asserts, with their units.

What a text denies ("never mentions 1867") or reports of a claim is left out. A range or a
hedge ("between", "about", "at least") makes the whole text indefinite.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from decomposerl.text.words import CARDINALS, MONTHS, stem, word_set

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
