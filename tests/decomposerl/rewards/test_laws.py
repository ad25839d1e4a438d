"""Laws of every reward in the catalogue: range, order, lost rulings, necessity's minimum.

The sum and its policies are in ``test_sum.py``.
"""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.judge.plan import Signals
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import reward_batch
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.reward import Reward, RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.supervision import is_labelled
from decomposerl.rewards.table import TOTAL
from decomposerl.schemas import Verdict
from reward_parts import (
    NEI,
    OWN,
    PLAIN,
    batches,
    case,
    groups,
    labels,
    reward_settings,
    values,
    verdicts,
)
from strategies import EACH_LAW, LAW

EVERY = RewardSettings(weights={reward.name: 1.0 for reward in REWARDS}, own=OWN)
every_reward = pytest.mark.parametrize("reward", REWARDS, ids=lambda reward: reward.name)


def test_the_catalogue_has_the_papers_seven_first():
    """Seven rewards of weight 1, three of them judged; a further member has weight 0."""
    names = [reward.name for reward in REWARDS]
    seven = "format verification question_count diversity coverage necessity joint".split()
    assert seven == names[:7]
    assert [1.0] * 7 + [0.0] * len(REWARDS[7:]) == [reward.weight for reward in REWARDS]
    assert ["coverage", "necessity", "joint"] == [one.name for one in REWARDS if one.judged]
    assert len(names) == len({*names}) == len({one.symbol for one in REWARDS})
    assert TOTAL not in names


@every_reward
@EACH_LAW
@given(groups(failing=True), reward_settings)
def test_values_lie_in_their_range(
    reward: Reward, cases: list[RewardCase], settings: RewardSettings
):
    """One score a case; a value in the range exactly where it is scored; one entry a cycle."""
    scores = reward.compute(cases, settings)
    assert len(cases) == len(scores)
    for one, found in zip(cases, scores, strict=True):
        assert (found.state == "scored") == (found.value is not None)
        assert found.value is None or reward.low <= found.value <= reward.high
        assert len(found.questions) in {0, len(one.rollout.trace.cycles)}
        every = [q.value for q in found.questions if q.value is not None]
        assert all(reward.low <= value <= reward.high for value in every)


@every_reward
@EACH_LAW
@given(groups(failing=True), reward_settings, st.randoms(use_true_random=False))
def test_order_of_rollouts(
    reward: Reward, cases: list[RewardCase], settings: RewardSettings, chance: random.Random
):
    """Who stands where in the group changes nobody's score."""
    order = list(range(len(cases)))
    chance.shuffle(order)
    scores = reward.compute(cases, settings)
    shuffled = reward.compute([cases[place] for place in order], settings)
    assert [scores[place] for place in order] == shuffled


@every_reward
@EACH_LAW
@given(groups(), reward_settings)
def test_no_ruling_is_lost_no_reward_fails(
    reward: Reward, cases: list[RewardCase], settings: RewardSettings
):
    """With all rulings a reward is scored, or absent for the whole group."""
    found = {score.state for score in reward.compute(cases, settings)}
    assert len(found) == 1
    assert found <= {"scored", "absent"}
    rollout = cases[0].rollout
    needs = {"verification": rollout.label, "question_count": rollout.n_star}
    assert (needs.get(reward.name, True) is None) == ("absent" in found)


def lose(signals: Signals, field: str, place: int) -> Signals:
    """The signals with one ruling gone."""
    if field == "full":
        return replace(signals, full=None)
    kept = getattr(signals, field)
    return replace(signals, **{field: (*kept[:place], None, *kept[place + 1 :])})


READERS = {
    "full": {"coverage", "necessity"},
    "without": {"necessity"},
    "answerable": {"joint"},
    "atomic": {"joint"},
    "correct": {"joint"},
}


@LAW
@given(groups(), reward_settings, st.sampled_from(sorted(READERS)), st.data())
def test_null_in_null_out(
    cases: list[RewardCase], settings: RewardSettings, field: str, data: st.DataObject
):
    """A lost ruling fails the rewards that read it, for its rollout; others stay as they were.

    A lost vote may turn an unlabelled group's majority, and so its coverage, and that alone.
    """
    chosen = data.draw(st.integers(0, len(cases) - 1))
    asked = len(cases[chosen].rollout.trace.cycles)
    place = data.draw(st.integers(0, max(asked - 1, 0)))
    hit = list(cases)
    if asked:
        hit[chosen] = replace(hit[chosen], signals=lose(hit[chosen].signals, field, place))
    silent = field == "correct" and asked and cases[chosen].signals.abstained[place]
    failing = READERS[field] if asked and not silent else set()
    for reward in REWARDS:
        before, after = reward.compute(cases, settings), reward.compute(hit, settings)
        assert (reward.name in failing) == (after[chosen].state == "failed")
        assert reward.name not in failing or after[chosen].value is None
        voting = reward.name == "coverage" and field == "full" and cases[0].rollout.label is None
        for number in range(len(cases)):
            if not voting and (number != chosen or reward.name not in failing):
                assert before[number] == after[number]


settings_by_sum = st.sampled_from(
    [EVERY, *(replace(EVERY, failures=policy) for policy in ("drop_rollout", "zero"))]
)


@LAW
@given(batches(failing=True), settings_by_sum, st.randoms(use_true_random=False))
def test_order_of_groups(cases: list[RewardCase], settings: RewardSettings, chance: random.Random):
    """A mixed batch scores as each of its groups does alone, in any order."""
    order = list(range(len(cases)))
    chance.shuffle(order)
    whole = reward_batch(cases, settings)
    shuffled = reward_batch([cases[place] for place in order], settings)
    assert [whole.totals[place] for place in order] == list(shuffled.totals)
    for name, found in whole.results.items():
        assert [found[place] for place in order] == list(shuffled.results[name])
    for group in {one.rollout.group for one in cases}:
        members = [place for place, one in enumerate(cases) if one.rollout.group == group]
        alone = reward_batch([cases[place] for place in members], settings)
        assert [whole.totals[place] for place in members] == list(alone.totals)


@LAW
@given(groups())
def test_necessity_is_no_more_than_any_question(cases: list[RewardCase]):
    """The minimum law, with a label and without; the mean is never below the minimum."""
    least = necessity(cases, PLAIN)
    mean = necessity(cases, RewardSettings(necessity="mean"))
    for one, other in zip(least, mean, strict=True):
        assert all(one.value <= question.value for question in one.questions)
        assert one.value in {question.value for question in one.questions} or not one.questions
        assert one.value <= other.value + 1e-12


@LAW
@given(labels, verdicts, st.lists(verdicts, max_size=6), st.integers(0, 6))
def test_one_harmful_question_is_enough(
    label: Verdict, full: Verdict, others: list[Verdict], place: int
):
    """Wrong with it and right without it: -1, whatever the other questions are.

    Where the answers lead to the label a trace earns 1/2, or 1 if no answer can go.
    """
    without = [*others[:place], label, *others[place:]]
    (found,) = necessity([case(full, without, label=label)], PLAIN)
    if full != label:
        assert (-1.0, "harmful") == (found.value, found.questions[min(place, len(others))].state)
    (right,) = necessity([case(label, others or [NEI], label=label)], PLAIN)
    assert (0.5 if label in others else 1.0) == right.value


@LAW
@given(groups(label=st.none()))
def test_without_a_label_nothing_is_negative_or_half(cases: list[RewardCase]):
    """Coverage and relative necessity are 0 or 1, and verification is not there.

    Only those of one verdict are paid, and never an undecided one.
    """
    found = {reward.name: values(reward.compute(cases, PLAIN)) for reward in REWARDS}
    assert {*found["coverage"], *found["necessity"]} <= {0.0, 1.0}
    assert {None} == {*found["verification"]}
    pairs = zip(cases, found["coverage"], strict=True)
    sides = {one.signals.full for one, value in pairs if value}
    assert len(sides) <= 1
    assert NEI not in sides


CLAIMS = [f"Bridge {number} is {number * 7} metres long." for number in range(3_000)]
FIRST_AT_30 = [0, 3, 5, 6, 11]
shares = st.floats(0.0, 1.0)


@LAW
@given(st.text(), shares, shares)
def test_labelled_claims_stay_labelled_as_the_share_grows(claim: str, one: float, other: float):
    """What is labelled at s is labelled at every larger s; at 0 nothing is, at 1 everything."""
    small, large = sorted((one, other))
    assert is_labelled(claim, small) <= is_labelled(claim, large)
    assert (False, True) == (is_labelled(claim, 0.0), is_labelled(claim, 1.0))


def test_the_labelled_share_is_close_to_s():
    """Of 3,000 claims the labelled are s of all within four standard errors."""
    for share in (0.01, 0.1, 0.3, 0.5, 0.7, 0.99):
        labelled = sum(is_labelled(claim, share) for claim in CLAIMS)
        assert abs(labelled - 3_000 * share) <= 4 * (3_000 * share * (1 - share)) ** 0.5, share


def test_the_split_depends_on_nothing_but_the_claim():
    """White space changes nothing; these five are fixed for good.

    A rate of 10 that means percent must not label everything in silence.
    """
    there = [is_labelled(claim, 0.3) for claim in CLAIMS]
    spaced = [is_labelled(f"  {claim.replace(' ', chr(10) + ' ')} ", 0.3) for claim in CLAIMS]
    assert there == spaced
    assert FIRST_AT_30 == [number for number, kept in enumerate(there) if kept][:5]
    for share in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="supervision rate"):
            is_labelled("A claim.", share)
