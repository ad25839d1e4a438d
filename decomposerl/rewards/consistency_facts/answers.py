"""What each answer of a trace commits itself to, in a form that can be compared.

Takes questions and answers, gives ``Fact`` values: a key that two facts share only if they
are about one quantity, and a value. A fact has a key for its question (when, how many, how
much, who, yes or no) and, for things that happen once, one for what it states.

Left out deliberately: which facts contradict each other (``consistency``).
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from decomposerl.rewards.consistency_facts.lists import listed
from decomposerl.rewards.consistency_facts.values import (
    MONTHS,
    UNITS,
    Date,
    Quantity,
    Said,
    read_values,
)
from decomposerl.rewards.consistency_facts.words import (
    WORD,
    Asked,
    focus_of,
    read_question,
    root,
    word_set,
)

Value = Date | Quantity | bool | str
COUNTABLE = re.compile(
    r"\d|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen"
    r"|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety)\b",
    re.IGNORECASE,
)
_ONCE_WORDS = word_set(
    """founded established born died built invented discovered published released completed
    incorporated formed abolished dissolved inaugurated demolished"""
)
_ONCE = frozenset(map(root, _ONCE_WORDS))
_TELLING = _ONCE_WORDS | word_set(
    """percent % seconds minutes hours days weeks months years decades miles kilometres kilometers
    km metres meters feet inches acres hectares kilograms kg tons tonnes dollars euros pounds"""
)
_MADE_WORDS = word_set(
    """wrote directed founded invented discovered composed painted designed author director founder
    inventor composer capital"""
)
_MADE = frozenset(map(root, _MADE_WORDS))
_MEASURING = UNITS | {"dozen", "hundr", "thousand", "million", "billion", "trillion"}
_STOP = re.compile(r"[.!?:;](?:\s|$)|,\s")
_POLAR = re.compile(
    r"\W*(?:(?P<yes>yes|true|correct)|(?P<no>no|false|incorrect))"
    r"(?=\W*$|\s*[,.:;!—–]|\s-|\s(?:it|he|she|they|the|there|this|that)\b)(?!\W+and no\b)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_a-z][\w'’.-]*(?: (?:(?:de|van|von|der|of|the) )*[^\W\d_a-z][\w'’-]*)*")
_NEW_NAME = re.compile(r"(?<=[\w,] )[^\W\d_a-z][\w'’]+")
_MONTHS = frozenset(map(root, MONTHS))
_SHORT = 14  # words of an answer that names one person or place
_STATED_WORDS = range(3, 16)  # content words of a statement
_SENTENCE = re.compile(r"(?<=[^\W\d_A-Z]{2}|\d{2})[.!?]\s+")


@dataclass(frozen=True, slots=True)
class Fact:
    """``value`` under ``key``, from cycle ``cycle``.

    ``firm`` facts answer a question for the value; others only bound or grant one, so that
    two of them never contradict each other ("yes, five" and "yes, three"). ``about`` are
    names in the answer that the question does not have: where two facts name different ones,
    they can be about different things ("in Torland", "in Maurea").
    """

    cycle: int
    key: tuple[Hashable, ...]
    value: Value
    firm: bool = True
    about: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reading:
    """A question and its answer; numbers are read when they are first asked for."""

    cycle: int
    question: str
    answer: str
    asked: Asked
    yes: bool | None
    _said: Said | None = None

    @property
    def said(self) -> Said:
        """The dates and numbers of the answer."""
        if self._said is None:
            self._said = read_values(self.answer)
        return self._said

    def count(self) -> Quantity | None:
        """The one number that the answer to "how many" gives; None where that is not clear."""
        counted = [n for n in self.said.numbers if not n.base]
        asked = self.asked.words
        counted = [n for n in counted if not n.year or not asked.isdisjoint(n.after)]
        values = {n.quantity.low for n in counted}
        if not self.said.definite or len(values) != 1:
            return None
        quantity = counted[0].quantity
        if quantity.unit and quantity.unit not in asked:
            return None
        return Quantity(quantity.low, quantity.high, quantity.step)

    def qualified(self) -> bool:
        """Whether a number is followed by words that the question does not have.

        "Two in the first half" and "three" do not answer one question.
        """
        ends = [number.end for number in self.said.numbers]
        rest = self.answer[min(ends) :] if ends else ""
        said = read_question(f"- {_STOP.split(rest, maxsplit=1)[0]}").words
        return not said <= self.asked.words | _MEASURING


def readings(cycles: Sequence[tuple[int, str, str]]) -> list[Reading]:
    """Read cycles, each its number, question and answer."""
    return [
        Reading(number, question, answer, read_question(question), says_yes(answer))
        for number, question, answer in cycles
    ]


def says_yes(answer: str) -> bool | None:
    """Whether an answer opens with yes or no; "No golfer ..." does neither."""
    polar = _POLAR.match(answer)
    return None if polar is None else polar["yes"] is not None


def facts(read: Sequence[Reading]) -> Iterator[Fact]:
    """All facts of a trace's cycles."""
    subjects = Counter(one.asked.names for one in read)
    counts = any(one.asked.kind == "how_many" for one in read)
    agreed = [fact for one in read for fact in _agreed(one, counts=counts)]
    shared: Counter[Hashable] = Counter(one.asked.focus for one in read)
    shared.update(fact.key[1] for fact in agreed)
    yield from agreed
    for one in read:
        if one.asked.focus is not None and shared[one.asked.focus] > 1:
            yield from _asked_for(one)
        if one.asked.names and subjects[one.asked.names] > 1:
            yield from _stated(one)


def _asked_for(one: Reading) -> Iterator[Fact]:
    """The fact that the question asks for."""
    asked = one.asked
    if asked.kind == "yes_no":
        if one.yes is not None and asked.affirms is not None:
            yield Fact(one.cycle, ("yes", asked.sequence), one.yes == asked.affirms)
        return
    if asked.kind in {"which", "who"} and (held := listed(one.answer)) is not None:
        yield Fact(one.cycle, ("how_many", asked.focus), Quantity(*held), firm=False)
    elif (value := _value(one)) is not None:
        about = frozenset[str]() if isinstance(value, str) else _new_names(one)
        yield Fact(one.cycle, (asked.kind, asked.focus), value, about=about)


def _value(one: Reading) -> Value | None:
    """The value that the answer gives to what the question asks for, if that is clear."""
    if one.asked.kind in {"who", "which"}:
        return None if _MADE.isdisjoint(one.asked.words) else _name(one)
    if not COUNTABLE.search(one.answer):
        return None
    if one.asked.kind == "when":
        return one.said.date()
    value = one.count() if one.asked.kind == "how_many" else _amount(one.said)
    return None if value is None or one.qualified() else value


def _new_names(one: Reading) -> frozenset[str]:
    """Names in the answer that are not the question's, without months."""
    names = frozenset(map(root, _NEW_NAME.findall(one.answer)))
    return names - one.asked.words - _MONTHS


def _amount(said: Said) -> Quantity | None:
    """The one number of an answer with its unit, or without anything after it."""
    numbers = [n for n in said.numbers if not n.base and (not n.year or n.quantity.unit)]
    if not said.definite or len(numbers) != 1:
        return None
    (number,) = numbers
    return number.quantity if number.quantity.unit or not number.after else None


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
    if one.asked.kind != "yes_no" or one.asked.focus is None or not (once or counts):
        return
    if one.yes is None or not one.asked.affirms or not COUNTABLE.search(one.question):
        return
    held = read_values(one.question)
    date = held.date()
    spans = [(start, end) for _, start, end in held.dates]
    spans += [(n.start, n.end) for n in held.numbers]
    if len(spans) != 1 or not held.definite:
        return
    (start, end) = spans[0]
    bare = read_question(f"{one.question[:start]}{one.question[end:]}")
    focus = focus_of(bare.sequence, bare.names)
    if once and date is not None:
        other = one.said.date() if _says_no_more(one, bare) else None
        if one.yes and other is not None and one.question[end:].strip(" ?") == "":
            yield Fact(one.cycle, ("self", one.cycle), date)
            yield Fact(one.cycle, ("self", one.cycle), other)
        value = date if one.yes else other
        if value is not None:
            yield Fact(one.cycle, ("when", focus), value)
    elif counts and one.yes and date is None and held.numbers:
        number = held.numbers[0].quantity
        if not number.unit:
            yield Fact(one.cycle, ("how_many", focus), number, firm=False)


def _says_no_more(one: Reading, bare: Asked) -> bool:
    """Whether an answer holds no content words but the question's and those of its value."""
    return read_question(_without_values(one)).words - {root("yes")} <= bare.words


def _without_values(one: Reading) -> str:
    spans = [(start, end) for _, start, end in one.said.dates]
    spans += [(n.start, n.end) for n in one.said.numbers]
    text = one.answer
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}{text[end:]}"
    return text


def _stated(one: Reading) -> Iterator[Fact]:
    """Statements of one value about a named thing: a date of what happens once, a measure."""
    if _TELLING.isdisjoint(one.answer.split()) or not COUNTABLE.search(one.answer):
        return
    for sentence in _SENTENCE.split(one.answer):
        found = _only_value(read_values(sentence))
        if found is None:
            continue
        value, start, end = found
        frame = read_question(f"Say {sentence[:start]}{sentence[end:]}")
        if len(frame.words) not in _STATED_WORDS or not frame.names or frame.focus is None:
            continue
        if isinstance(value, Quantity) or not _ONCE.isdisjoint(frame.words):
            apart = one.asked.words - frame.words  # two questions may differ in nothing else
            yield Fact(one.cycle, ("stated", frame.focus, apart), value)


def _only_value(said: Said) -> tuple[Date | Quantity, int, int] | None:
    """The only value of a sentence, a date or a measure, with its offsets."""
    if not said.definite or len(said.dates) + len(said.numbers) != 1:
        return None
    if said.dates:
        return said.dates[0]
    (number,) = said.numbers
    if number.year:
        return Date(int(number.quantity.low)), number.start, number.end
    return (number.quantity, number.start, number.end) if number.quantity.unit in UNITS else None
