"""The paper's five printed traces (appendix on traces), retold, and what each reward gives them.

The rulings are written by hand, as a judge of one question at a time gives them, and so are
the question vectors; every expected value stands with its arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from decomposerl.judge.call import AnswersVerdict
from decomposerl.judge.plan import plan
from decomposerl.judge.signals import Signals
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import RewardedBatch, reward_batch
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from reward_parts import ALL_MET, NEI, PLAIN, R, S, states, unit

SEVEN = [reward.name for reward in REWARDS if reward.weight]
EVERY = RewardSettings(weights={reward.name: 1.0 for reward in REWARDS})
NAMES = ("format", "verification", "question_count", "diversity", "coverage", "necessity", "joint")

BOOKS = """<think>Two books, one person: who wrote each, and did that writer get the prize?</think>
<question>Which novelist is Nineteen Eighty-Four by?</question>
<answer>It is a novel of 1949 by George Orwell.</answer>
<think>Now the other book.</think>
<question>And which novelist is Animal Farm by?</question>
<answer>By George Orwell too, four years earlier.</answer>
<think>One person indeed. What remains is the prize.</think>
<question>Was George Orwell given the Nobel Prize in Literature?</question>
<answer>No. Orwell's honours are a Prometheus award and a Retrospective Hugo; the document says \
that no Nobel Prize of any kind went to him.</answer>
<think>The last part of the claim fails.</think>
<verification>Refuted</verification>"""

FOOTBALL = """<think>The league follows from the club, so the club comes first.</think>
<question>Which club does Marko Dmitrović play for?</question>
<answer>Marko Dmitrović keeps goal for SD Eibar.</answer>
<think>Where does that club play?</think>
<question>In which league does SD Eibar play?</question>
<answer>SD Eibar is in La Liga, where it was promoted in 2014.</answer>
<think>Player, club, league: both steps hold.</think>
<verification>Supported</verification>"""

DATE = """<think>The claim gives a day; what does the document give?</think>
<question>Which year does the document give for George Brown's reform of his party?</question>
<answer>In 1857 George Brown gave the Clear Grit party its new shape.</answer>
<think>Ten years apart. Is the other date anywhere?</think>
<question>Is 1 July 1867 named in the document?</question>
<answer>The document has 1857 alone; 1 July 1867 does not occur.</answer>
<think>The dates do not agree.</think>
<verification>Refuted</verification>"""

MONKEYS = """<think>Two monkeys and two regions. Each monkey is looked up by itself.</think>
<question>Where does the Tantalus monkey live?</question>
<answer>In a dozen countries between the tropics of Africa, from Ghana in the west to Kenya \
in the east.</answer>
<think>The other monkey.</think>
<question>Where does the Vervet monkey live?</question>
<answer>I don't know where Vervet monkeys live; the document is about another species.</answer>
<think>Nothing on it. One wrong half is enough to refute.</think>
<question>Does the range of the Tantalus monkey include Ethiopia?</question>
<answer>No, Ethiopia is not among the countries listed for the Tantalus monkey.</answer>
<think>So the claim fails for the first monkey.</think>
<verification>Refuted</verification>"""

GOLF = """<think>How many golfers are there, and how many of them are American?</think>
<question>How many golfers stand in the ranking?</question>
<answer>It has rows for five golfers.</answer>
<think>Now the Americans.</think>
<question>How many golfers come from the United States?</question>
<answer>Three golfers come from the United States: David Toms, Phil Mickelson and Tiger \
Woods.</answer>
<think>And their names.</think>
<question>Whom does the ranking name, from A to Z?</question>
<answer>Love III, Mickelson, Singh, Toms, Woods.</answer>
<think>Three of five, as claimed.</think>
<verification>Supported</verification>"""
GOLF_TABLE = """Golf in 2001: who earned most, by name
Golfer | Country
Davis Love III | United States
Phil Mickelson | United States
Vijay Singh | Fiji
David Toms | United States
Tiger Woods | United States"""


@dataclass(frozen=True)
class Golden:
    """A trace with its claim's label and n*, the judge's verdicts, vectors, and the values."""

    name: str
    text: str
    label: Verdict
    n_star: int
    full: AnswersVerdict
    without: tuple[AnswersVerdict, ...]
    vectors: tuple[tuple[float, ...], ...]
    expected: Sequence[float]
    necessity: tuple[str, ...]
    evidence: str = ""
    unanswerable: frozenset[int] = frozenset()
    ungrounded: frozenset[int] = frozenset()


APART = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
TWO_ALIKE = (1.0, 0.0, 0.0), (0.8, 0.6, 0.0), (0.0, 0.0, 1.0)
GOLDENS = (
    # Without either book's author the prize still refutes; without the prize nothing does.
    # Diversity: the two questions for an author have cosine 0.8, so -0.8 / 3.
    Golden(
        "books",
        BOOKS,
        R,
        3,
        R,
        (R, R, NEI),
        TWO_ALIKE,
        (1, 1, 1, -0.8 / 3, 1, 0.5, 1),
        ("redundant", "redundant", "necessary"),
    ),
    # Neither hop alone says anything. Diversity: -0.6 / 2.
    Golden(
        "football",
        FOOTBALL,
        S,
        2,
        S,
        (NEI, NEI),
        ((1.0, 0.0), (0.6, 0.8)),
        (1, 1, 1, -0.3, 1, 1, 1),
        ("necessary", "necessary"),
    ),
    # Each answer alone has the other year. The second question names nobody of the claim:
    # four criteria of five, so joint is (1 + 0.8) / 2. Diversity: -0.28 / 2.
    Golden(
        "date",
        DATE,
        R,
        2,
        R,
        (R, R),
        ((1.0, 0.0), (0.28, 0.96)),
        (1, 1, 1, -0.14, 1, 0.5, 0.9),
        ("redundant", "redundant"),
        ungrounded=frozenset({1}),
    ),
    # Three questions for two sub-questions: 1 - |3/2 - 1|. Only the last answer refutes. The
    # second question cannot be answered and the trace says so: 1 by the honest reading.
    Golden(
        "monkeys",
        MONKEYS,
        R,
        2,
        R,
        (R, R, NEI),
        TWO_ALIKE,
        (1, 1, 0.5, -0.8 / 3, 1, 0.5, 1),
        ("redundant", "redundant", "necessary"),
        unanswerable=frozenset({1}),
    ),
    # The answers support a false claim; without the count they say too little. Neither is the
    # label, so each question is neutral. All whom the second answer names are American: taken
    # by itself it passes for correct, and joint is 1.
    Golden(
        "golf",
        GOLF,
        R,
        3,
        S,
        (S, NEI, S),
        APART,
        (1, 0, 1, 0, 0, 0, 1),
        ("neutral", "neutral", "neutral"),
        GOLF_TABLE,
    ),
)
MONKEY = next(one for one in GOLDENS if one.name == "monkeys")
UNDERCOUNT = next(one for one in GOLDENS if one.name == "golf")
REPAIRED = replace(
    UNDERCOUNT,
    text=GOLF.replace("Three golfers", "Four golfers")
    .replace("David Toms, Phil", "Davis Love III, David Toms, Phil")
    .replace("Three of five, as", "Four of five, not three as")
    .replace("Supported", "Refuted"),
    full=R,
    without=(R, NEI, R),
)


def case_of(golden: Golden, *, labelled: bool = True) -> RewardCase:
    """The printed trace as a case; what is answerable, atomic and correct as the golden says."""
    trace = parse_trace(golden.text)
    places = range(len(trace.cycles))
    silent = tuple(abstains(cycle.answer) for cycle in trace.cycles)
    ruled = Signals(
        full=golden.full,
        without=golden.without,
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
    """Each reward gives what the arithmetic beside the trace says, and the total is their sum."""
    scored = reward_batch([case_of(golden)], PLAIN)
    found = values_of(scored)
    assert NAMES == tuple(found)
    assert pytest.approx(list(golden.expected), abs=1e-6) == list(found.values())
    assert pytest.approx([sum(golden.expected)], abs=1e-6) == list(scored.totals)
    assert list(golden.necessity) == states(scored.results["necessity"][0])


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_printed_traces_have_no_fault(golden: Golden):
    """Full texts, read by the grammar: thoughts, two or three cycles, one verdict, no fault."""
    trace = parse_trace(golden.text)
    assert () == trace.faults
    assert len(golden.vectors) == len(golden.without) == len(trace.cycles)
    calls = plan([case_of(golden).rollout]).calls
    silent = sum(abstains(cycle.answer) for cycle in trace.cycles)
    assert 4 * len(trace.cycles) + 1 - silent == len(calls)


def test_the_monkeys_abstention():
    """The honest "I don't know": +1/2 for its question in necessity, and joint is 1."""
    (monkeys,) = reward_batch([case_of(MONKEY)], PLAIN).results["joint"]
    assert (1.0, ["answered", "abstained", "answered"]) == (monkeys.value, states(monkeys))
    (needed,) = reward_batch([case_of(MONKEY)], PLAIN).results["necessity"]
    assert (0.5, "redundant") == (needed.questions[1].value, needed.questions[1].state)


def test_the_monkeys_abstention_by_the_letter():
    """The printed formula pays nothing for it: 2/3; and all of it if it had been a dodge."""
    literal = RewardSettings(abstention="literal")
    dodge = case_of(replace(MONKEY, unanswerable=frozenset()))
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


def test_the_printed_traces_without_labels():
    """A lone rollout agrees with itself; needed is an answer whose absence turns the verdict."""
    cases = [case_of(golden, labelled=False) for golden in GOLDENS]
    scored = reward_batch(cases, PLAIN)
    assert (None,) * 5 == scored.counted["verification"]
    assert (1.0,) * 5 == scored.counted["coverage"]
    assert (0.0, 1.0, 0.0, 0.0, 0.0) == scored.counted["necessity"]
    labelled = reward_batch([case_of(golden) for golden in GOLDENS], PLAIN)
    for name in ("format", "question_count", "diversity", "joint"):
        assert labelled.counted[name] == scored.counted[name]


@pytest.mark.parametrize("golden", [*GOLDENS[:4], REPAIRED], ids=lambda golden: golden.name)
def test_the_sound_traces_are_consistent(golden: Golden):
    """No false alarm: the four sound traces, and the golf trace with its count put right."""
    scored = reward_batch([case_of(golden)], EVERY)
    assert 1.0 == values_of(scored)["consistency"]


def test_consistency_sees_the_undercount():
    """Three are counted and four are named: the count loses its third, and is named."""
    (found,) = reward_batch([case_of(UNDERCOUNT)], EVERY).results["consistency"]
    assert pytest.approx(2 / 3) == found.value
    assert ["consistent", "miscounts", "consistent"] == states(found)


def test_without_a_label_only_consistency_sees_the_undercount():
    """Beside its repaired twin each of the seven gives the same; the eighth does not.

    Both agree with their siblings, are well formed and of the right length, and turn when
    the count is left out. With the label the outcome tells: verification, coverage and
    necessity pay the twin alone, but none says which question is wrong.
    """
    pair = (UNDERCOUNT, REPAIRED)
    wrong, right = (values_of(reward_batch([case_of(one, labelled=False)], EVERY)) for one in pair)
    eight = (*SEVEN, "consistency")
    assert {"consistency"} == {name for name in eight if wrong[name] != right[name]}
    wrong, right = (values_of(reward_batch([case_of(one)], EVERY)) for one in pair)
    outcome = {"verification", "coverage", "necessity", "consistency"}
    assert outcome == {name for name in eight if wrong[name] != right[name]}
    assert (1.0, 1.0, 0.5) == (right["verification"], right["coverage"], right["necessity"])


def test_a_group_of_undercounts_teaches_the_wrong_count():
    """Where most rollouts miscount, agreement pays them, and the one that is right goes without."""
    wrong = case_of(UNDERCOUNT, labelled=False)
    right = case_of(REPAIRED, labelled=False)
    group = [
        replace(one, rollout=replace(one.rollout, number=number))
        for number, one in enumerate([wrong, wrong, right])
    ]
    scored = reward_batch(group, EVERY)
    assert (1.0, 1.0, 0.0) == scored.counted["coverage"]
    assert np.argmax(scored.counted["consistency"]) == 2
