"""What a question asks for, and the focus that makes two answers comparable."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from decomposerl.text.families import FAMILY
from decomposerl.text.words import STOP_WORDS, stem, word_set

Kind = Literal["when", "how_many", "amount", "who", "which", "yes_no", "other"]
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Words that ask and carry no content; those of order and place keep theirs.
_DIRECTED = word_set("by to from than against over under before after above below between or")
_TELLING = word_set("again further most least only other own same more less all one no")
_ASKING = STOP_WORDS - _DIRECTED - _TELLING | word_set(
    """year date day total exactly exact number true correct case according document text passage
    evidence source given provided article table list listed"""
)
_SUBJECTS = word_set("it he she they this these those you we i")
_OBJECTS = word_set("his her hers its their theirs him them")
_WH = word_set("who whom whose what which when where why how")
_OPENERS = word_set(
    "is are was were do does did has have had can could will would may might shall should"
)
_DENIALS = word_set("not never cannot no neither nor without")
_SIZES = word_set("much long far tall high old deep wide large big heavy fast")
_MEASURES = word_set(
    """percent percentage proportion share population length height weight area age cost price
    distance duration depth speed attendance capacity salary revenue"""
)
_THAT = re.compile(r"\W*(?:is|was) it (?P<word>true|correct|false|the case) that\s+", re.IGNORECASE)
_SOURCE = re.compile(
    r"\b(?:according to|from|by) the (?:document|text|passage|evidence|article|table|list)\b",
    re.IGNORECASE,
)
_FEWEST = 2  # content words of a focus


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, read.

    ``sequence`` holds the roots of its content words in order, ``words`` the same as a set,
    ``names`` those with a capital. ``focus`` is equal for questions about one thing; None
    where a question cannot be compared. ``affirms`` is what "yes" says of the content: False
    for "is it false that ...", None where it can be read both ways.
    """

    kind: Kind
    sequence: tuple[str, ...]
    words: frozenset[str]
    names: tuple[str, ...]
    focus: tuple[object, ...] | None
    affirms: bool | None


@lru_cache(maxsize=1 << 15)
def root(word: str) -> str:
    """The stem of a word, or the family that it belongs to."""
    found = stem(word.lower())
    return f"family {FAMILY[found]}" if found in FAMILY else found


@lru_cache(maxsize=1 << 15)
def _look(word: str) -> tuple[str, str, bool, bool]:
    """Lower case, root, whether a word has content, whether it denies."""
    lower = word.lower().replace("’", "'")
    denies = lower in _DENIALS or lower.endswith("n't")
    return lower, root(word), not denies and lower not in _ASKING, denies


def read_question(question: str) -> Asked:
    """Read a question. Linear in its length; never raises."""
    opening = _THAT.match(question)
    clause = question[opening.end() :] if opening else question
    written = WORD.findall(_SOURCE.sub("", clause))
    seen = [_look(word) for word in written]
    if seen and seen[-1][0] == "by":
        seen.pop()  # "who was it written by" asks what "who wrote it" does
    lower = [word[0] for word in seen]
    sequence = tuple(word[1] for word in seen if word[2])
    # The first word has a capital whatever it is.
    names = tuple(
        found
        for place, (text, (_, found, content, _)) in enumerate(zip(written, seen, strict=False))
        if content and text[0].isupper() and (place or opening)
    )
    comparable = _SUBJECTS.isdisjoint(lower) and (names or _OBJECTS.isdisjoint(lower))
    return Asked(
        kind="yes_no" if opening else _kind(lower),
        sequence=sequence,
        words=frozenset(sequence),
        names=names,
        focus=focus_of(sequence, names) if comparable else None,
        affirms=_affirmed([word[3] for word in seen], opening["word"] if opening else None),
    )


def focus_of(sequence: tuple[str, ...], names: tuple[str, ...]) -> tuple[object, ...] | None:
    """Names in their order and other words in any; all in order beside a word such as "than"."""
    if len(sequence) < _FEWEST:
        return None
    if not names or not _DIRECTED.isdisjoint(sequence):
        return sequence
    return (names, frozenset(sequence))


def _affirmed(denials: list[bool], that: str | None) -> bool | None:
    """What "yes" says. A denial is clear after "is it true that" alone; "isn't it" is none."""
    affirms = that is None or that.lower() != "false"
    count = sum(denials)
    if count == 0 or (that is None and count == 1 and denials[0]):
        return affirms
    return not affirms if that is not None and count == 1 else None


def _kind(lower: list[str]) -> Kind:
    """What a question of these words asks for."""
    asking = [index for index, word in enumerate(lower) if word in _WH]
    if not asking:
        opens = bool(lower) and (lower[0] in _OPENERS or lower[0].endswith("n't"))
        return "yes_no" if opens else "other"
    if len(asking) > 1 or lower[0] in _OPENERS:
        return "other"
    word, after = lower[asking[0]], lower[asking[0] + 1 :]
    if word == "when" or (word in {"what", "which"} and {"year", "date", "day"} & {*after[:2]}):
        return "when"
    if word == "how":
        first = after[0] if after else ""
        return "how_many" if first == "many" else "amount" if first in _SIZES else "other"
    if word in {"what", "which"}:
        counts = "number" in after and "of" in after[after.index("number") :][:2]
        return "how_many" if counts else "which" if _MEASURES.isdisjoint(after) else "amount"
    return "who" if word == "who" else "other"
