"""The readings of the rewards: what each changes, and an open claim where it is admitted."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.judge.plan import Signals
from decomposerl.replies.abstention import abstains
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import active_rewards, judge_roles, reward_batch
from decomposerl.rewards.coverage import coverage, pseudo_label
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import conditions_met
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.readings import asks_about_part, restates
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import STRICT, RewardSettings
from decomposerl.rewards.verification import verification
from decomposerl.schemas import VERDICTS, Verdict
from decomposerl.traces.grammar import build_trace, parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from decomposerl.training.experiments import RECIPES
from reward_parts import (
    ALL_MET,
    NEI,
    PLAIN,
    R,
    S,
    groups,
    numbered,
    rollout,
    signals,
    states,
    unit,
    values,
    vectors,
)
from strategies import LAW

traces = st.lists(st.lists(vectors, max_size=5), min_size=1, max_size=6)


def case_of(rows: list[tuple[float, ...]]) -> RewardCase:
    return RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows) if rows else None)


def by_hand(rows: list[tuple[float, ...]]) -> float:
    """The formula as a double loop over pairs."""
    if len(rows) < 2:
        return -1.0
    units = [np.array(row) / np.linalg.norm(row) for row in rows]
    nearest = [max(float(units[i] @ units[j]) for j in range(i)) for i in range(1, len(rows))]
    return -sum(nearest) / len(rows)


@LAW
@given(traces)
def test_diversity_is_its_formula(group: list[list[tuple[float, ...]]]):
    """Traces of any lengths read at once score what each scores by the double loop.

    Alone or beside others, the score is the very same number.
    """
    cases = [case_of(rows) for rows in group]
    found = diversity(cases, PLAIN)
    assert [by_hand(rows) for rows in group] == pytest.approx(values(found), abs=1e-6)
    assert [diversity([case], PLAIN)[0] for case in cases] == found


def test_an_unknown_reading_is_refused():
    """It would silently count as the other reading; the message lists what there is."""
    for field in fields(RewardSettings):
        if field.name not in {"weights", "own"}:
            with pytest.raises(ConfigError, match=f"'{field.name}' is 'max'.*{field.default}"):
                RewardSettings(**{field.name: "max"})


CLAIM = "The Ilva ferry was designed by Oskar Lund in 1931."
WHO, WHEN = "Who designed the Ilva ferry?", "In which year was the Ilva ferry designed?"
COPY, FILLER = "Is it true that the Ilva ferry was designed by Oskar Lund in 1931?", "Who ate?"
SILENT = "I don't know."
GROUNDED = RewardSettings(grounding="required")
REFUTES = RewardSettings(silence="refutes")
MARKED = RewardSettings(restating="marked")
PART = RewardSettings(abstention="part")
Pairs = Sequence[tuple[str, str]]
Compute = Callable[[Sequence[RewardCase], RewardSettings], list[RewardResult]]


def case(pairs: Pairs, full: str, without: str, correct: str) -> RewardCase:
    """A case by initials: verdicts S, R, N; ``correct`` + right, - wrong, 0 abstains, ? lost."""
    of = {"S": S, "R": R, "N": NEI}
    sampled = rollout([Cycle(*pair, "So.") for pair in pairs], R, label=R)
    ruled = signals(len(pairs), of[full], [of[one] for one in without])
    ruled = replace(
        ruled,
        answerable=tuple(one != "0" for one in correct),
        correct=tuple(None if one in "0?" else one == "+" for one in correct),
        abstained=tuple(one == "0" for one in correct),
    )
    return RewardCase(replace(sampled, claim=CLAIM), ruled)


def test_parts_restatements_and_other_things():
    """A part holds mostly words of the claim, and not nearly all of them."""
    again = "Did Oskar Lund design the ferry Ilva in the year 1931?"
    others = (FILLER, "What did Oskar Lund eat at the harbour?", "Which colour do ferries have?")
    kinds = {(True, False): (WHO, WHEN), (False, True): (COPY, again), (False, False): others}
    for kind, questions in kinds.items():
        for question in questions:
            assert kind == (asks_about_part(CLAIM, question), restates(CLAIM, question)), question


HALF, ALONE = ((WHO, "Karl Mohr."), (WHEN, "In 1931.")), ((WHO, SILENT), (WHEN, "In 1931."))
BOTH, ASIDE = ((WHO, SILENT), (WHEN, SILENT)), ((COPY, "Yes."), (FILLER, SILENT), (WHO, SILENT))
READ = (
    # Coverage and necessity pay for grounded answers only; what is harmful stays harmful.
    (coverage, PLAIN, HALF, "R NR -+", 1.0, ""),
    (coverage, GROUNDED, HALF, "R NR -+", 0.5, ""),
    (necessity, PLAIN, HALF, "R NR -+", 0.5, "necessary redundant"),
    (necessity, GROUNDED, HALF, "R NR -+", 0.0, "ungrounded redundant"),
    (necessity, GROUNDED, HALF, "S RS -+", -1.0, "harmful neutral"),
    # An honest abstention turns NotEnoughInfo into Refuted, and is necessary if it is alone.
    (coverage, PLAIN, ALONE, "N NN 0+", 0.0, ""),
    (coverage, REFUTES, ALONE, "N NN 0+", 1.0, ""),
    (necessity, REFUTES, ALONE, "N NN 0+", 0.5, "necessary redundant"),
    (necessity, REFUTES, BOTH, "N NN 00", 0.5, "redundant redundant"),
    # A restated claim earns 0 when marked; a filler's abstention when parts alone pay.
    (joint, PLAIN, ASIDE, "S SSS +00", 1.0, "answered abstained abstained"),
    (joint, MARKED, ASIDE, "S SSS +00", 2 / 3, "restates abstained abstained"),
    (joint, PART, ASIDE, "S SSS +00", 2 / 3, "answered beside_the_claim abstained"),
    (joint, STRICT, ASIDE, "S SSS +00", 1 / 3, "restates beside_the_claim abstained"),
    # A correctness that failed makes null what a reading needs it for, and nothing else.
    (coverage, PLAIN, HALF, "R NR ?+", 1.0, ""),
    (coverage, GROUNDED, HALF, "R NR ?+", None, ""),
    (necessity, GROUNDED, HALF, "R NR ?+", None, "failed redundant"),
)


@pytest.mark.parametrize(("reward", "settings", "pairs", "ruled", "value", "said"), READ)
def test_what_a_reading_changes(
    reward: Compute,
    settings: RewardSettings,
    pairs: Pairs,
    ruled: str,
    value: float | None,
    said: str,
):
    """A value of each reading beside that of the printed formula, and what each question is."""
    (found,) = reward([case(pairs, *ruled.split())], settings)
    assert (value, said.split()) == (found.value, states(found))


def test_the_votes_of_an_unlabelled_group_are_read_the_same():
    """Two abstaining rollouts outvote one that supports."""
    silent = case(BOTH, "N", "NN", "00")
    reported = case([(WHO, "Oskar Lund."), (WHEN, "In 1931.")], "S", "NN", "++")
    cases = numbered([silent, silent, reported])
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, REFUTES))


def test_the_rulings_that_a_reading_needs_are_asked_for():
    """With joint quality off, coverage may still need the rulings on each question.

    So it does where a trace may end with the third verdict, though no other reward needs them.
    """
    off = {"joint": 0.0}
    plain, strict = RewardSettings(weights=off), replace(STRICT, weights=off)
    assert {"full", "leave_one_out"} == judge_roles(active_rewards(plain), plain)
    roles = {"full", "leave_one_out", "question"}
    assert roles == judge_roles(active_rewards(strict), strict)
    assert roles == judge_roles(list(REWARDS), PLAIN)
    alone = RewardSettings(weights=off | {"necessity": 0.0})
    assert {"full"} == judge_roles(active_rewards(alone), alone)
    assert {"full", "question"} == judge_roles(active_rewards(alone), alone, three_way=True)


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


OPEN_CLAIM = "Ilva bridge opened in 1921 and Torbeck designed the river market."
HERE, THERE = "Did Ilva bridge open in 1921?", "Did Torbeck design the river market?"
BESIDE = "Who mows the lawns of Quessa castle?"
YES, DODGE = "Yes, Ilva bridge opened in 1921.", "I don't know."


def open_case(
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
    evidence = "Ilva bridge opened in 1921."
    return RewardCase(Rollout("g", 0, OPEN_CLAIM, evidence, trace, label), ruled)


SHOWN = (HERE, YES, True), (THERE, DODGE, False)
UNPAID = {
    "nothing is asked": open_case(),
    "a dodge": open_case((THERE, DODGE, True), (HERE, DODGE, True)),
    "open, but beside the claim": open_case((BESIDE, DODGE, False), (HERE, YES, True)),
    "all that is asked is answered": open_case((HERE, YES, True), (BESIDE, "Ann.", True)),
    "the judge finds it supported": open_case(*SHOWN, full=S, without=(NEI, S)),
}


def test_an_open_claim_pays_nobody_who_does_not_show_it_open():
    """Neither coverage nor necessity, and no vote for the third verdict.

    Nothing follows from nothing answered: a trace that is empty, that dodges, or that asks about
    something else earns nothing by it.
    """
    for name, one in UNPAID.items():
        assert [0.0] == values(coverage([one], PLAIN)), name
        assert all(value <= 0 for value in values(necessity([one], PLAIN)) if value is not None)
        assert pseudo_label([one], PLAIN) != NEI, name


def test_an_open_part_that_is_shown_pays_and_is_the_necessary_question():
    """The answer that leaves the part open is necessary, the other one redundant."""
    one = open_case(*SHOWN)
    assert [1.0] == values(coverage([one], PLAIN))
    (found,) = necessity([one], PLAIN)
    assert ["redundant", "necessary"] == states(found)
    (alone,) = necessity([open_case((THERE, DODGE, False))], PLAIN)
    assert ["necessary"] == states(alone)
    assert NEI == pseudo_label([one], PLAIN)


def test_a_ruling_that_is_missing_decides_nothing():
    """Whether the part is open is not known: null, and no vote."""
    one = open_case((THERE, DODGE, None))
    assert [None] == values(coverage([one], PLAIN))
    assert [None] == values(necessity([one], PLAIN))
    assert pseudo_label([one], PLAIN) is None


def test_the_third_verdict_meets_the_format_only_where_it_is_admitted():
    """It is one of three labels there, and an unknown verdict elsewhere; verification follows."""
    text = "<think>a</think><verification>Not Enough Information</verification>"
    three, two = parse_trace(text, VERDICTS), parse_trace(text)
    met = "the verdict is one of the labels"
    assert (NEI, True) == (three.verdict, met in conditions_met(three))
    assert (None, False) == (two.verdict, met in conditions_met(two))
    rollouts = [Rollout("g", 0, OPEN_CLAIM, "", trace, NEI) for trace in (three, two)]
    empty = Signals(NEI, (), (), (), (), ())
    cases = [RewardCase(one, empty) for one in rollouts]
    assert [1.0, 0.0] == values(verification(cases, PLAIN))
