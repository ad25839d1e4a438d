"""Traces of any shape are scored in time that grows with their length, not with its square.

Four times the text takes less than ten times the processor time; a second is allowed.
"""

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from numpy.typing import NDArray

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.scoring import reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from resources.judge.rule_judge import RuleJudge

CLAIM = "Ilva Marrek opened the Torbeck bridge in 1921."
EVIDENCE = "Ilva Marrek opened it in 1921.\n| Name | Year |\n| Ilva | 1921 |\n| Torbeck | 1930 |"
EVERY = RewardSettings(weights={reward.name: 1.0 for reward in REWARDS if reward.name != "own"})
UNITS = (
    *("a", ",", "I don't know. ", "7", "3 May 1921 ", "1,", "1-", "| {i} | w{i} |\n", "|", '"'),
    *('"Ilva opened w{i}" ', "“a ", "[(", "<", "< Think x", "<think>", "</answer>", " ", "\n"),
    *("<question><answer>", "\u0301", "\ufdfa", "w{i}. ", "A. ", "{i}. Ilva w{i}\n", "Ilva "),
    *("w{i}q ", "Ilva Marrek opened the Torbeck bridge in 1921. ", "A and B, ", "W{i} and "),
    *("Ilva opened the bridge w{i} in {i}. ", "not w{i}. ", "between A and B "),
    *("Who opened w{i}? ", "w{i}; "),
)
"""What is repeated: words, numbers, marks, tags, tables, sentences."""


class OneVector:
    """Every question has the same vector."""

    engine = "one"

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors, one a text."""
        return np.ones((len(texts), 1), np.float32)


def text(unit: str, length: int) -> str:
    one = len(unit.format(i=0))
    return "".join(unit.format(i=i) for i in range(length // one + 1))[:length]


def rollout(place: str, unit: str, length: int) -> Rollout:
    long = text(unit, length)
    parts = {"answer": "It was Ilva.", "question": "Who opened it?", "thought": "Yes."}
    parts = {name: long if name == place else one for name, one in parts.items()}
    trace = (
        "<think>{thought}</think><question>{question}</question><answer>{answer}</answer>"
        "<think>x</think><verification>Supported</verification>"
    ).format_map(parts)
    claim, evidence = long if place == "claim" else CLAIM, long if place == "evidence" else EVIDENCE
    return Rollout("g", 0, claim, evidence, parse_trace(long if place == "trace" else trace))


def scored(one: Rollout) -> None:
    reward_rollouts([one], RuleJudge(), OneVector(), EVERY)


def seconds(act: Callable[[], object]) -> float:
    started = process_time()
    act()
    return process_time() - started


def assert_linear(small: Callable[[], object], large: Callable[[], object]) -> None:
    spent, allowed = seconds(large), 1  # a busy machine, not a quadratic reader
    if spent >= allowed:  # otherwise the small one cannot matter
        assert spent < 10 * min(seconds(small), seconds(small)) + allowed


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", ["answer", "question", "thought", "trace", "evidence", "claim"])
def test_scoring_takes_linear_time(place: str):
    """Whatever is repeated, wherever it stands."""
    short = 2_000 if place == "claim" else 8_000
    scored(rollout(place, "a", 1_000))
    for unit in UNITS:
        small, large = (rollout(place, unit, length) for length in (short, 4 * short))
        assert_linear(lambda one=small: scored(one), lambda one=large: scored(one))


def asked(cycles: int) -> Rollout:
    body = "".join(
        f"<question>Who opened bridge {i}?</question><answer>Ilva opened bridge {i} in {i + 1800}."
        "</answer><think>x</think>"
        for i in range(cycles)
    )
    return Rollout("g", 0, CLAIM, EVIDENCE, parse_trace(f"<think>x</think>{body}"))


def test_many_questions_are_judged_in_seconds():
    """Every answer is left out once, so texts grow with the square; what is said is read once."""
    scored(asked(10))
    assert seconds(lambda: scored(asked(500))) < 15


@pytest.mark.parametrize(
    "unit",
    ["Ilva opened the bridge w{i} in {i}. ", "not w{i}. ", "w{i}. ", "w{i}q ", "| {i} | w{i} |\n"],
)
def test_a_long_answer_about_long_evidence_takes_linear_time(unit: str):
    """Both grow; the answer says the evidence in another order, or half of it."""
    small, large = (
        replace(rollout("answer", unit, length), evidence=text(unit, length)[length // 3 :])
        for length in (8_000, 32_000)
    )
    assert_linear(lambda: scored(small), lambda: scored(large))
