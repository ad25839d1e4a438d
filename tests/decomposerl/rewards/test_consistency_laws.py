"""Laws of cross-question consistency: range, order, any text, time."""

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency_traces import (
    BARS,
    CLASHES,
    GOLFERS,
    HARMLESS,
    KEYED,
    Pairs,
    case,
    scored,
    states,
)  # fmt: skip
from decomposerl.rewards.consistency import consistency
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from strategies import LAW

PIECES = (
    *(text for pairs in (*CLASHES.values(), *HARMLESS.values()) for pair in pairs for text in pair),
    GOLFERS, BARS, KEYED, "", "|", "Yes", "No", "three: ", "May 1", "9" * 400, "\ud800", "it's",
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
    pairs = [
        ("When was the Torbeck club founded?", f"The club was founded in {one}."),
        ("In what year was the Torbeck club founded?", f"In {other}."),
    ]
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
    asked = "When was the Torbeck club founded?"
    pairs = [(asked, f"In {year}.") for year in (1857, 1857, 1867, 1877)]
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
    """60,000 letters a text take a second or so; a quadratic scan would take minutes."""
    long = unit * (60_000 // len(unit))
    started = time.perf_counter()
    for question in (long, "How many golfers are from Fiji?", f"When did Torbeck win {long}"):
        states([(question, f"Three golfers: {long}"), (question, long)], long)
    assert time.perf_counter() - started < 10


def test_many_cycles_take_their_time_each():
    """2,000 answers to one question are compared with a bounded number of others."""
    pairs = [("When was the Torbeck club founded?", f"In {1000 + n % 900}.") for n in range(2000)]
    started = time.perf_counter()
    assert 0.0 == scored(pairs).value
    assert time.perf_counter() - started < 10
