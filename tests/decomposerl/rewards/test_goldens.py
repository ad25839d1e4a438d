"""The paper's five printed traces (appendix on traces), retold, and what each reward gives them.

In ``goldens.json`` the rulings are written by hand, as a judge of one question at a time gives
them, and so are the question vectors; every expected value stands with its arithmetic.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from decomposerl.judge.plan import Signals, plan
from decomposerl.prompts.judge import AnswersVerdict
from decomposerl.replies.abstention import abstains
from decomposerl.rewards.composite import RewardedBatch, reward_batch
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from reward_parts import ALL_MET, PLAIN, states, unit

NAMES = ("format", "verification", "question_count", "diversity", "coverage", "necessity", "joint")


@dataclass(frozen=True)
class Golden:
    """A trace with its claim's label and n*, the judge's verdicts, vectors, and the values.

    ``arithmetic`` says how the expected values come about.
    """

    name: str
    arithmetic: str
    text: str
    evidence: str
    label: Verdict
    n_star: int
    full: AnswersVerdict
    without: Sequence[AnswersVerdict]
    vectors: Sequence[Sequence[float]]
    expected: Sequence[float]
    necessity: Sequence[str]
    unanswerable: Sequence[int]
    ungrounded: Sequence[int]


FILE = Path(__file__).with_name("goldens.json")
GOLDENS = [Golden(**golden) for golden in json.loads(FILE.read_text("utf-8"))]
MONKEY = next(one for one in GOLDENS if one.name == "monkeys")
UNDERCOUNT = next(one for one in GOLDENS if one.name == "golf")


def case_of(golden: Golden, *, labelled: bool = True) -> RewardCase:
    """The printed trace as a case; what is answerable, atomic and correct as the golden says."""
    trace = parse_trace(golden.text)
    places = range(len(trace.cycles))
    silent = tuple(abstains(cycle.answer) for cycle in trace.cycles)
    ruled = Signals(
        full=golden.full,
        without=tuple(golden.without),
        answerable=tuple(place not in golden.unanswerable for place in places),
        atomic=tuple((*ALL_MET[:4], place not in golden.ungrounded) for place in places),
        correct=tuple(None if quiet else True for quiet in silent),
        abstained=silent,
    )
    label = golden.label if labelled else None
    claim = f"The claim about {golden.name}."
    rollout = Rollout(golden.name, 0, claim, golden.evidence, trace, label, golden.n_star)
    return RewardCase(rollout, ruled, unit(*golden.vectors))


def values_of(scored: RewardedBatch) -> dict[str, float | None]:
    return {name: found[0].value for name, found in scored.results.items()}


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_seven_rewards_of_a_printed_trace(golden: Golden):
    """Each reward gives what the arithmetic beside the trace says, and the total is their sum.

    The traces are full texts without a fault: thoughts, two or three cycles, one verdict.
    """
    scored = reward_batch([case_of(golden)], PLAIN)
    found = values_of(scored)
    assert NAMES == tuple(found)
    assert pytest.approx(list(golden.expected), abs=1e-6) == list(found.values())
    assert pytest.approx([sum(golden.expected)], abs=1e-6) == list(scored.totals)
    assert list(golden.necessity) == states(scored.results["necessity"][0])
    trace = parse_trace(golden.text)
    assert () == trace.faults
    assert len(golden.vectors) == len(golden.without) == len(trace.cycles)
    silent = sum(abstains(cycle.answer) for cycle in trace.cycles)
    assert 4 * len(trace.cycles) + 1 - silent == len(plan([case_of(golden).rollout]).calls)


def test_the_monkeys_abstention():
    """The honest "I don't know": +1/2 for its question in necessity, and joint is 1.

    The printed formula pays nothing for it: 2/3; and all of it if it had been a dodge.
    """
    (monkeys,) = reward_batch([case_of(MONKEY)], PLAIN).results["joint"]
    assert (1.0, ["answered", "abstained", "answered"]) == (monkeys.value, states(monkeys))
    (needed,) = reward_batch([case_of(MONKEY)], PLAIN).results["necessity"]
    assert (0.5, "redundant") == (needed.questions[1].value, needed.questions[1].state)
    literal = RewardSettings(abstention="literal")
    dodge = case_of(replace(MONKEY, unanswerable=()))
    found = [
        reward_batch([one], settings).results["joint"][0].value
        for settings in (PLAIN, literal)
        for one in (case_of(MONKEY), dodge)
    ]
    assert pytest.approx([1, 2 / 3, 2 / 3, 1]) == found


def test_the_other_readings_of_the_printed_traces():
    """Strict atomicity: 1/2 for the dates; the mean of necessity: (1/2 + 1/2 + 1) / 3."""
    by_name = {golden.name: case_of(golden) for golden in GOLDENS}
    strict = reward_batch([by_name["date"]], RewardSettings(atomicity="strict"))
    assert 0.5 == values_of(strict)["joint"]
    mean = reward_batch([by_name["books"], by_name["monkeys"]], RewardSettings(necessity="mean"))
    assert pytest.approx([2 / 3, 2 / 3]) == [one.value for one in mean.results["necessity"]]
