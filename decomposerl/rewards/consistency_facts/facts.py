"""What each answer of a trace commits itself to: values under keys that can be compared."""

import re
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import NamedTuple, Protocol, Self

from decomposerl.rewards.consistency_facts.questions import Asked, read_question, roots
from decomposerl.rewards.consistency_facts.rows import read_tables
from decomposerl.text.families import root
from decomposerl.text.numbers import UNITS, read_values
from decomposerl.text.words import word_set

_ONCE = frozenset(map(root, word_set("founded born died built invented published released")))
_STOP = re.compile(r"[.!?:;](?:\s|$)|,\s")
_POLAR = re.compile(
    r"\W*(?:(?P<yes>yes|true|correct)|no|false|incorrect)"
    r"(?=\W*$|\s*[,.:;!—–]|\s-|\s(?:it|he|she|they|the|there|this|that)\b)(?!\W+and no\b)",
    re.IGNORECASE,
)
_NAME = r"[^\W\d_a-z][\w'’]+(?: [^\W\d_a-z][\w'’]+)+"
_LIST = re.compile(
    rf"\b\w{{3,}}s\b(?:\W+\w+){{0,5}}(:|,? namely:?) ({_NAME}(?:(?:,? and|,) {_NAME})+)"
    r"(?=[.!?](?:\s|$)|\s*$)"
)


class Value(Protocol):
    """What can be compared with another of its type."""

    def differs(self, other: Self, /) -> bool:
        """Whether the two cannot both hold."""


class Amount(NamedTuple):
    """A number, written to the nearest ``step``, in ``unit``."""

    value: float
    step: float = 1.0
    unit: str = ""

    def differs(self, other: "Amount") -> bool:
        """Whether both are in one unit and further apart than rounding explains."""
        gap = abs(self.value - other.value)
        return self.unit == other.unit and gap >= max(self.step, other.step)


class Fact(NamedTuple):
    """The value of a cycle under ``key``, read where another fact has that key."""

    cycle: int
    key: tuple[Hashable, ...]
    value: Callable[[], Value | None]


class Texts:
    """Reads each distinct text of a batch once."""

    def __init__(self) -> None:
        self.question = cache(read_question)
        self.values = cache(read_values)
        self.tables = cache(read_tables)


def facts(cycle: int, question: str, answer: str, texts: Texts) -> Iterator[Fact]:
    """All facts of one cycle: what the question asks for, and a date that it holds."""
    asked = texts.question(question)
    if asked.key is None:
        return
    if asked.kind == "when":
        yield Fact(cycle, ("when", asked.key), lambda: texts.values(answer).date())
    elif asked.kind in {"how_many", "amount"}:
        yield Fact(cycle, (asked.kind, asked.key), lambda: amount(asked, answer, texts))
    elif asked.kind == "yes_no" and (polar := _POLAR.match(answer)) and asked.affirms is not None:
        holds = Amount((polar["yes"] is not None) == asked.affirms)
        yield Fact(cycle, ("yes_no", asked.key), lambda: holds)
        if asked.affirms and not asked.words.isdisjoint(_ONCE):
            yield from _dated(cycle, question, texts) if holds.value else ()


def amount(asked: Asked, answer: str, texts: Texts) -> Amount | None:
    """The one number that the answer gives to what is asked for; None where it is not clear."""
    values, words = texts.values(answer), asked.words
    numbers = [
        number
        for number in values.numbers
        if not number.whole and (not number.year or not words.isdisjoint(number.after))
    ]
    if not values.definite or len({number.value for number in numbers}) != 1:
        return None
    many = asked.kind == "how_many"
    rest = answer[min(number.end for number in values.numbers) :]  # "two in the first half"
    if not roots(_STOP.split(rest, maxsplit=1)[0]) <= (words if many else words | UNITS):
        return None
    return Amount(numbers[0].value, numbers[0].step, "" if many else numbers[0].unit)


def _dated(cycle: int, question: str, texts: Texts) -> Iterator[Fact]:
    """The date in a question about what happens once, which the answer agrees to."""
    held = texts.values(question)
    date, spans = held.date(), held.spans()
    if date is not None and len(spans) == 1:
        bare = texts.question(question[: spans[0][0]] + question[spans[0][1] :])
        if bare.key is not None:
            yield Fact(cycle, ("when", bare.key), lambda: date)


def miscounts_itself(answer: str, texts: Texts) -> bool:
    """Whether the answer states a number of things and then lists another number of names.

    Only names of two words or more count: "Paris, France" could be one thing.
    """
    found = _LIST.search(answer) if ":" in answer or "namely" in answer else None
    if found is None:
        return False
    values = texts.values(_STOP.split(answer[: found.start(1)])[-1])
    if not values.definite or len(values.numbers) != 1:
        return False
    (one,), items = values.numbers, len(re.findall(_NAME, found[2]))
    return not (one.whole or one.year or one.unit) and items not in {one.value, 2 * one.value}
