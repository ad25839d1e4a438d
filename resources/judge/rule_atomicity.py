"""Whether a question is atomic, by five rules on its wording (paper, section 3.2, 7b).

Gives five truth values in the order of ``CRITERIA``. "And" is no fault inside a name, a
quotation, a fixed pair (cause and effect) or "between A and B".
"""

import re
from collections.abc import Iterator

from decomposerl.text.clause_words import AUXILIARIES, starts_with_verb
from decomposerl.text.words import word_set
from resources.judge.rule_document import asks_yes_or_no
from resources.judge.rule_text import clean
from resources.judge.rule_words import FRAME_WORDS, read, shared

_WH = word_set("who whom whose what which when where why how")
_ASKING = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how|" + "|".join(sorted(AUXILIARIES)) + r")\b",
    re.IGNORECASE,
)
_JOIN = re.compile(
    r",?\s+(?:and/or|and also|and|or|as well as|along with|plus|but)\s+|\s*;\s*|\s+&\s+"
)
_QUOTED = re.compile(r"[\"“«][^\"”»]{1,120}[\"”»]|(?<!\w)['‘][^'’]{1,120}['’](?!\w)")
_PAIRS = word_set(
    "cause/effect supply/demand research/development trial/error pros/cons terms/conditions "
    "search/rescue black/white profit/loss law/order men/women boys/girls brothers/sisters "
    "husband/wife mother/child head/neck war/peace crime/punishment"
)
_OPEN = re.compile(
    r"\b(?:why|explain|describe|discuss|elaborate|what about|how about|how (?:do|does|did|can|could"
    r"|should|would|is|are|was|were)|do you|your|opinion|should|significance"
    r"|importance|implications?|what can be said|tell (?:me|us)|impact of)\b",
    re.IGNORECASE,
)
_VAGUE = word_set(
    "interesting important good bad beautiful great nice better worse impressive remarkable "
    "notable fascinating relevant meaningful"
)
_LONGEST = 40
"""Words of a question that can still be about one thing."""
_LEAST_SHARED = 2
_REACH = 500
"""Characters on either side of a conjunction that tell what it joins."""


def atomicity(claim: str, question: str) -> tuple[bool, ...]:
    """The five criteria, shape (5,). Words to the judge cost focus and verifiability."""
    asked = clean(question)
    text = asked.text
    is_question = "?" in text and _ASKING.search(text) is not None
    return (
        is_question,
        not asked.orders and _single_focus(text),
        not _joined(text),
        not asked.orders and is_question and _verifiable(text),
        _grounded(claim, text),
    )


def _single_focus(text: str) -> bool:
    asking = [part for part in text.split("?") if _ASKING.search(part)]
    if len(asking) != 1 or len(text.split()) > _LONGEST:
        return False
    return not any(_opens_clause(after) for _, after, _ in _joins(text))


def _joined(text: str) -> bool:
    """Whether a conjunction joins two things that are asked about."""
    if len([part for part in text.split("?") if _ASKING.search(part)]) > 1:
        return True
    return any(
        _opens_clause(after) or not _one_thing(before, after, mark)
        for before, after, mark in _joins(text)
    )


def _joins(text: str) -> Iterator[tuple[str, str, str]]:
    """What stands before and after each conjunction outside quotations, and the conjunction."""
    bare = _QUOTED.sub("Quotation", text).rstrip(" ?.")
    for join in _JOIN.finditer(bare):
        before = bare[max(join.start() - _REACH, 0) : join.start()]
        yield before, bare[join.end() : join.end() + _REACH], join[0].strip(" ,").lower()


def _opens_clause(after: str) -> bool:
    """Whether the words after a conjunction begin a question or a statement of their own."""
    words = after.split()
    if not words:
        return False
    first = words[0].lower()
    return first in _WH | AUXILIARIES | {"if", "whether", "then"} or starts_with_verb(words)


def _one_thing(before: str, after: str, mark: str) -> bool:
    """Whether the words around a conjunction name one thing."""
    left, right = before.split(), after.split()
    if not left or not right or mark not in {"and", "&", "or"}:
        return False
    last, first = left[-1].strip(",."), right[0].strip(",.?")
    if f"{last}/{first}".lower() in _PAIRS or re.search(r"\bbetween\b", before.rpartition(",")[2]):
        return True
    return mark != "or" and last[:1].isupper() and first[:1].isupper() and before[-1:] != ","


def _verifiable(text: str) -> bool:
    words = {word.lower().strip("?,.") for word in text.split()}
    if _OPEN.search(text) or words & _VAGUE:
        return False
    return asks_yes_or_no(text) or not words.isdisjoint(_WH) or _ASKING.search(text) is not None


def _grounded(claim: str, text: str) -> bool:
    """Whether the question names something that the claim names."""
    about, asked = read(clean(claim).text), read(text)
    common = shared(asked.topic, asked, about.content)
    wanted = len(asked.content - FRAME_WORDS)
    return (
        bool(common & (about.values | asked.values))
        or len(common) >= _LEAST_SHARED
        or (bool(common) and 2 * len(common) >= wanted)
    )
