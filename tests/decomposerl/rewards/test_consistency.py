"""Cross-question consistency: contradictions are found, and nothing else is called one."""

import random
from collections.abc import Callable

import pytest

from consistency_traces import (
    CLASHES,
    FROM_US,
    GOLFERS,
    HARMLESS,
    HONEST,
    LISTED,
    MISCOUNTS,
    ORDER,
    RETOLD,
    Pairs,
    scored,
    states,
)  # fmt: skip
from decomposerl.rewards.consistency import Conflict, conflicts
from decomposerl.rewards.consistency_facts.facts import Texts
from decomposerl.rewards.reward import RewardResult
from decomposerl.traces.grammar import parse_trace
from planted_traces.planting import TRACE_KINDS, planted_traces
from sample.tables import TableClaim, health, science
from sample.world import World


def test_the_golf_undercount():
    """Three are counted, the trace itself names four: that count is wrong, the rest is not."""
    answer = "Three of the golfers come from the United States: Toms, Mickelson and Woods."
    score = scored([LISTED, (FROM_US, answer), ORDER], GOLFERS)
    assert ["consistent", "miscounts", "consistent"] == [q.state for q in score.questions]
    assert [1.0, 0.0, 1.0] == [q.value for q in score.questions]
    assert pytest.approx(2 / 3) == score.value


@pytest.mark.parametrize("pairs", RETOLD.values(), ids=RETOLD)
def test_the_other_printed_traces_are_consistent(pairs: Pairs):
    """The paper's traces that do not fail say nothing twice in two ways."""
    score = scored(pairs)
    assert 1.0 == score.value
    assert {"consistent"} == {question.state for question in score.questions}


@pytest.mark.parametrize("pairs", CLASHES.values(), ids=CLASHES)
def test_two_answers_that_cannot_both_hold(pairs: Pairs):
    """Each is marked with the place of the other, whichever comes first; neither counts."""
    assert ["contradicts:1", "contradicts:0"] == states(pairs)
    assert ["contradicts:1", "contradicts:0"] == states(pairs[::-1])
    assert 0.0 == scored(pairs).value


@pytest.mark.parametrize(("pairs", "evidence"), MISCOUNTS.values(), ids=MISCOUNTS)
def test_a_count_that_its_list_does_not_bear_out(pairs: Pairs, evidence: str):
    """The count alone is at fault, not the answers that show it."""
    assert ["miscounts", *["consistent"] * (len(pairs) - 1)] == states(pairs, evidence)


@pytest.mark.parametrize("pairs", HARMLESS.values(), ids=HARMLESS)
def test_nothing_else_is_an_alarm(pairs: Pairs):
    """Other things, times, units, hedges, denials and doubts do not contradict each other."""
    assert ["consistent"] * len(pairs) == states(pairs)
    assert ["consistent"] * len(pairs) == states(pairs[::-1])


@pytest.mark.parametrize(("pairs", "evidence"), HONEST.values(), ids=HONEST)
def test_evidence_that_settles_nothing_accuses_nobody(pairs: Pairs, evidence: str):
    """A count is wrong only where one table and the answers together show it."""
    assert ["consistent"] * len(pairs) == states(pairs, evidence)


def test_no_cycles_earn_nothing():
    """A trace that says nothing is not praised for it."""
    assert RewardResult(0.0) == scored([])


@pytest.mark.parametrize("kind", TRACE_KINDS)
def test_planted_traces_raise_no_alarm(kind: str):
    """What is planted are other faults than these, or none."""
    for trace in planted_traces():
        if trace.kind == kind:
            pairs = [(cycle.question, cycle.answer) for cycle in parse_trace(trace.text).cycles]
            assert {"consistent"} == set(states(pairs, trace.evidence)) or not pairs


@pytest.mark.parametrize("make", [science, health])
def test_counts_of_invented_tables(make: Callable[..., TableClaim]):
    """Of every bundled table, the right number of rows passes and one less does not."""
    for seed in range(10):
        table = make(World(random.Random(seed)), 6, true=True).table
        lines = [" | ".join(row) for row in (table.header, *table.rows)]
        evidence = "\n".join((table.caption, *lines))
        names = ("Which ones are they?", ", ".join(row[0] for row in table.rows) + ".")
        asked = f"How many {table.header[0].lower()}s does the table list?"
        assert ["consistent"] * 2 == states([(asked, "Six are listed."), names], evidence)
        assert "miscounts" == states([(asked, "Five are listed."), names], evidence)[0]


def found(pairs: Pairs, evidence: str = "") -> list[Conflict]:
    answered = [(number, *pair) for number, pair in enumerate(pairs)]
    return conflicts(answered, evidence, Texts())


@pytest.mark.parametrize(
    ("pairs", "conflict"),
    [
        (
            [
                ("When was the bridge of Osk opened?", "In 1921."),
                ("When was the bridge of Osk opened?", "On 3 May 1922."),
            ],
            Conflict(0, 1, "date", ("1921", "1922-05-03")),
        ),
        (
            [
                ("How many arches has the Osk bridge?", "It has 3 arches."),
                ("Who built it?", "Oskar Lund."),
                ("How many arches has the Osk bridge?", "It has 1,200 arches."),
            ],
            Conflict(0, 2, "number", ("3", "1,200")),
        ),
        (
            [
                ("Was Oskar Lund born in Odense?", "Yes."),
                ("Was Oskar Lund born in Odense?", "No."),
            ],
            Conflict(0, 1, "polarity", ("yes", "no")),
        ),
    ],
)
def test_a_conflict_names_both_answers_and_their_values(pairs: Pairs, conflict: Conflict):
    """Each once, the earlier cycle first."""
    assert [conflict] == found(pairs)


@pytest.mark.parametrize("pairs", [*CLASHES.values(), *RETOLD.values(), *HARMLESS.values()])
def test_conflicts_are_those_that_the_reward_sees(pairs: Pairs):
    """The cycles of conflicts are exactly the cycles that the reward does not call consistent."""
    named = {cycle for one in found(pairs) for cycle in (one.first, one.second)}
    assert {n for n, state in enumerate(states(pairs)) if state != "consistent"} == named
