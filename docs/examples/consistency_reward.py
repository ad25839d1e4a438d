"""An example of a reward of one's own: answers that contradict each other cost.

Two answers about the same thing that give other numbers cannot both be right, whatever the document
says, and no judge has to be asked. The reward of a trace is

    1 - 2 * (contradicting pairs of answers) / (pairs of answers about the same thing)

so 1 where all agree and -1 where none do; a trace without such a pair is left out (None).

Put this file where Python finds it, name it in the run's configuration, and weigh it::

    ops:
      policy:
        config:
          rewards: {own: "consistency_reward:reward", weights: {own: 0.5}}

or try it first: ``decomposerl score traces.jsonl --reading own=consistency_reward:reward``.

A function with the attribute ``judge_roles = ("question",)`` also gets the judge's rulings on each
of ``case.cycles`` in ``case.signals``, one with ``reads_vectors = True`` the questions' vectors.
"""

import re
from collections.abc import Sequence
from itertools import combinations

from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d]{4,}")
SAME = 0.6
"""Least share of the fewer words of two answers that both have, if they are about one thing."""


def reward(cases: Sequence[RewardCase], _: RewardSettings) -> list[float | None]:
    """One value from -1 to 1 for each rollout of a group, None where it says nothing."""
    return [consistency([cycle.answer for cycle in case.cycles]) for case in cases]


def consistency(answers: Sequence[str]) -> float | None:
    """The value of the answers of one trace."""
    pairs = [pair for pair in combinations(answers, 2) if about_the_same(*pair)]
    if not pairs:
        return None
    return 1.0 - 2.0 * sum(contradict(*pair) for pair in pairs) / len(pairs)


def about_the_same(one: str, other: str) -> bool:
    """Whether two answers with numbers share most of their other words."""
    words, others = (set(map(str.lower, _WORD.findall(text))) for text in (one, other))
    fewer = min(len(words), len(others))
    return bool(fewer and numbers(one) and numbers(other)) and len(words & others) >= SAME * fewer


def contradict(one: str, other: str) -> bool:
    """Whether neither answer's numbers are among the other's."""
    return not (numbers(one) <= numbers(other) or numbers(other) <= numbers(one))


def numbers(text: str) -> set[str]:
    """The numbers of a text, without the commas and points in them."""
    return {re.sub(r"[.,]", "", number) for number in _NUMBER.findall(text)}
