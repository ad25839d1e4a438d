"""What a question asks for, and the key that makes two answers comparable."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.text.families import root
from decomposerl.text.words import STOP_WORDS, WORD, word_set

_DIRECTED = word_set("by to from than against over under before after above below between or")
_TELLING = word_set("again further most least only other own same more less all one")
_DENIALS = word_set("not never no neither nor without cannot")
_ASKING = (STOP_WORDS | _DENIALS) - _DIRECTED - _TELLING | word_set(
    """year date day total exactly exact number true correct case according document text passage
    evidence source given provided article table list listed"""
)
_PRONOUNS = word_set("it he she they this these those you we i")
_WH = word_set("who whom whose what which when where why how")
_KIND = re.compile(
    r"""(?P<yes_no>\A\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|may)\b)
    |(?P<when>\bwhen\b|\b(?:what|which)\s(?:\w+\s)?(?:year|date|day)\b)
    |(?P<how_many>\bhow\smany\b|\b(?:what|which)\b.*\bnumber\sof\b)
    |(?P<amount>\bhow\s(?:much|long|far|tall|high|old|deep|wide|large|big|heavy|fast)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_THAT = re.compile(r"\W*(?:is|was) it (?P<word>true|correct|false|the case) that\s+", re.IGNORECASE)
_SOURCE = re.compile(
    r"\b(?:according to|from|by) the (?:document|text|passage|evidence|article|table|list)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, read: its kind (when, how_many, amount, yes_no or other).

    ``words`` are the roots of its content words. ``key`` is equal for questions about one
    thing, None where a question cannot be compared. ``affirms`` is what "yes" says of the
    content: False for "is it false that ...", None where it is not clear.
    """

    kind: str
    words: frozenset[Hashable]
    key: Hashable
    affirms: bool | None


@lru_cache(maxsize=1 << 15)
def _content(word: str) -> Hashable:
    return None if word.lower() in _ASKING else root(word)


def roots(text: str) -> frozenset[Hashable]:
    """The roots of a text's content words."""
    return frozenset(map(_content, WORD.findall(text))) - {None}


def read_question(question: str) -> Asked:
    """Read a question. Linear in its length; never raises."""
    opening = _THAT.match(question)
    clause = f"Was {question[opening.end() :]}" if opening else question
    written = WORD.findall(_SOURCE.sub("", clause))
    lower = [word.lower() for word in written]
    found = [_content(word) for word in lower]
    sequence = tuple(one for one in found if one is not None)
    # The first word has a capital whatever it is.
    pairs = zip(written[1:], found[1:], strict=True)
    names = tuple(one for word, one in pairs if one is not None and word[0].isupper())
    ordered = not names or not _DIRECTED.isdisjoint(lower)
    comparable = len(sequence) > 1 and _PRONOUNS.isdisjoint(lower)
    denials = sum(word in _DENIALS or word.endswith(("n't", "n’t")) for word in lower)
    affirms = opening is None or opening["word"].lower() != "false"
    clear = not denials or (opening is not None and denials == 1)
    kind = _KIND.search(clause)
    asks = (kind and kind.lastgroup) or "other"
    return Asked(
        kind=asks if sum(word in _WH for word in lower) == (asks != "yes_no") else "other",
        words=frozenset(sequence),
        key=(sequence if ordered else (names, frozenset(sequence))) if comparable else None,
        affirms=affirms ^ bool(denials) if clear else None,
    )
