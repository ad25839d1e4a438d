"""Consistency probed from outside: golf in seven shapes of evidence, and traces that agree."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from decomposerl.rewards.consistency import consistency
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.traces.abstention import abstains
from decomposerl.traces.trace import Cycle
from reward_parts import PLAIN, rollout, signals, states

Pairs = Sequence[tuple[str, str]]
ROWS = (
    ("Davis Love III", "United States"),
    ("Phil Mickelson", "United States"),
    ("Vijay Singh", "Fiji"),
    ("David Toms", "United States"),
    ("Tiger Woods", "United States"),
)
ENTRIES = [f"{name} ({country})" for name, country in ROWS]
NUMBERED = [f"{place}. {entry}" for place, entry in enumerate(ENTRIES, start=1)]
TITLE = "The five golfers who earned most in 2001, by name"
EVIDENCE = {
    "semicolons": f"{TITLE}. {'; '.join(NUMBERED)}.",
    "commas": f"{TITLE}. {', '.join(NUMBERED)}.",
    "lines": "\n".join((TITLE, *NUMBERED)),
    "a sentence": f"The five best paid were {', '.join(ENTRIES[:-1])}, and {ENTRIES[-1]}.",
    "bars": "\n".join((TITLE, "Golfer | Country", *(" | ".join(row) for row in ROWS))),
    "bars with a rank": "\n".join(
        (
            TITLE,
            "Rank | Golfer | Country",
            *(f"{n} | {a} | {b}" for n, (a, b) in enumerate(ROWS, 1)),
        )
    ),
    "bars with a page": "\n".join(f"2001 PGA Tour: {' | '.join(row)}" for row in ROWS),
}
FIVE = ("How many golfers have a row?", "There are rows for five golfers.")
ORDER = ("Who earned least, in order?", "Love III, Singh, Toms, Mickelson, Woods, in rising order.")
FROM_US = "How many of the golfers come from the United States?"
BOTH_WROTE = "Good Omens is by Terry Pratchett and Neil Gaiman."


def scored(pairs: Pairs, evidence: str = "") -> RewardResult:
    asked = [Cycle(question, answer, "So.") for question, answer in pairs]
    sampled = replace(rollout(asked), evidence=evidence)
    ruled = replace(signals(len(asked)), abstained=tuple(abstains(a) for _, a in pairs))
    return consistency([RewardCase(sampled, ruled)], PLAIN)[0]


@pytest.mark.parametrize("shape", EVIDENCE)
@pytest.mark.parametrize(
    "answer",
    [
        "Three of the golfers come from the United States: Toms, Woods, and Mickelson.",
        "Three.",
        "There are three of them.",
    ],
)
def test_the_undercount_is_found_in_every_shape(shape: str, answer: str):
    """Four of the rows that the trace names are American, however the rows are written."""
    found = scored([FIVE, (FROM_US, answer), ORDER], EVIDENCE[shape])
    assert ["consistent", "miscounts", "consistent"] == states(found)
    assert 2 / 3 == found.value


@pytest.mark.parametrize("shape", EVIDENCE)
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (FROM_US, "Four of the golfers come from the United States."),
        (FROM_US, "At least three of the golfers come from the United States."),
        (FROM_US, "Not three but four of the golfers come from the United States."),
        ("How many of the golfers come from Fiji?", "One golfer, Vijay Singh, is from Fiji."),
        (
            "How many of the top three golfers come from the United States?",
            "Three of the top three are: David Toms, Tiger Woods and Phil Mickelson.",
        ),
        (
            "How many of the golfers from the United States had won majors?",
            "Two of the golfers from the United States had: Tiger Woods and Phil Mickelson.",
        ),
        (
            "How many golfers from the United States earned more than Vijay Singh?",
            "Three golfers earned more: David Toms, Tiger Woods and Phil Mickelson.",
        ),
        (
            "Which other golfers from the United States are there besides Woods?",
            "Three other golfers: Phil Mickelson, David Toms and Davis Love III.",
        ),
        ("How many does the claim count?", "The claim says that three golfers are American."),
    ],
)
def test_a_count_of_something_else_is_none(shape: str, question: str, answer: str):
    """Right counts, hedges, denials, and counts under a further condition contradict nothing."""
    found = scored([FIVE, (question, answer), ORDER], EVIDENCE[shape])
    assert ["consistent"] * 3 == states(found)


@pytest.mark.parametrize(
    ("evidence", "first", "second"),
    [
        (
            "",
            ("How many games did Ulm win in 2010?", "Ulm won 10 games."),
            ("How many games did Ulm win in 2011?", "Ulm won 12 games."),
        ),
        (
            "",
            ("How many games were won at home?", "Ulm won 10 games."),
            ("How many games were won away?", "Ulm won 12 games."),
        ),
        (
            "",
            ("How many times did Ulm beat Bern?", "Three times."),
            ("How many times did Bern beat Ulm?", "Five times."),
        ),
        (
            "",
            ("How many people died on Monday?", "12 people died."),
            ("How many people died on Tuesday?", "15 people died."),
        ),
        (
            "",
            ("How many people live in Ulm?", "About 120,000."),
            ("How many people live in Ulm?", "Ulm has 119,218 inhabitants."),
        ),
        (
            "",
            ("How long is the Ilva?", "The Ilva is 5 km long."),
            ("How long is the Ilva?", "The Ilva is 3.1 miles long."),
        ),
        (
            "",
            ("When was Ann born?", "She was born in 1921."),
            ("When was Eve born?", "She was born in 1923."),
        ),
        (
            "",
            ("When did the Ilva bridge open?", "It opened in 1921."),
            ("When did the Ilva bridge open?", "It opened on 3 May 1921."),
        ),
        (
            "",
            ("When did the Ilva bridge open?", "1921."),
            ("When did the Ilva bridge close?", "1980."),
        ),
        (
            "",
            ("When did the Ilva bridge open?", "1921."),
            ("When did the Ilva bridge open?", "I don't know."),
        ),
        (
            "",
            ("When was Ilva published in the US?", "Ilva was published in 1998."),
            ("When was Ilva published in the UK?", "Ilva was published in 1997."),
        ),
        (
            "",
            ("When did Ann win the title?", "Ann won the title in 1998."),
            ("When did Ann win the title again?", "Ann won the title in 2002."),
        ),
        (
            "",
            ("Where is the desk?", "The desk is in room 3."),
            ("Where is the bed?", "The bed is in room 4."),
        ),
        (
            "",
            (
                "Which cities did she live in?",
                "She lived in two cities: Paris, France, and Rome, Italy.",
            ),
            FIVE,
        ),
        (
            "",
            ("Which states joined?", "Three states joined: Trinidad and Tobago, Cuba and Peru."),
            FIVE,
        ),
        ("", ("Which men led?", "Three men led: Tom, Phil and Holland Smith."), FIVE),
        ("", ("Is Ethiopia in the range?", "No."), ("Is Kenya in the range?", "Yes.")),
        ("", ("Is Ann older than Bo?", "Yes."), ("Is Bo older than Ann?", "No.")),
        (
            "",
            ("Is Ethiopia in the range?", "No."),
            ("Is Ethiopia not in the range?", "Yes, it is not."),
        ),
        (
            BOTH_WROTE,
            ("Who wrote Good Omens?", "Terry Pratchett."),
            ("Who wrote Good Omens?", "Neil Gaiman."),
        ),
        ("", ("Who directed the film?", "Ann Crane."), ("Who produced the film?", "Bo Marsh.")),
    ],
)
def test_answers_that_can_both_hold(evidence: str, first: tuple[str, str], second: tuple[str, str]):
    """Other years, places, units, precision, things or sides: no contradiction, in any order."""
    assert ["consistent"] * 2 == states(scored([first, second], evidence))
    assert ["consistent"] * 2 == states(scored([second, first], evidence))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            ("When did the Ilva bridge open?", "It opened in 1921."),
            ("In what year was the Ilva bridge opened?", "In May 1923."),
        ),
        (
            ("How many arches does the Ilva bridge have?", "It has five arches."),
            ("How many arches does the Ilva bridge have?", "Six."),
        ),
        (("Is Ethiopia in the range?", "No."), ("Is Ethiopia in the range?", "Yes, it is.")),
    ],
)
def test_one_question_with_two_answers(first: tuple[str, str], second: tuple[str, str]):
    """Date, count, yes or no: both sides lose, and each names the other."""
    found = scored([first, second])
    assert ["contradicts:1", "contradicts:0"] == states(found)
    assert 0 == found.value


@pytest.mark.parametrize("shape", EVIDENCE)
@pytest.mark.parametrize(
    "question",
    [
        "How many of the five golfers from the United States won majors?",
        "How many of the five golfers who won majors come from the United States?",
        "How many of the top three golfers come from the United States?",
        "How many of the 3 best golfers come from the United States?",
    ],
)
def test_a_number_of_rows_is_no_excuse_for_a_condition(shape: str, question: str):
    """What stands after the things counted, or another number of them, asks for fewer rows."""
    assert ["consistent"] * 3 == states(scored([FIVE, (question, "Two."), ORDER], EVIDENCE[shape]))
