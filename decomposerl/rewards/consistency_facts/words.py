"""What a question asks for, and about what: the focus that makes two answers comparable.

Takes the text of a question, gives an ``Asked``: the kind of answer that it wants and its
content words as roots. Two questions are about one thing where these agree; words that only
ask ("in what year", "according to the document") do not count.

Left out deliberately: synonyms beyond a few verbs, and any reading of pronouns: a question
about "it", or about "his" without a name, is comparable with none.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["when", "how_many", "amount", "who", "which", "yes_no", "other"]


def word_set(text: str) -> frozenset[str]:
    """The words of a text between white space."""
    return frozenset(text.split())


WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_ASKING = word_set(
    """a an the is are was were be been being do does did has have had can could will would may
    might shall should who whom whose what which when where why how many much there that of in on
    at and also according document text passage evidence source given provided article table list
    listed year date day total exactly exact number actually true correct case it"""
)
_DIRECTED = word_set(
    """by to from than against over under before after above below with without into between
    during for or"""
)
_SUBJECTS = word_set("it he she they this these those you we i")
_OBJECTS = word_set("his her hers its their theirs him them")
_WH = word_set("who whom whose what which when where why how")
_OPENERS = word_set(
    "is are was were do does did has have had can could will would may might shall should"
)
_DENIALS = word_set("not never cannot no neither nor without")
_DATING = word_set("year date day")
_SIZES = word_set("much long far tall high old deep wide large big heavy fast")
_MEASURES = word_set(
    """percent percentage proportion share population length height weight area age cost price
    budget distance duration depth speed attendance capacity salary revenue"""
)
_ROOTS = {
    "wrote": "writ", "written": "writ", "birth": "born", "death": "die", "died": "die",
    "dies": "die", "dead": "die", "won": "win", "began": "begin", "begun": "begin",
    "start": "begin", "started": "begin", "starts": "begin", "built": "build",
    "established": "found", "establish": "found", "establishment": "found", "made": "mak",
    "people": "person", "children": "child", "men": "man", "women": "woman",
}  # fmt: skip
_THAT = re.compile(r"\W*(?:is|was) it (?P<word>true|correct|false|the case) that\s+", re.IGNORECASE)
_SOURCE = re.compile(
    r"\b(?:according to|based on|as given in|in) the (?:given )?"
    r"(?:document|text|passage|evidence|article|table|list)\b",
    re.IGNORECASE,
)
_SOURCES = word_set("document text passage evidence article table list")
_SHORTEST = 3  # letters of a root
_FEWEST = 2  # content words of a focus


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, read.

    ``sequence`` are the roots of its content words in order, ``words`` the same as a set,
    ``names`` those with a capital. ``focus`` is what equal questions share; None where the
    question cannot be compared. ``affirms`` is what "yes" says of the content: True, False
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
    """A word without case, possessive and the commonest endings."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    if word in _ROOTS:
        return _ROOTS[word]
    if word.endswith("ies") and len(word) > len("ties"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        short = word.removesuffix(ending)
        if short != word and len(short) >= _SHORTEST and not word.endswith("ss"):
            word = short
            break
    if len(word) > _SHORTEST + 1 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return _ROOTS.get(word, word.removesuffix("e") if len(word) > _SHORTEST else word)


@lru_cache(maxsize=1 << 15)
def _look(word: str) -> tuple[str, str, bool, bool, bool]:
    """Of a word: lower case, root, whether it has content, denies, is written as a name."""
    lower = word.lower().replace("’", "'")
    denies = lower in _DENIALS or lower.endswith("n't")
    content = not denies and lower not in _ASKING
    return lower, root(word), content, denies, content and word[0].isupper()


def read_question(question: str) -> Asked:
    """Read a question; time is linear in its length, nothing raises."""
    opening = _THAT.match(question)
    clause = question[opening.end() :] if opening else question
    seen = [_look(word) for word in WORD.findall(clause)]
    if not _SOURCES.isdisjoint([word[0] for word in seen]):
        seen = [_look(word) for word in WORD.findall(_SOURCE.sub("", clause))]
    if seen and seen[-1][0] == "by":
        seen.pop()  # "who was it written by" asks what "who wrote it" does
    lower = [word[0] for word in seen]
    sequence = tuple([word[1] for word in seen if word[2]])
    # The first word has a capital whatever it is.
    names = tuple([word[1] for word in (seen if opening else seen[1:]) if word[4]])
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
    """What equal questions share: names in their order, other words in any.

    Without names, and where a word such as "than" gives the order a meaning, all words in
    order. None for fewer than two content words.
    """
    if len(sequence) < _FEWEST:
        return None
    if not names or not _DIRECTED.isdisjoint(sequence):
        return sequence
    return (names, frozenset(sequence))


def _affirmed(denials: list[bool], told: str | None) -> bool | None:
    """What "yes" says. A denial is clear after "is it true that" alone; "isn't it" is none."""
    affirms = told is None or told.lower() != "false"
    count = sum(denials)
    if count == 0 or (told is None and count == 1 and denials[0]):
        return affirms
    return not affirms if told is not None and count == 1 else None


def _kind(lower: list[str]) -> Kind:
    """What a question that opens with these words asks for."""
    asking = [place for place, word in enumerate(lower) if word in _WH]
    if not asking:
        opens = bool(lower) and (lower[0] in _OPENERS or lower[0].endswith("n't"))
        return "yes_no" if opens else "other"
    if len(asking) > 1 or lower[0] in _OPENERS:
        return "other"
    word, after = lower[asking[0]], lower[asking[0] + 1 :]
    if word == "how":
        first = after[0] if after else ""
        return "how_many" if first == "many" else "amount" if first in _SIZES else "other"
    if word == "when":
        return "when"
    if word in {"what", "which"}:
        return _kind_of_thing(after)
    return "who" if word == "who" else "other"


def _kind_of_thing(after: list[str]) -> Kind:
    """What a question with "what" or "which" asks for, from the words that follow."""
    if not _DATING.isdisjoint(after[:2]):
        return "when"
    if "number" in after and "of" in after[after.index("number") :][:2]:
        return "how_many"
    return "which" if _MEASURES.isdisjoint(after) else "amount"
