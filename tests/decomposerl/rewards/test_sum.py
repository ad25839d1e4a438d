"""The sum of the ensemble: what counts, weights and switches, failure policies, the table."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError, RewardError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import RewardedBatch, reward_batch, weights_of
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import FailurePolicy, RewardSettings
from decomposerl.rewards.table import TOTAL, rewards_frame
from decomposerl.schemas import REWARDS as TABLE
from reward_parts import NEI, OWN, PLAIN, S, batches, case, numbered
from strategies import LAW

NAMES = [reward.name for reward in REWARDS]
SEVEN = NAMES[:7]
OPTIONAL = [reward.name for reward in REWARDS if not reward.weight]
weights = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((-2.0, 0.0, 0.5, 1.0, 3.0)))
policies = st.sampled_from(("drop_group", "drop_rollout", "zero"))


def under(policy: FailurePolicy) -> RewardSettings:
    return RewardSettings(failures=policy)


@LAW
@given(batches(failing=True), weights, policies)
def test_the_total_is_the_weighted_sum_of_what_counts(
    cases: list[RewardCase], chosen: dict[str, float], policy: FailurePolicy
):
    """Total = sum of weight x counted value; null exactly where nothing counts."""
    scored = reward_batch(cases, RewardSettings(chosen, failures=policy, own=OWN))
    for place, total in enumerate(scored.totals):
        amounts = {name: found[place] for name, found in scored.counted.items()}
        terms = [
            scored.weights[name] * value for name, value in amounts.items() if value is not None
        ]
        assert (total is None) == (not terms)
        assert not terms or pytest.approx(sum(terms)) == total
    assert len(cases) == len(scored.totals) == len(scored.rollouts)


@LAW
@given(batches(failing=True), policies)
def test_what_counts_is_the_value_or_what_the_policy_puts_there(
    cases: list[RewardCase], policy: FailurePolicy
):
    """A score that counts counts as it is; an absent one never; a failed one as 0 or not at all."""
    scored = reward_batch(cases, under(policy))
    for name, amounts in scored.counted.items():
        for amount, found in zip(amounts, scored.results[name], strict=True):
            if found.state == "absent":
                assert amount is None
            elif found.state == "failed":
                assert (0.0 if policy == "zero" else None) == amount
            else:
                assert amount in {found.value, None}
                assert amount is not None or policy != "zero"


@LAW
@given(batches(failing=True))
def test_drop_group_compares_on_equal_terms(cases: list[RewardCase]):
    """Within a group every rollout's total is made of the same rewards: those that nobody lost."""
    scored = reward_batch(cases, PLAIN)
    for group in {one.rollout.group for one in cases}:
        members = [place for place, one in enumerate(cases) if one.rollout.group == group]
        for name, found in scored.results.items():
            whole = all(found[place].state == "scored" for place in members)
            assert {whole} == {scored.counted[name][place] is not None for place in members}


@LAW
@given(batches(failing=True))
def test_drop_rollout_drops_those_alone(cases: list[RewardCase]):
    """A rollout that lost anything has no total and counts nowhere; its siblings lose nothing."""
    scored = reward_batch(cases, under("drop_rollout"))
    for place in range(len(cases)):
        found = {name: scores[place] for name, scores in scored.results.items()}
        lost = any(one.state == "failed" for one in found.values())
        assert lost == (scored.totals[place] is None)
        for name, one in found.items():
            assert (None if lost else one.value) == scored.counted[name][place]


def twins() -> list[RewardCase]:
    """Two groups of two; the first rollout of the first group lost its verdict of all answers."""
    good = case(S, [NEI, NEI])
    return numbered([case(None, [NEI, NEI]), good], "a") + numbered([good, good], "b")


TOTALS: dict[FailurePolicy, list[float | None]] = {
    "drop_group": [4.0, 4.0, 6.0, 6.0],
    "drop_rollout": [None, 6.0, 6.0, 6.0],
    "zero": [4.0, 6.0, 6.0, 6.0],
}


def test_failure_policies_by_hand():
    """Format, verification, count, joint 1, diversity 0; coverage and necessity 1 or lost.

    Without coverage and necessity the lost verdict is nobody's loss, under every policy.
    """
    for policy, totals in TOTALS.items():
        scored = reward_batch(twins(), under(policy))
        assert totals == list(scored.totals)
        rates = {name: scored.failure_rate(name) for name in SEVEN}
        assert dict.fromkeys(SEVEN, 0.0) | {"coverage": 0.25, "necessity": 0.25} == rates
    off = {"coverage": 0.0, "necessity": 0.0}
    for policy in (*TOTALS, "raise"):
        scored = reward_batch(twins(), RewardSettings(weights=off, failures=policy))
        assert [4.0] * 4 == list(scored.totals)
        assert not {"coverage", "necessity"} & scored.results.keys()


def test_raise_names_the_reward_and_the_rollout():
    """Under ``raise`` the first lost ruling stops the batch; without one all is as ever."""
    with pytest.raises(RewardError, match=r"'coverage' .*rollout 0 of 'a'"):
        reward_batch(twins(), under("raise"))
    whole = twins()[1:]
    assert reward_batch(whole, PLAIN).totals == reward_batch(whole, under("raise")).totals


@LAW
@given(batches(), st.sampled_from(NAMES))
def test_a_switch_takes_one_reward_out(cases: list[RewardCase], name: str):
    """An ablation changes no other reward, and each total by that reward's amount alone."""
    everything = RewardSettings(weights=dict.fromkeys(NAMES, 1.0), own=OWN)
    without = replace(everything, weights=dict.fromkeys(NAMES, 1.0) | {name: 0.0})
    whole, less = reward_batch(cases, everything), reward_batch(cases, without)
    assert {key: found for key, found in whole.results.items() if key != name} == less.results
    for place in range(len(cases)):
        amount = whole.counted[name][place] or 0.0
        assert pytest.approx(whole.totals[place] - amount) == less.totals[place]


def test_weights():
    """The paper's seven weigh 1; a setting overrides one by name; the order is the catalogue's."""
    assert SEVEN == list(reward_batch(twins(), PLAIN).weights)
    assert SEVEN == [name for name in NAMES if name not in OPTIONAL]
    for name in OPTIONAL:
        expected = {"format": 0.5, "necessity": 3.0, name: 2.0}
        found = weights_of(RewardSettings(weights={"own": 0.0} | expected, own=OWN))
        assert NAMES == list(found)
        assert dict.fromkeys(SEVEN, 1.0) | dict.fromkeys(OPTIONAL, 0.0) | expected == found
    (total,) = reward_batch(
        [case(S)], RewardSettings(weights={"necessity": 3.0, "joint": 0.25})
    ).totals
    assert 6.0 + 2.0 - 0.75 == total


def test_a_weight_is_a_finite_number_of_a_reward_by_name():
    """Else every total is none, or a misspelt switch leaves the reward on; the names are listed.

    Without an active reward there is no total; without cases there is nothing.
    """
    for weight in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ConfigError, match="'joint'"):
            reward_batch(twins(), RewardSettings(weights={"joint": weight}))
    for name in ("R_fmt", "Format", "neccessity", "", TOTAL):
        with pytest.raises(ConfigError, match=rf"'{name}'.*format, verification"):
            reward_batch(twins(), RewardSettings(weights={name: 0.0}))
    off = RewardSettings(weights=dict.fromkeys(SEVEN, 0.0))
    assert (None,) * 4 == reward_batch(twins(), off).totals
    assert () == reward_batch([], PLAIN).totals


def test_a_group_is_one_prompt():
    """Rollouts that differ in what they were asked are not compared; other groups may differ."""
    one, other = numbered([case(S), case(S)])
    for change in ({"claim": "No."}, {"evidence": "No."}, {"label": None}, {"n_star": 9}):
        changed = replace(other.rollout, **change)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="group 'g'"):
            reward_batch([one, replace(other, rollout=changed)], PLAIN)
        reward_batch([one, replace(other, rollout=replace(changed, group="h"))], PLAIN)


def summed(scored: RewardedBatch) -> dict[tuple[str, int], float]:
    """Each rollout's total again, from the rows of the table alone."""
    frame = rewards_frame(scored)
    found: dict[tuple[str, int], float] = {}
    for row in frame.iter_rows(named=True):
        if row["reward"] != TOTAL and row["question"] is None and row["counted"]:
            place = (row["group"], row["rollout"])
            found[place] = found.get(place, 0.0) + row["weight"] * (row["value"] or 0.0)
    return found


@LAW
@given(batches(failing=True), weights, policies)
def test_the_table_says_what_was_summed(
    cases: list[RewardCase], chosen: dict[str, float], policy: FailurePolicy
):
    """Rows conform, and weight x value over the counted rows of a trace gives its total row."""
    scored = reward_batch(cases, RewardSettings(chosen, failures=policy, own=OWN))
    frame = rewards_frame(scored, "run", 7)
    assert TABLE.schema == frame.schema
    assert {("run", 7)} >= {*frame.select("run", "step").rows()}
    again = summed(scored)
    totals = [row for row in frame.iter_rows(named=True) if row["reward"] == TOTAL]
    assert len(cases) == len(totals)
    for row, total in zip(totals, scored.totals, strict=True):
        place = (row["group"], row["rollout"])
        assert (total, total is not None) == (row["value"], row["counted"])
        assert ("scored" if total is not None else "dropped") == row["state"]
        assert pytest.approx(total) == again.get(place)
