"""The readings beyond the paper, one by one: what each changes, and that nothing else moves."""

from dataclasses import replace

import pytest
from hypothesis import given

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import active_rewards, judge_roles, reward_batch
from decomposerl.rewards.coverage import coverage
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.readings import asks_about_part, restates, verdict
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import STRICT, RewardSettings
from decomposerl.rewards.votes import pseudo_label
from decomposerl.traces.trace import Cycle
from decomposerl.training.experiments import RECIPES
from reward_parts import NEI, PLAIN, R, S, groups, numbered, rollout, signals, states, values
from strategies import LAW

CLAIM = "The Ilva ferry was designed by Oskar Lund in 1931."
WHO, WHEN = "Who designed the Ilva ferry?", "In which year was the Ilva ferry designed?"
COPY, FILLER = "Is it true that the Ilva ferry was designed by Oskar Lund in 1931?", "Who ate?"
SILENT = "I don't know."
GROUNDED = RewardSettings(grounding="required")
REFUTES = RewardSettings(silence="refutes")
MARKED = RewardSettings(restating="marked")
PART = RewardSettings(abstention="part")


def case(pairs: list[tuple[str, str]], full: str, without: str, correct: str) -> RewardCase:
    """A case by initials: verdicts S, R, N; ``correct`` + right, - wrong, 0 abstains and open."""
    of = {"S": S, "R": R, "N": NEI}
    sampled = rollout([Cycle(*pair, "So.") for pair in pairs], R, label=R)
    ruled = signals(len(pairs), of[full], [of[one] for one in without])
    ruled = replace(
        ruled,
        answerable=tuple(one != "0" for one in correct),
        correct=tuple(None if one == "0" else one == "+" for one in correct),
        abstained=tuple(one == "0" for one in correct),
    )
    return RewardCase(replace(sampled, claim=CLAIM), ruled)


@pytest.mark.parametrize(
    ("question", "part", "whole"),
    [
        (WHO, True, False),
        (WHEN, True, False),
        (COPY, False, True),
        ("Did Oskar Lund design the ferry Ilva in the year 1931?", False, True),
        (FILLER, False, False),
        ("What did Oskar Lund eat at the harbour?", False, False),
        ("Which colour do ferries have?", False, False),
    ],
)
def test_parts_restatements_and_other_things(question: str, part: bool, whole: bool):  # noqa: FBT001
    """A part holds mostly words of the claim, and not nearly all of them."""
    assert (part, whole) == (asks_about_part(CLAIM, question), restates(CLAIM, question))


def test_coverage_pays_for_grounded_answers_only():
    """Half of the answers are wrong: half; the plain reading pays the verdict alone."""
    half = case([(WHO, "Karl Mohr."), (WHEN, "In 1931.")], "R", "NR", "-+")
    assert [1.0] == values(coverage([half], PLAIN))
    assert [0.5] == values(coverage([half], GROUNDED))


def test_an_ungrounded_answer_earns_no_necessity_and_keeps_its_harm():
    """A positive value falls to 0; a harmful question stays harmful."""
    made_up = case([(WHO, "Karl Mohr."), (WHEN, "In 1931.")], "R", "NR", "-+")
    assert ["ungrounded", "redundant"] == states(necessity([made_up], GROUNDED)[0])
    assert ["necessary", "redundant"] == states(necessity([made_up], PLAIN)[0])
    harmful = case([(WHO, "Karl Mohr."), (WHEN, "In 1931.")], "S", "RS", "-+")
    assert ["harmful", "neutral"] == states(necessity([harmful], GROUNDED)[0])


def test_silence_about_a_part_refutes():
    """An honest abstention turns NotEnoughInfo into Refuted, and is necessary if it is alone."""
    alone = case([(WHO, SILENT), (WHEN, "In 1931.")], "N", "NN", "0+")
    assert ([0.0], [1.0]) == (values(coverage([alone], PLAIN)), values(coverage([alone], REFUTES)))
    assert ["necessary", "redundant"] == states(necessity([alone], REFUTES)[0])
    both = case([(WHO, SILENT), (WHEN, SILENT)], "N", "NN", "00")
    assert ["redundant", "redundant"] == states(necessity([both], REFUTES)[0])


@pytest.mark.parametrize(
    ("pairs", "full", "correct", "expected"),
    [
        ([(FILLER, SILENT), (WHEN, "In 1931.")], "N", "0+", NEI),
        ([(COPY, SILENT), (WHEN, "In 1931.")], "N", "0+", NEI),
        ([(WHO, SILENT), (WHEN, "In 1931.")], "S", "0+", S),
        ([(WHO, SILENT), (WHEN, "In 1931.")], "N", "0+", R),
    ],
)
def test_silence_elsewhere_says_nothing(
    pairs: list[tuple[str, str]], full: str, correct: str, expected: str
):
    """Fillers and the whole claim do not count, and a verdict that there is stays."""
    assert expected == verdict(case(pairs, full, "NN", correct), REFUTES)


def test_a_dodged_question_is_no_silence():
    """The document answers it, so the abstention refutes nothing."""
    dodged = case([(WHO, SILENT), (WHEN, "In 1931.")], "N", "NN", "0+")
    answerable = replace(dodged, signals=replace(dodged.signals, answerable=(True, True)))
    assert NEI == verdict(answerable, REFUTES)


def test_the_votes_of_an_unlabelled_group_are_read_the_same():
    """Two abstaining rollouts outvote one that supports."""
    silent = case([(WHO, SILENT), (WHEN, SILENT)], "N", "NN", "00")
    reported = case([(WHO, "Oskar Lund."), (WHEN, "In 1931.")], "S", "NN", "++")
    cases = numbered([silent, silent, reported])
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, REFUTES))


def test_joint_marks_restatements_and_abstentions_beside_the_claim():
    """A restated claim earns 0 when marked; a filler's abstention when parts alone pay."""
    one = case([(COPY, "Yes."), (FILLER, SILENT), (WHO, SILENT)], "S", "SSS", "+00")
    assert [1.0] == values(joint([one], PLAIN))
    assert ["restates", "abstained", "abstained"] == states(joint([one], MARKED)[0])
    assert ["answered", "beside_the_claim", "abstained"] == states(joint([one], PART)[0])
    assert [1 / 3] == values(joint([one], STRICT))


def test_a_missing_ruling_is_null_where_a_reading_needs_it():
    """Correctness that failed makes coverage null under ``grounding``, and nowhere else."""
    lost = case([(WHO, "Karl Mohr."), (WHEN, "In 1931.")], "R", "NR", "-+")
    lost = replace(lost, signals=replace(lost.signals, correct=(None, True)))
    assert [1.0] == values(coverage([lost], PLAIN))
    assert [None] == values(coverage([lost], GROUNDED))
    assert [None] == values(necessity([lost], GROUNDED))


def test_the_rulings_that_a_reading_needs_are_asked_for():
    """With joint quality off, coverage still needs the rulings on each question."""
    off = {"joint": 0.0}
    plain, strict = RewardSettings(weights=off), replace(STRICT, weights=off)
    assert {"full", "leave_one_out"} == judge_roles(active_rewards(plain), plain)
    roles = {"full", "leave_one_out", "question"}
    assert roles == judge_roles(active_rewards(strict), strict)
    assert roles == judge_roles(list(REWARDS), PLAIN)


@LAW
@given(groups())
def test_strict_values_stay_in_range_and_wrong_verdicts_earn_no_more(cases: list[RewardCase]):
    """Each reward keeps its bounds; joint quality never grows by the strict readings."""
    found = reward_batch(cases, STRICT).results
    plain = reward_batch(cases, PLAIN).results
    for reward in REWARDS:
        for result in found.get(reward.name, ()):
            assert result.value is None or reward.low <= result.value <= reward.high
    for strict, literal in zip(found["joint"], plain["joint"], strict=True):
        assert strict.value is None or strict.value <= (literal.value or 0.0) + 1e-9


def test_the_papers_recipes_keep_the_papers_readings():
    """Every recipe with a row in the paper; only ``tiny_strict`` reads strictly."""
    for recipe in RECIPES:
        readings = replace(recipe.rewards, weights={})
        assert (readings == STRICT) == (recipe.name == "tiny_strict")
        assert readings == PLAIN or not recipe.paper
