"""What each answer of a trace commits itself to: values under keys that can be compared.

Two facts share a key only if they are about one quantity. A fact has a key for its question
and, for things that happen once and for measures, one for what it states.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from decomposerl.rewards.consistency_facts.questions import (
    WORD,
    Asked,
    focus_of,
    read_question,
    root,
)
from decomposerl.rewards.consistency_facts.rows import listed
from decomposerl.text.numbers import UNITS, Date, Number, Values, read_values
from decomposerl.text.words import MONTHS, stem, word_set

_ONCE = frozenset(
    map(
        root,
        word_set(
            """founded born died built invented discovered published released completed formed
            incorporated abolished dissolved inaugurated demolished"""
        ),
    )
)
_MADE = frozenset(
    map(root, word_set("wrote directed founded invented discovered composed painted designed"))
)
_SCALED = UNITS | set(map(stem, word_set("dozen hundred thousand million billion trillion")))
_STOP = re.compile(r"[.!?:;](?:\s|$)|,\s")
_SENTENCE = re.compile(r"(?<=[^\W\d_A-Z]{2}|\d{2})[.!?]\s+")
_POLAR = re.compile(
    r"\W*(?:(?P<yes>yes|true|correct)|(?P<no>no|false|incorrect))"
    r"(?=\W*$|\s*[,.:;!—–]|\s-|\s(?:it|he|she|they|the|there|this|that)\b)(?!\W+and no\b)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_a-z][\w'’.-]*(?: (?:(?:de|van|von|der|of|the) )*[^\W\d_a-z][\w'’-]*)*")
_CAPITAL = re.compile(r"(?<=[\w,] )[^\W\d_a-z][\w'’]+")
_SHORT = 14  # words of an answer that names one person or place
_STATED_WORDS = range(3, 16)  # content words of a statement


class Amount(NamedTuple):
    """A number from ``low`` to ``high``, written to the nearest ``step``, in ``unit``."""

    low: float
    high: float
    step: float = 1.0
    unit: str = ""


Value = Date | Amount | bool | str


@dataclass(frozen=True, slots=True)
class Fact:
    """``value`` under ``key``, from cycle ``cycle``.

    ``firm`` facts answer a question for the value; two others never contradict each other
    ("yes, five" and "yes, three"). ``about`` holds names in the answer that the question
    lacks: facts that name different ones can be about different things.
    """

    cycle: int
    key: tuple[Hashable, ...]
    value: Value
    firm: bool = True
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reading:
    """A question and its answer; ``yes`` is None where it opens with neither yes nor no."""

    cycle: int
    question: str
    answer: str
    asked: Asked
    values: Values
    yes: bool | None

    def count(self) -> Amount | None:
        """The one number that the answer to "how many" gives; None where it is not clear."""
        words = self.asked.words
        counted = [
            number
            for number in self.values.numbers
            if not number.whole and (not number.year or not words.isdisjoint(number.after))
        ]
        distinct = {number.value for number in counted}
        if not self.values.definite or len(distinct) != 1:
            return None
        unit = counted[0].unit
        return _amount(counted[0], "") if not unit or unit in words else None

    def qualified(self) -> bool:
        """Whether words that the question lacks follow a number ("two in the first half")."""
        ends = [number.end for number in self.values.numbers]
        rest = self.answer[min(ends) :] if ends else ""
        said = read_question(f"- {_STOP.split(rest, maxsplit=1)[0]}").words
        return not said <= self.asked.words | _SCALED


def _amount(number: Number, unit: str) -> Amount:
    return Amount(number.value, number.value, number.step, unit)


def readings(cycles: Sequence[tuple[int, str, str]]) -> list[Reading]:
    """Read cycles, each its number, question and answer."""
    return [
        Reading(
            number, question, answer, read_question(question), read_values(answer), _yes(answer)
        )
        for number, question, answer in cycles
    ]


def _yes(answer: str) -> bool | None:
    """Whether an answer opens with yes or no; "No golfer ..." does neither."""
    polar = _POLAR.match(answer)
    return None if polar is None else polar["yes"] is not None


def facts(read: Sequence[Reading]) -> Iterator[Fact]:
    """All facts of a trace's cycles."""
    counts = any(one.asked.kind == "how_many" for one in read)
    for one in read:
        yield from _agreed(one, counts=counts)
        if one.asked.focus is not None:
            yield from _asked_for(one)
        if one.asked.names:
            yield from _stated(one)


def _asked_for(one: Reading) -> Iterator[Fact]:
    """The fact that the question asks for."""
    asked = one.asked
    if asked.kind == "yes_no":
        if one.yes is not None and asked.affirms is not None:
            yield Fact(one.cycle, ("yes", asked.sequence), one.yes == asked.affirms)
        return
    if asked.kind in {"which", "who"} and (held := listed(one.answer)) is not None:
        yield Fact(one.cycle, ("how_many", asked.focus), Amount(*held), firm=False)
    elif (value := _value(one)) is not None:
        new = frozenset(map(root, _CAPITAL.findall(one.answer))) - asked.words - _MONTHS
        about = frozenset[str]() if isinstance(value, str) else new
        yield Fact(one.cycle, (asked.kind, asked.focus), value, about=about)


_MONTHS = frozenset(map(root, MONTHS))


def _value(one: Reading) -> Value | None:
    """The value that the answer gives to what the question asks for, if that is clear."""
    kind, values = one.asked.kind, one.values
    if kind in {"who", "which"}:
        return None if _MADE.isdisjoint(one.asked.words) else _name(one)
    if kind == "when":
        return values.date()
    value = one.count()
    if kind == "amount":
        numbers = [n for n in values.numbers if not n.whole and (not n.year or n.unit)]
        clear = values.definite and len(numbers) == 1 and (numbers[0].unit or not numbers[0].after)
        value = _amount(numbers[0], numbers[0].unit) if clear else None
    return None if one.qualified() else value


def _name(one: Reading) -> str | None:
    """The one name in a short answer that the question does not hold."""
    if len(one.answer.split()) > _SHORT or " not " in one.answer:
        return None
    found = [name.rstrip(".") for name in _NAME.findall(one.answer)]
    new = [n for n in found if one.asked.words.isdisjoint(map(root, WORD.findall(n)))]
    new = [n for n in new if n.lower() not in {"the", "it", "he", "she", "a", "an", "in", "this"}]
    return new[0].removeprefix("The ") if len(new) == 1 else None


def _agreed(one: Reading, *, counts: bool) -> Iterator[Fact]:
    """What an answer says to a question that holds the value: "yes", or another value."""
    once = not _ONCE.isdisjoint(one.asked.words)
    if not (once or counts) or one.asked.focus is None or one.yes is None or not one.asked.affirms:
        return
    held = read_values(one.question)
    if one.asked.kind != "yes_no" or len(held.spans()) != 1 or not held.definite:
        return
    date, ((start, end),) = held.date(), held.spans()
    bare = read_question(f"{one.question[:start]}{one.question[end:]}")
    focus = focus_of(bare.sequence, bare.names)
    if once and date is not None:
        other = one.values.date() if _says_no_more(one, bare) else None
        if one.yes and other is not None and not one.question[end:].strip(" ?"):
            yield Fact(one.cycle, ("self", one.cycle), date)
            yield Fact(one.cycle, ("self", one.cycle), other)
        value = date if one.yes else other
        if value is not None:
            yield Fact(one.cycle, ("when", focus), value)
    elif counts and one.yes and date is None and not held.numbers[0].unit:
        yield Fact(one.cycle, ("how_many", focus), _amount(held.numbers[0], ""), firm=False)


def _says_no_more(one: Reading, bare: Asked) -> bool:
    """Whether an answer has no content words but the question's and its values."""
    text = one.answer
    for start, end in sorted(one.values.spans(), reverse=True):
        text = f"{text[:start]}{text[end:]}"
    return read_question(text).words - {root("yes")} <= bare.words


def _stated(one: Reading) -> Iterator[Fact]:
    """Statements of one value about a named thing: a date of what happens once, a measure."""
    if len(one.values.spans()) == 0:
        return
    for sentence in _SENTENCE.split(one.answer):
        values = read_values(sentence)
        if not values.definite or len(values.spans()) != 1:
            continue
        ((start, end),) = values.spans()
        frame = read_question(f"Say {sentence[:start]}{sentence[end:]}")
        if len(frame.words) not in _STATED_WORDS or not frame.names or frame.focus is None:
            continue
        apart = one.asked.words - frame.words  # two questions may differ in nothing else
        value: Date | Amount | None = None
        if values.numbers and values.numbers[0].unit:
            value = _amount(values.numbers[0], values.numbers[0].unit)
        elif not _ONCE.isdisjoint(frame.words):
            value = values.date()
        if value is not None:
            yield Fact(one.cycle, ("stated", frame.focus, apart), value)
