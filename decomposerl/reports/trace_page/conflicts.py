"""Conflicts between the answers of one trace: numbers, dates and polarity, and names beside them.

The first three are those of the reward ``consistency``. Names are compared here alone, since a
second name is often no contradiction: two answers to near questions that begin with who or where
and give different names. A reader decides.
"""

import re
from collections.abc import Sequence
from itertools import combinations

from decomposerl.rewards.consistency import Conflict, conflicts
from decomposerl.rewards.consistency_facts.facts import Texts
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import parse

_ASKS_NAME = re.compile(
    r"\W*(?P<word>who|whom|where|(?:what|which)\s(?:city|country|person))\b", re.IGNORECASE
)
_LONGEST = 25
"""Words of an answer that is compared by its names."""
Answered = Sequence[tuple[int, str, str]]


def trace_conflicts(
    answered: Answered, evidence: str, texts: Texts | None = None
) -> list[Conflict]:
    """The conflicts of a trace, from number, question and answer of those that abstain not.

    ``texts`` may be shared by the traces of a claim: it reads each text once.
    """
    texts = texts or Texts()
    return [*conflicts(answered, evidence, texts), *_names(answered, evidence, texts)]


def _names(answered: Answered, evidence: str, texts: Texts) -> list[Conflict]:
    alike: dict[object, list[tuple[int, str, str]]] = {}
    for number, question, answer in answered:
        asks = _ASKS_NAME.match(question)
        words = texts.question(question).words if asks else None
        if asks and words and len(answer.split()) <= _LONGEST:
            alike.setdefault((asks["word"].lower(), words), []).append((number, question, answer))
    pairs = (pair for group in alike.values() for pair in combinations(group, 2))
    return [
        Conflict(one[0], other[0], "name", (one[2], other[2]))
        for one, other in pairs
        if _differ(_named(*one[1:]), _named(*other[1:]), evidence)
    ]


def _named(question: str, answer: str) -> frozenset[str]:
    """The names of an answer that its question does not hold."""
    return parse(f"it is {answer}").names - parse(question).content


def _differ(some: frozenset[str], others: frozenset[str], evidence: str) -> bool:
    both = bool(some and others) and some.isdisjoint(others)
    return both and not _together(some | others, evidence)


def _together(names: frozenset[str], evidence: str) -> bool:
    """Whether one sentence of the evidence has all of the names: "in Odense, Denmark"."""
    return any(names <= parse(sentence).content for sentence in split_sentences(evidence))
