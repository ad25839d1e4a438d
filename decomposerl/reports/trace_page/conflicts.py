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
    alike: dict[object, list[tuple[int, str, frozenset[str]]]] = {}
    for number, question, answer in answered:
        asks = _ASKS_NAME.match(question)
        words = texts.question(question).words
        if asks and words and len(answer.split()) <= _LONGEST:
            named = parse(f"it is {answer}").names - parse(question).content
            key = asks["word"].lower(), words
            alike.setdefault(key, []).append((number, answer, named))
    pairs = (pair for group in alike.values() for pair in combinations(group, 2))
    return [
        Conflict(first[0], second[0], "name", (first[1], second[1]))
        for first, second in pairs
        if first[2]
        and second[2]
        and first[2].isdisjoint(second[2])
        and not _together(first[2] | second[2], evidence)
    ]


def _together(names: frozenset[str], evidence: str) -> bool:
    """Whether one sentence of the evidence has all of the names: "in Odense, Denmark"."""
    return any(names <= parse(sentence).content for sentence in split_sentences(evidence))
