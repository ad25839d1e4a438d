"""Cross-question consistency: contradictions are found, and nothing else is called one.

``consistency.json`` has the traces: pairs of question and answer, and the evidence where it
counts; a word such as ``bars`` stands for a text of ``texts``.
"""

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.judge.signals import Signals
from decomposerl.rewards.consistency import Conflict, conflicts, consistency
from decomposerl.rewards.consistency_facts.facts import Texts
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Trace
from planted_traces.planting import planted_traces
from sample.tables import TableClaim, health, science
from sample.world import World
from strategies import LAW

Pairs = Sequence[Sequence[str]]
TRACES = json.loads(Path(__file__).with_name("consistency.json").read_text("utf-8"))
TEXTS, CLASHES, HARMLESS = TRACES["texts"], TRACES["clashes"], TRACES["harmless"]
FOUNDED = "When was the Torbeck club founded?"


def case(pairs: Pairs, evidence: str = "", number: int = 0) -> RewardCase:
    """A rollout of these cycles with no ruling but who abstains."""
    trace = Trace((), (), None, tuple(Cycle(*pair) for pair in pairs), None)
    silent = tuple(abstains(answer) for _, answer in pairs)
    unasked = (None,) * len(pairs)
    signals = Signals(None, unasked, unasked, unasked, unasked, silent)
    evidence = TEXTS.get(evidence, evidence)
    return RewardCase(Rollout("group", number, "A claim.", evidence, trace), signals)


def scored(pairs: Pairs, evidence: str = "") -> RewardResult:
    (score,) = consistency([case(pairs, evidence)], RewardSettings())
    return score


def states(pairs: Pairs, evidence: str = "") -> list[str]:
    return [question.state for question in scored(pairs, evidence).questions]


def test_two_answers_that_cannot_both_hold():
    """Each is marked with the place of the other, whichever comes first; neither counts."""
    for name, pairs in CLASHES.items():
        assert ["contradicts:1", "contradicts:0"] == states(pairs), name
        assert ["contradicts:1", "contradicts:0"] == states(pairs[::-1]), name
        assert 0.0 == scored(pairs).value, name


def test_a_count_that_its_list_does_not_bear_out():
    """The count alone is at fault, not the answers that show it."""
    for name, (pairs, evidence) in TRACES["miscounts"].items():
        assert ["miscounts", *["consistent"] * (len(pairs) - 1)] == states(pairs, evidence), name


def test_nothing_else_is_an_alarm():
    """Other things, times, units, hedges, denials and doubts do not contradict each other.

    A count is wrong only where one table and the answers together show it.
    """
    plain = HARMLESS | TRACES["printed traces, retold"]
    cases = {name: (pairs, "") for name, pairs in plain.items()} | TRACES["honest"]
    for name, (pairs, evidence) in cases.items():
        assert ["consistent"] * len(pairs) == states(pairs, evidence), name
        assert ["consistent"] * len(pairs) == states(pairs[::-1], evidence), name
        assert 1.0 == scored(pairs, evidence).value


def test_no_cycles_earn_nothing():
    """A trace that says nothing is not praised for it."""
    assert RewardResult(0.0) == scored([])


def test_planted_traces_raise_no_alarm():
    """What is planted are other faults than these, or none."""
    for trace in planted_traces():
        pairs = [(cycle.question, cycle.answer) for cycle in parse_trace(trace.text).cycles]
        assert {"consistent"} == set(states(pairs, trace.evidence)) or not pairs, trace.kind


ROWS = [
    *(("Davis Love III", "United States"), ("Phil Mickelson", "United States")),
    *(("Vijay Singh", "Fiji"), ("David Toms", "United States"), ("Tiger Woods", "United States")),
]
ENTRIES = [f"{name} ({country})" for name, country in ROWS]
NUMBERED = [f"{place}. {entry}" for place, entry in enumerate(ENTRIES, start=1)]
RANKED = [f"{place} | {' | '.join(row)}" for place, row in enumerate(ROWS, start=1)]
TITLE = "The five golfers who earned most in 2001, by name"
SHAPES = {
    "semicolons": f"{TITLE}. {'; '.join(NUMBERED)}.",
    "commas": f"{TITLE}. {', '.join(NUMBERED)}.",
    "lines": "\n".join((TITLE, *NUMBERED)),
    "a sentence": f"The five best paid were {', '.join(ENTRIES[:-1])}, and {ENTRIES[-1]}.",
    "bars": "\n".join((TITLE, "Golfer | Country", *(" | ".join(row) for row in ROWS))),
    "bars with a rank": "\n".join((TITLE, "Rank | Golfer | Country", *RANKED)),
    "bars with a page": "\n".join(f"2001 PGA Tour: {' | '.join(row)}" for row in ROWS),
}
FIVE = ("How many golfers have a row?", "There are rows for five golfers.")
ORDER = ("Who earned least, in order?", "Love III, Singh, Toms, Mickelson, Woods, in rising order.")
FROM_US = "How many of the golfers come from the United States?"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_undercount_of_golfers_is_found_in_every_shape_of_evidence(shape: str):
    """Four of the rows that the trace names are American, however the rows are written.

    Right counts, hedges, denials, and counts under a further condition contradict nothing.
    """
    for answer in TRACES["undercounts"]:
        found = scored([FIVE, (FROM_US, answer), ORDER], SHAPES[shape])
        assert ["consistent", "miscounts", "consistent"] == [one.state for one in found.questions]
        assert [1.0, 0.0, 1.0, 2 / 3] == [*(one.value for one in found.questions), found.value]
    for pair in TRACES["other counts"]:
        assert ["consistent"] * 3 == states([FIVE, pair, ORDER], SHAPES[shape]), pair


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


def found_conflicts(pairs: Pairs) -> list[Conflict]:
    answered = [(number, question, answer) for number, (question, answer) in enumerate(pairs)]
    return conflicts(answered, "", Texts())


def test_a_conflict_names_both_answers_and_their_values():
    """Each once, the earlier cycle first; their cycles are those that the reward marks."""
    opened, arches = "When was the bridge of Osk opened?", "How many arches has the Osk bridge?"
    born, builder = "Was Oskar Lund born in Odense?", ("Who built it?", "Oskar Lund.")
    dates = [(opened, "In 1921."), (opened, "On 3 May 1922.")]
    numbers = [(arches, "It has 3 arches."), builder, (arches, "It has 1,200 arches.")]
    assert [Conflict(0, 1, "date", ("1921", "1922-05-03"))] == found_conflicts(dates)
    assert [Conflict(0, 2, "number", ("3", "1,200"))] == found_conflicts(numbers)
    polarity = found_conflicts([(born, "Yes."), (born, "No.")])
    assert [Conflict(0, 1, "polarity", ("yes", "no"))] == polarity
    for name, pairs in (CLASHES | HARMLESS | TRACES["printed traces, retold"]).items():
        named = {cycle for one in found_conflicts(pairs) for cycle in (one.first, one.second)}
        marked = {place for place, state in enumerate(states(pairs)) if state != "consistent"}
        assert marked == named, name


PIECES = (
    *(text for pairs in (*CLASHES.values(), *HARMLESS.values()) for pair in pairs for text in pair),
    *TEXTS.values(), "", "|", "Yes", "No", "three: ", "May 1", "9" * 400, "\ud800", "it's",
    "a: b; c: d\n" * 3,
)  # fmt: skip
piece = st.sampled_from(PIECES) | st.text(st.characters(), max_size=30)
text = st.lists(piece, max_size=3).map(" ".join)
cycles = st.lists(st.tuples(text, text), max_size=6)


@LAW
@given(st.lists(st.tuples(cycles, text), min_size=1, max_size=4), st.randoms())
def test_scores_of_any_text(rollouts: list[tuple[Pairs, str]], shuffling: random.Random):
    """Nothing raises; a value is the share of consistent cycles; the order has no effect."""
    cases = [case(pairs, evidence, number) for number, (pairs, evidence) in enumerate(rollouts)]
    scores = consistency(cases, RewardSettings())
    for one, score in zip(cases, scores, strict=True):
        values = [question.value for question in score.questions]
        assert len(one.rollout.trace.cycles) == len(values)
        assert pytest.approx(sum(values) / len(values) if values else 0.0) == score.value
        for place, question in enumerate(score.questions):
            assert question.value == (question.state == "consistent")
            named = re.fullmatch(r"consistent|miscounts|contradicts:(\d+)", question.state)
            assert named
            other = named[1]
            assert other is None or score.questions[int(other)].value == 0.0
            assert not one.signals.abstained[place] or question.value == 1.0
    order = list(range(len(cases)))
    shuffling.shuffle(order)
    again = consistency([cases[place] for place in order], RewardSettings())
    assert [scores[place] for place in order] == again


@LAW
@given(st.sampled_from(list(CLASHES)), st.sampled_from(list(HARMLESS)))
def test_further_questions_hide_nothing(clash: str, harmless: str):
    """A contradiction stays one beside two questions that are about other things."""
    pairs = [*CLASHES[clash], *HARMLESS[harmless]]
    reported = {question for question, _ in CLASHES[clash]}
    if reported.isdisjoint(question for question, _ in HARMLESS[harmless]):
        assert ["contradicts:1", "contradicts:0"] == states(pairs)[:2]


@LAW
@given(st.integers(1000, 2099), st.integers(1000, 2099))
def test_years_contradict_exactly_if_they_differ(one: int, other: int):
    """The same year twice is consistent, any two years are not."""
    again = "In what year was the Torbeck club founded?"
    pairs = [(FOUNDED, f"The club was founded in {one}."), (again, f"In {other}.")]
    assert (one == other) == (scored(pairs).value == 1.0)


@LAW
@given(st.integers(2, 12), st.integers(2, 12))
def test_a_count_fits_its_list_exactly_if_they_agree(count: int, items: int):
    """Names of two words are counted one by one, unless they could be pairs."""
    names = [f"Torbeck {'ABCDEFGHIJKL'[place]}urn" for place in range(items)]
    answer = f"It names {count} winners: {', '.join(names[:-1])} and {names[-1]}."
    fits = count == items or 2 * count == items
    assert fits == (states([("Who won?", answer)]) == ["consistent"])


def test_the_first_contradiction_is_named():
    """Of several cycles that contradict one, the state names the first."""
    pairs = [(FOUNDED, f"In {year}.") for year in (1857, 1857, 1867, 1877)]
    assert [f"contradicts:{place}" for place in (2, 2, 0, 0)] == states(pairs)


def test_signals_of_another_length_are_an_error():
    """A case whose rulings are not about its cycles is refused."""
    short = RewardCase(case(CLASHES["years"]).rollout, case([]).signals)
    with pytest.raises(ValueError, match="zip"):
        consistency([short], RewardSettings())


@pytest.mark.parametrize(
    "unit",
    [
        "1", "1.", "Three: A and ", "A ", "Ab (C) ", "a | b\n", "a: b; c: d\n", " ", "\n \n", "(",
        ":", "July 1, 1867 ", "1-", "and ", "A, ", "not ", "Yes ", "How many ", "namely ",
        "A.", "AA", "twenty-",
    ],
)  # fmt: skip
def test_time_grows_with_length_and_no_faster(unit: str):
    """30,000 letters a text take half a second; a quadratic scan would take minutes."""
    long = unit * (30_000 // len(unit))
    started = time.perf_counter()
    for question in (long, "How many golfers are from Fiji?", f"When did Torbeck win {long}"):
        states([(question, f"Three golfers: {long}"), (question, long)], long)
    assert time.perf_counter() - started < 5


def test_many_cycles_take_their_time_each():
    """2,000 answers to one question are compared with a bounded number of others."""
    pairs = [(FOUNDED, f"In {1000 + n % 900}.") for n in range(2000)]
    started = time.perf_counter()
    assert 0.0 == scored(pairs).value
    assert time.perf_counter() - started < 10
