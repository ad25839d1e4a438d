"""The paper's printed traces, retold, with hand-written rulings: every reward by hand.

Vectors are made up (the first two questions of each trace are near, the others apart), so
diversity is arithmetic on them and no statement about an embedder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from reward_parts import ALL_MET, NEI, R, S, states, unit

from decomposerl.judge.call import AnswersVerdict
from decomposerl.judge.signals import Signals
from decomposerl.rewards.composite import Scored, score
from decomposerl.rewards.reward import Case
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict

WITH_CONSISTENCY = RewardSettings(weights={"consistency": 1})
NEAR = ((1, 0, 0), (3, 4, 0), (0, 0, 1))  # cosines 0.6, 0, 0


@dataclass(frozen=True)
class Told:
    """A trace retold: its pairs, what the judge would say of them, and n*."""

    claim: str
    evidence: str
    pairs: Sequence[tuple[str, str]]
    verdict: Verdict
    label: Verdict
    full: AnswersVerdict
    without: tuple[AnswersVerdict, ...]
    answerable: tuple[bool, ...]
    n_star: int = 3

    def case(self) -> Case:
        """The trace as the policy would have written it, parsed, with its rulings."""
        asked = "".join(
            f"<question>{question}</question><answer>{answer}</answer><think>So.</think>"
            for question, answer in self.pairs
        )
        text = f"<think>Parts.</think>{asked}<verification>{self.verdict}</verification>"
        silent = tuple(abstains(answer) for _, answer in self.pairs)
        ruled = Signals(
            full=self.full,
            without=self.without,
            answerable=self.answerable,
            atomic=(ALL_MET,) * len(self.pairs),
            correct=tuple(None if quiet else True for quiet in silent),
            abstained=silent,
        )
        sampled = Rollout(
            *("g", 0, self.claim, self.evidence, parse_trace(text), self.label, self.n_star)
        )
        return Case(sampled, ruled, unit(*NEAR)[: len(self.pairs)])


TWO_BOOKS = Told(
    claim="Whoever wrote both Nineteen Eighty-Four and Animal Farm has a Nobel Prize.",
    evidence="George Orwell wrote Animal Farm (1945) and Nineteen Eighty-Four (1949). He got a "
    "Prometheus award and a Hugo after his death, and no Nobel Prize.",
    pairs=(
        ("Whose book is Nineteen Eighty-Four?", "Nineteen Eighty-Four is by George Orwell (1949)."),
        ("Whose book is Animal Farm?", "Animal Farm is by George Orwell too (1945)."),
        ("Was Orwell given a Nobel Prize?", "No, Orwell was given two awards but no Nobel Prize."),
    ),
    verdict=R,
    label=R,
    full=R,
    without=(R, R, NEI),
    answerable=(True, True, True),
)
TWO_HOPS = Told(
    claim="Marko Dmitrović plays in La Liga.",
    evidence="Marko Dmitrović keeps goal for Eibar. Eibar has been in La Liga since 2014.",
    pairs=(
        ("For which club does Marko Dmitrović play?", "Marko Dmitrović keeps goal for Eibar."),
        ("In which league is Eibar?", "Eibar plays in La Liga."),
    ),
    verdict=S,
    label=S,
    full=S,
    without=(NEI, NEI),
    answerable=(True, True),
    n_star=2,
)
DATES = Told(
    claim="George Brown first led the Canadian Liberals on 1 July 1867.",
    evidence="George Brown rebuilt the Clear Grit (Liberal) party in 1857.",
    pairs=(
        ("When did George Brown rebuild the Liberal party?", "George Brown rebuilt it in 1857."),
        ("Is 1 July 1867 in the document?", "No, it has 1857 and says nothing of 1 July 1867."),
    ),
    verdict=R,
    label=R,
    full=R,
    without=(NEI, R),
    answerable=(True, True),
    n_star=2,
)
MONKEYS = Told(
    claim="Tantalus and vervet monkeys both live in Ethiopia and in West Africa.",
    evidence="The Tantalus monkey lives in Benin, Cameroon, Ghana, Kenya, Nigeria and Uganda.",
    pairs=(
        ("Where does the Tantalus monkey live?", "From Benin and Ghana to Kenya and Uganda."),
        ("Where does the vervet monkey live?", "I don't know where the vervet monkey lives."),
        ("Is Ethiopia part of the Tantalus monkey's range?", "No, its range leaves out Ethiopia."),
    ),
    verdict=R,
    label=R,
    full=R,
    without=(R, R, NEI),
    answerable=(True, False, True),
)
GOLF = Told(
    claim="Of the five best-paid golfers of the 2001 tour, three were from the United States.",
    evidence="Earnings on the 2001 tour (top 5). 1. Tiger Woods (United States); 2. Phil "
    "Mickelson (United States); 3. David Toms (United States); 4. Vijay Singh (Fiji); "
    "5. Davis Love III (United States).",
    pairs=(
        ("How many golfers does the table list?", "The table lists five golfers."),
        (
            "How many of the golfers are from the United States?",
            "Three of the golfers are from the United States: Woods, Mickelson, and Toms.",
        ),
        ("How do they rank by earnings?", "Woods, Mickelson, Toms, Singh, Love III."),
    ),
    verdict=S,
    label=S,
    full=S,
    without=(NEI, NEI, S),
    answerable=(True, True, True),
)
"""What the judges of the paper's policy see: a count that agrees with the claim."""

EXPECTED = {
    # format, verification, question count, diversity, coverage, necessity, joint, consistency
    "two books, one author": (TWO_BOOKS, (1, 1, 1, -0.2, 1, 0.5, 1, 1)),
    "two hops": (TWO_HOPS, (1, 1, 1, -0.3, 1, 1, 1, 1)),
    "two dates": (DATES, (1, 1, 1, -0.3, 1, 0.5, 1, 1)),
    "monkeys": (MONKEYS, (1, 1, 1, -0.2, 1, 0.5, 1, 1)),
    "golf, as if the label agreed": (GOLF, (1, 1, 1, -0.2, 1, 0.5, 1, 2 / 3)),
    # Against the true label the verdict is wrong whatever is left out, so every question is
    # neutral: the rewards see the outcome, and none sees why.
    "golf": (replace(GOLF, label=R), (1, 0, 1, -0.2, 0, 0, 1, 2 / 3)),
}


def scored(told: Told, settings: RewardSettings = WITH_CONSISTENCY) -> Scored:
    return score([told.case()], settings)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_printed_traces_by_hand(name: str):
    """Every reward of each retold trace is the one worked out from its rulings; so is the sum."""
    told, expected = EXPECTED[name]
    found = scored(told)
    assert list(expected) == pytest.approx([scores[0].value for scores in found.scores.values()])
    assert [pytest.approx(sum(expected))] == list(found.totals)
    assert [pytest.approx(sum(expected[:-1]))] == list(scored(told, RewardSettings()).totals)


def test_an_abstention_is_redundant_and_pays_in_full():
    """The judge's verdict stands without the silent answer; honesty costs nothing in quality."""
    found = scored(MONKEYS).scores
    assert ["redundant", "redundant", "necessary"] == states(found["necessity"][0])
    assert 0.5 == found["necessity"][0].questions[1].value
    assert ["answered", "abstained", "answered"] == states(found["joint"][0])
    assert 1.0 == found["joint"][0].value


def test_the_printed_formula_pays_the_abstention_nothing():
    """Read literally the same trace earns two thirds: that is why the reading is a setting."""
    literal = RewardSettings(abstention="literal")
    assert 2 / 3 == scored(MONKEYS, literal).scores["joint"][0].value


def test_the_premises_are_redundant_and_the_award_is_necessary():
    """One denial refutes the claim, so the two books change nothing."""
    states_of = states(scored(TWO_BOOKS).scores["necessity"][0])
    assert ["redundant", "redundant", "necessary"] == states_of
    assert ["necessary"] * 2 == states(scored(TWO_HOPS).scores["necessity"][0])


def test_only_consistency_sees_the_undercount():
    """The trace that counts three and one that counts four differ in no reward of the paper."""
    counts, lists = "Three of the golfers", "Woods, Mickelson, and Toms"
    question, answer = GOLF.pairs[1]
    right = answer.replace(counts, "Four of the golfers")
    right = right.replace(lists, "Woods, Mickelson, Toms, and Love III")
    counted = replace(GOLF, pairs=(GOLF.pairs[0], (question, right), GOLF.pairs[2]))
    wrong, correct = scored(GOLF).scores, scored(counted).scores
    assert ["consistency"] == [name for name in wrong if wrong[name] != correct[name]]
    assert ["consistent", "miscounts", "consistent"] == states(wrong["consistency"][0])
    assert 1.0 == correct["consistency"][0].value
