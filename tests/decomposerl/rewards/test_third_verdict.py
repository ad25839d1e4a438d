"""Rewards where the third verdict is admitted: an open claim is paid for being shown open.

Nothing follows from nothing answered: a trace that is empty, that dodges, or that asks about
something else earns no coverage and no necessity by it, and has no vote.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.judge.signals import Signals
from decomposerl.rewards.composite import active_rewards, judge_roles
from decomposerl.rewards.coverage import coverage
from decomposerl.rewards.format import conditions_met
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.verification import verification
from decomposerl.rewards.votes import pseudo_label
from decomposerl.schemas import LABELS, VERDICTS, Verdict
from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import build_trace, parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from reward_parts import ALL_MET, NEI, PLAIN, R, S, states, values
from strategies import LAW

CLAIM = "Ilva bridge opened in 1921 and Torbeck designed the river market."
HERE, THERE = "Did Ilva bridge open in 1921?", "Did Torbeck design the river market?"
BESIDE = "Who mows the lawns of Quessa castle?"
YES, DODGE = "Yes, Ilva bridge opened in 1921.", "I don't know."


def case(
    *cycles: tuple[str, str, bool | None],
    full: Verdict | None = NEI,
    without: tuple[Verdict | None, ...] | None = None,
    label: Verdict | None = NEI,
    labels: tuple[Verdict, ...] = VERDICTS,
) -> RewardCase:
    """Cycles of question, answer and whether the document can answer it; correct where it says."""
    parts = [Cycle(question, answer, "So.") for question, answer, _ in cycles]
    silent = tuple(abstains(part.answer) for part in parts)
    ruled = Signals(
        full=full if parts else NEI,
        without=(NEI,) * len(parts) if without is None else without,
        answerable=tuple(answerable for _, _, answerable in cycles),
        atomic=(ALL_MET,) * len(parts),
        correct=tuple(None if quiet else True for quiet in silent),
        abstained=silent,
    )
    trace = build_trace("Look.", parts, NEI, labels)
    return RewardCase(Rollout("g", 0, CLAIM, "Ilva bridge opened in 1921.", trace, label), ruled)


SHOWN = (HERE, YES, True), (THERE, DODGE, False)
UNPAID = {
    "nothing is asked": case(),
    "a dodge": case((THERE, DODGE, True), (HERE, DODGE, True)),
    "open, but beside the claim": case((BESIDE, DODGE, False), (HERE, YES, True)),
    "all that is asked is answered": case((HERE, YES, True), (BESIDE, "Ann.", True)),
    "the judge finds it supported": case(*SHOWN, full=S, without=(NEI, S)),
}


@pytest.mark.parametrize("name", UNPAID)
def test_an_open_claim_pays_nobody_who_does_not_show_it_open(name: str):
    """Neither coverage nor necessity, and no vote for the third verdict."""
    one = UNPAID[name]
    assert [0.0] == values(coverage([one], PLAIN))
    assert all(value <= 0 for value in values(necessity([one], PLAIN)) if value is not None)
    assert pseudo_label([one], PLAIN) != NEI


def test_an_open_part_that_is_shown_pays_and_is_the_necessary_question():
    """The answer that leaves the part open is necessary, the other one redundant."""
    one = case(*SHOWN)
    assert [1.0] == values(coverage([one], PLAIN))
    (found,) = necessity([one], PLAIN)
    assert ["redundant", "necessary"] == states(found)
    (alone,) = necessity([case((THERE, DODGE, False))], PLAIN)
    assert ["necessary"] == states(alone)
    assert NEI == pseudo_label([one], PLAIN)


def test_a_ruling_that_is_missing_decides_nothing():
    """Whether the part is open is not known: null, and no vote."""
    one = case((THERE, DODGE, None))
    assert [None] == values(coverage([one], PLAIN))
    assert [None] == values(necessity([one], PLAIN))
    assert pseudo_label([one], PLAIN) is None


def test_two_way_an_open_claim_is_no_majority_and_the_two_labels_are_as_before():
    """The same rulings: where the third verdict is not admitted nobody votes for it."""
    two = case(*SHOWN, labels=LABELS, label=None)
    assert pseudo_label([two, two], PLAIN) is None
    assert [0.0] == values(coverage([two], PLAIN))
    for label in (S, R):
        known = case(*SHOWN, full=label, without=(label, NEI), label=label)
        assert [1.0] == values(coverage([known], PLAIN))
        assert ["redundant", "necessary"] == states(necessity([known], PLAIN)[0])


@LAW
@given(st.lists(st.sampled_from((S, R, NEI)), max_size=9))
def test_the_majority_of_three_is_the_one_verdict_with_most_votes(given_: list[Verdict]):
    """A tie at the top gives none, whatever the policy's own verdicts are."""
    settings = RewardSettings(votes="policy")
    cases = [case(*SHOWN) for _ in given_]
    said = [
        replace(
            one, rollout=replace(one.rollout, trace=build_trace("Look.", [], verdict, VERDICTS))
        )
        for one, verdict in zip(cases, given_, strict=True)
    ]
    counts = sorted((given_.count(one) for one in VERDICTS), reverse=True)
    clear = bool(given_) and counts[0] > counts[1]
    expected = max(VERDICTS, key=given_.count) if clear else None
    assert expected == pseudo_label(said, settings)


def test_the_third_verdict_meets_the_format_only_where_it_is_admitted():
    """It is one of three labels there, and an unknown verdict elsewhere; verification follows."""
    text = "<think>a</think><verification>Not Enough Information</verification>"
    three, two = parse_trace(text, VERDICTS), parse_trace(text)
    met = "the verdict is one of the labels"
    assert (NEI, True) == (three.verdict, met in conditions_met(three))
    assert (None, False) == (two.verdict, met in conditions_met(two))
    rollouts = [Rollout("g", 0, CLAIM, "", trace, NEI) for trace in (three, two)]
    empty = Signals(NEI, (), (), (), (), ())
    cases = [RewardCase(one, empty) for one in rollouts]
    assert [1.0, 0.0] == values(verification(cases, PLAIN))


def test_coverage_asks_for_the_rulings_that_it_reads():
    """Three-way also those on each question, though no other reward needs them."""
    alone = RewardSettings(weights=dict.fromkeys(("joint", "necessity", "consistency"), 0.0))
    active = active_rewards(alone)
    assert {"full"} == judge_roles(active, alone)
    assert {"full", "question"} == judge_roles(active, alone, three_way=True)
