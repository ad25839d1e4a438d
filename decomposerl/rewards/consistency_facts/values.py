"""Numbers and dates that a text asserts, with what they measure.

Takes a text, gives a ``Said``: its dates and numbers, without those that it denies ("never
mentions 1867", "the claim says five"), and whether it is definite. A range or a hedge
("between", "about", "at least") makes it indefinite, and nothing indefinite contradicts.

Left out deliberately: conversion between units, eras before 1000, ordinals and fractions.
"""

import re
from dataclasses import dataclass

from decomposerl.rewards.consistency_facts.words import root, word_set

_NAMES = "january february march april may june july august september october november december"
MONTHS = tuple(_NAMES.split())
_MONTH = {name[:3]: place for place, name in enumerate(MONTHS, start=1)}
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_TEENS = "fifteen sixteen seventeen eighteen nineteen"
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
CARDINALS = {name: place for place, name in enumerate(f"{_ONES} {_TEENS}".split())} | _TENS
_SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_MONEY = {"$": "dollar", "€": "euro", "£": "pound"}
_UNIT_WORDS = word_set(
    """percent percentage second minute hour day week month year decade century mile kilometre
    kilometer km metre meter m cm mm foot feet inch yard acre hectare kg kilogram gram ton
    tonne pound dollar euro crown yen rupee degree time times litre liter gallon point"""
)
UNITS = frozenset(map(root, _UNIT_WORDS))
_M = rf"(?:{'|'.join(f'{m[:3]}(?:{m[3:]})?' for m in MONTHS)})\b\.?"
_TOKEN = re.compile(
    rf"""(?P<range>(?<![\w.,])\d[\d.,]*\s?[-–—/]\s?\d[\w.,]*(?:[-–—/]\d+)*)
    |(?P<date>\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<m1>{_M})(?:,?\s(?P<y1>\d{{4}})\b)?
        |(?=[jfmasond])(?P<m2>{_M})\s(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<y2>\d{{4}})\b)?
        |(?=[jfmasond])(?P<m3>{_M})\s(?P<y3>\d{{4}})\b))
    |(?P<number>(?P<money>[$€£])?\b(?P<digits>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w]))
    |(?P<ten>(?=[tfsen])(?:{"|".join(_TENS)})(?:[-\s](?P<one>one|two|three|four|five|six|seven|eight|nine))?\b)
    |(?P<word>\w+(?:['’]\w+)?)
    |(?P<percent>%)
    |(?P<mark>[,;:.!?()—–])""",
    re.VERBOSE | re.IGNORECASE,
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
_YEAR_DIGITS = 4
_NEAR = 60  # characters between a number and a word that is still about it
_ROUND = 1000  # from here on zeros at the end may come from rounding
_TAIL = 3  # words after a number that can name what it counts
_YEARS = range(1000, 2100)
_DIGITS = 300  # more do not fit a float


@dataclass(frozen=True, slots=True)
class Date:
    """A date; what is not said is None."""

    year: int | None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number from ``low`` to ``high``, written to the nearest ``step``, in ``unit``."""

    low: float
    high: float
    step: float = 1
    unit: str = ""


@dataclass(slots=True)
class Number:
    """A number as it stands: ``after`` are roots of what follows it, at most three words.

    ``base`` says that it is a whole of which something is a part ("of the five").
    ``year`` says that it could be a year. Offsets are those of its characters.
    """

    quantity: Quantity
    start: int
    end: int
    base: bool
    year: bool
    after: list[str]


@dataclass(slots=True)
class Said:
    """What a text asserts: ``dates`` with their offsets, ``numbers``; is it all definite?"""

    dates: list[tuple[Date, int, int]]
    numbers: list[Number]
    definite: bool

    def date(self) -> Date | None:
        """The one date or year; None where there are several that differ, or none."""
        if not self.definite:
            return None
        found = [date for date, _, _ in self.dates]
        found += [Date(int(n.quantity.low)) for n in self.numbers if n.year]
        if not found or any(dates_differ(found[0], other) for other in found):
            return None
        return max(
            found, key=lambda d: (d.month is not None, d.day is not None, d.year is not None)
        )


def dates_differ(one: Date, other: Date) -> bool:
    """Whether two dates disagree in a part that both state."""
    pairs = ((one.year, other.year), (one.month, other.month), (one.day, other.day))
    return any(a is not None and b is not None and a != b for a, b in pairs)


def quantities_differ(one: Quantity, other: Quantity) -> bool:
    """Whether no number fits both, where each may be rounded to its last written digit."""
    slack = max(one.step, other.step)
    return one.unit == other.unit and (
        other.low - one.high >= slack or one.low - other.high >= slack
    )


def read_values(text: str) -> Said:
    """Read the dates and numbers of ``text``; time is linear, nothing raises."""
    said = Said([], [], definite=True)
    before: list[str] = []
    denied = False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        word = token[0].lower()
        if kind == "mark":
            denied = False
        elif word in _DENIES or word.endswith(("n't", "n’t")):
            denied = True
        elif word == "but":
            denied = False
        elif not denied:
            _take(said, token, word, before)
        before = [*before[-_TAIL + 1 :], word]
    return said


def _take(said: Said, token: re.Match[str], word: str, before: list[str]) -> None:
    """Add what one token says."""
    if token["range"]:
        said.definite = False
    elif token["date"]:
        said.dates.append((_date(token), token.start(), token.end()))
        said.definite &= _HEDGES.isdisjoint(before[-2:]) and before[-1:] != ["by"]
    elif (quantity := _quantity(token, word, before)) is not None:
        said.definite &= _HEDGES.isdisjoint(before) and before[-1:] != ["by"]
        year = token["digits"] is not None and len(word) == _YEAR_DIGITS and quantity.low in _YEARS
        base = before[-1:] == ["of"] or before[-2:-1] == ["of"]
        said.numbers.append(Number(quantity, token.start(), token.end(), base, year, []))
    elif said.numbers:
        _follow(said.numbers[-1], token, word)


def _follow(number: Number, token: re.Match[str], word: str) -> None:
    """A word after a number: a scale, or part of what it counts."""
    if token.start() - number.end > _NEAR or len(number.after) == _TAIL:
        return
    scale = _SCALES.get(word)
    if scale and not number.after:
        old = number.quantity
        step = old.step * (scale if scale >= _ROUND else 1)
        number.quantity = Quantity(old.low * scale, old.high * scale, step, old.unit)
        number.year, number.end = False, token.end()
        return
    stem = "percent" if word == "%" else root(word)
    if not number.after and stem in UNITS and not number.quantity.unit:
        old = number.quantity
        number.quantity = Quantity(old.low, old.high, old.step, stem)
    number.after.append(stem)


def _date(token: re.Match[str]) -> Date:
    month = _MONTH[(token["m1"] or token["m2"] or token["m3"])[:3].lower()]
    day, year = token["d1"] or token["d2"], token["y1"] or token["y2"] or token["y3"]
    return Date(int(year) if year else None, month, int(day) if day else None)


def _quantity(token: re.Match[str], word: str, before: list[str]) -> Quantity | None:
    """The number that a token is; None for a word that is none."""
    if token["digits"]:
        plain = token["digits"].replace(",", "")[:_DIGITS]
        value = float(plain)
        step = 10.0 ** -len(plain.partition(".")[2])
        if step == 1 and value >= _ROUND:
            step = 10.0 ** (len(plain) - len(plain.rstrip("0")))
        return Quantity(value, value, step, _MONEY.get(token["money"] or "", ""))
    if token["ten"]:
        value = (
            _TENS[word.replace("-", " ").split()[0]] + CARDINALS[(token["one"] or "zero").lower()]
        )
        return Quantity(value, value)
    if word not in CARDINALS or (word == "one" and _NOT_ONE.intersection(before[-1:])):
        return None
    return Quantity(CARDINALS[word], CARDINALS[word])
