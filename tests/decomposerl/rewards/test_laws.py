"""Laws of every reward and of the sum: range, order, lost rulings, weights, policies, the table."""

import random
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError, RewardError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.reward import Reward, RewardCase, Signals
from decomposerl.rewards.scoring import TOTAL, active_rewards, reward_batch
from decomposerl.rewards.settings import RewardSettings, is_labelled
from decomposerl.schemas import REWARDS as TABLE
from decomposerl.schemas import Verdict
from reward_parts import (
    NEI,
    OWN,
    PLAIN,
    S,
    batches,
    case,
    groups,
    labels,
    numbered,
    reward_settings,
    values,
    verdicts,
)
from reward_serving import example
from strategies import EACH_LAW, LAW

EVERY = RewardSettings(weights={reward.name: 1.0 for reward in REWARDS}, own=OWN)
every_reward = pytest.mark.parametrize("reward", REWARDS, ids=lambda reward: reward.name)


def test_the_catalogue_has_the_papers_seven_first():
    """Seven rewards of weight 1, three of them judged; a further member has weight 0."""
    names = [reward.name for reward in REWARDS]
    seven = "format verification question_count diversity coverage necessity joint".split()
    assert seven == names[:7]
    assert [1.0] * 7 + [0.0] * len(REWARDS[7:]) == [reward.weight for reward in REWARDS]
    assert ["coverage", "necessity", "joint"] == [one.name for one in REWARDS if one.judge_roles]
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


@LAW
@given(batches(failing=True), st.randoms(use_true_random=False))
def test_order_of_groups(cases: list[RewardCase], chance: random.Random):
    """A mixed batch scores as each of its groups does alone, in any order."""
    order = list(range(len(cases)))
    chance.shuffle(order)
    whole = reward_batch(cases, EVERY)
    shuffled = reward_batch([cases[place] for place in order], EVERY)
    assert [whole.totals[place] for place in order] == list(shuffled.totals)
    for name, found in whole.results.items():
        assert [found[place] for place in order] == list(shuffled.results[name])
    for group in {one.rollout.group for one in cases}:
        members = [place for place, one in enumerate(cases) if one.rollout.group == group]
        alone = reward_batch([cases[place] for place in members], EVERY)
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


def test_the_split_depends_on_nothing_but_the_claim():
    """White space changes nothing; the first five are fixed for good.

    Of 3,000 claims the labelled are s of all within four standard errors. A rate of 10 that means
    percent must not label everything in silence.
    """
    there = [is_labelled(claim, 0.3) for claim in CLAIMS]
    spaced = [is_labelled(f"  {claim.replace(' ', chr(10) + ' ')} ", 0.3) for claim in CLAIMS]
    assert there == spaced
    assert FIRST_AT_30 == [number for number, kept in enumerate(there) if kept][:5]
    for share in (0.01, 0.1, 0.3, 0.5, 0.7, 0.99):
        labelled = sum(is_labelled(claim, share) for claim in CLAIMS)
        assert abs(labelled - 3_000 * share) <= 4 * (3_000 * share * (1 - share)) ** 0.5, share
    for share in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="supervision rate"):
            is_labelled("A claim.", share)


NAMES = [reward.name for reward in REWARDS]
SEVEN = NAMES[:7]
OPTIONAL = [reward.name for reward in REWARDS if not reward.weight]
weights = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((-2.0, 0.0, 0.5, 1.0, 3.0)))


@LAW
@given(batches(failing=True), weights)
def test_the_total_is_the_weighted_sum_of_what_counts(
    cases: list[RewardCase], chosen: dict[str, float]
):
    """Total = sum of weight x counted value; null exactly where nothing counts."""
    scored = reward_batch(cases, RewardSettings(chosen, own=OWN))
    for place, total in enumerate(scored.totals):
        amounts = {name: found[place] for name, found in scored.counted.items()}
        terms = [
            scored.weights[name] * value for name, value in amounts.items() if value is not None
        ]
        assert (total is None) == (not terms)
        assert not terms or pytest.approx(sum(terms)) == total
    assert len(cases) == len(scored.totals) == len(scored.cases)


@LAW
@given(batches(failing=True))
def test_drop_group_compares_on_equal_terms(cases: list[RewardCase]):
    """Within a group every rollout's total is made of the same rewards: those that nobody lost.

    What counts, counts as it is.
    """
    scored = reward_batch(cases, PLAIN)
    for group in {one.rollout.group for one in cases}:
        members = [place for place, one in enumerate(cases) if one.rollout.group == group]
        for name, found in scored.results.items():
            whole = all(found[place].state == "scored" for place in members)
            counted = [found[place].value if whole else None for place in members]
            assert counted == [scored.counted[name][place] for place in members]


def twins() -> list[RewardCase]:
    """Two groups of two; the first rollout of the first group lost its verdict of all answers."""
    good = case(S, [NEI, NEI])
    return numbered([case(None, [NEI, NEI]), good], "a") + numbered([good, good], "b")


def test_a_lost_verdict_by_hand():
    """Format, verification, count, joint 1, diversity 0; coverage and necessity 1 or lost.

    Without coverage and necessity the lost verdict is nobody's loss.
    """
    scored = reward_batch(twins(), PLAIN)
    assert [4.0, 4.0, 6.0, 6.0] == scored.totals
    rates = {name: scored.failure_rate(name) for name in SEVEN}
    assert dict.fromkeys(SEVEN, 0.0) | {"coverage": 0.25, "necessity": 0.25} == rates
    off = RewardSettings(weights={"coverage": 0.0, "necessity": 0.0})
    for settings in (off, replace(off, failures="raise")):
        scored = reward_batch(twins(), settings)
        assert [4.0] * 4 == scored.totals
        assert not {"coverage", "necessity"} & scored.results.keys()


def test_raise_names_the_reward_and_the_rollout():
    """Under ``raise`` the first lost ruling stops the batch; without one all is as ever."""
    with pytest.raises(RewardError, match=r"'coverage' .*rollout 0 of 'a'"):
        reward_batch(twins(), RewardSettings(failures="raise"))
    assert reward_batch(twins()[1:], PLAIN) == reward_batch(
        twins()[1:], RewardSettings(failures="raise")
    )


@LAW
@given(batches(), st.sampled_from(NAMES))
def test_a_switch_takes_one_reward_out(cases: list[RewardCase], name: str):
    """An ablation changes no other reward, and each total by that reward's amount alone."""
    without = replace(EVERY, weights={**EVERY.weights, name: 0.0})
    whole, less = reward_batch(cases, EVERY), reward_batch(cases, without)
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
        active = active_rewards(RewardSettings(weights={"own": 0.0} | expected, own=OWN))
        assert [one for one in NAMES if one in (*SEVEN, name)] == [one.name for one in active]
        assert dict.fromkeys(SEVEN, 1.0) | expected == {one.name: one.weight for one in active}
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
    assert [None] * 4 == reward_batch(twins(), off).totals
    assert [] == reward_batch([], PLAIN).totals


def test_a_group_is_one_prompt():
    """Rollouts that differ in what they were asked are not compared; other groups may differ."""
    one, other = numbered([case(S), case(S)])
    for change in ({"claim": "No."}, {"evidence": "No."}, {"label": None}, {"n_star": 9}):
        changed = replace(other.rollout, **change)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="group 'g'"):
            reward_batch([one, replace(other, rollout=changed)], PLAIN)
        reward_batch([one, replace(other, rollout=replace(changed, group="h"))], PLAIN)


@LAW
@given(batches(failing=True), weights)
def test_the_table_says_what_was_summed(cases: list[RewardCase], chosen: dict[str, float]):
    """Rows conform, and weight x value over the counted rows of a trace gives its total row."""
    scored = reward_batch(cases, RewardSettings(chosen, own=OWN))
    frame = scored.frame("run", 7)
    assert TABLE.schema == frame.schema
    assert {("run", 7)} >= {*frame.select("run", "step").rows()}
    parts = frame.filter(pl.col("reward") != TOTAL, "counted", pl.col("question").is_null())
    terms = pl.col("weight") * pl.col("value")
    again = parts.group_by("group", "rollout").agg(total=terms.sum())
    totals = frame.filter(reward=TOTAL).join(again, ["group", "rollout"], "left")
    assert len(cases) == totals.height
    for row, total in zip(totals.iter_rows(named=True), scored.totals, strict=True):
        assert (total, total is not None) == (row["value"], row["counted"])
        assert ("scored" if total is not None else "dropped") == row["state"]
        assert pytest.approx(total) == row["total"]


MINE = "own_rewards:{}"
FAULTS = (
    "no_module_of_this_name:f",
    "own_rewards",
    "own_rewards:missing",
    ":f",
    "own_rewards:NO_FUNCTION",
)
BROKEN = ("short", "nan", "large", "raising")


@pytest.mark.parametrize("path", [*FAULTS, *map(MINE.format, BROKEN)])
def test_a_fault_shows_before_the_first_step(path: str):
    """A wrong path, no function, a wrong number of values, NaN, a fault: the field is named."""
    with pytest.raises(ConfigError, match=r"rewards\.own"):
        active_rewards(RewardSettings(own=path))
    with pytest.raises(ConfigError, match=r"rewards\.own"):
        active_rewards(RewardSettings({"own": 1.0}))


def test_it_counts_with_its_weight():
    """1 unless the settings have another; a row of the table; what it reads is what is judged."""
    cases = numbered([case(S, [NEI, NEI]), case(S, [NEI])])
    batch = reward_batch(cases, RewardSettings({"own": 0.5}, own=OWN))
    plain = reward_batch(cases, RewardSettings())
    assert [1.0, -1.0] == batch.counted["own"]
    differences = [a - b for a, b in zip(batch.totals, plain.totals, strict=True)]  # type: ignore[operator]
    assert pytest.approx([0.5, -0.5]) == differences
    assert [1.0, -1.0] == batch.frame().filter(reward="own")["value"].to_list()
    off = dict.fromkeys(plain.weights, 0.0)
    (mine,) = active_rewards(RewardSettings(off, own=MINE.format("judged")))
    assert (("question",), 1.0) == (mine.judge_roles, mine.weight)
    unlabelled = numbered([case(S, [NEI], label=None)])
    (absent,) = reward_batch(unlabelled, RewardSettings(off, own=MINE.format("judged"))).totals
    assert absent is None


CONTRADICTIONS = (
    (("The mill was built in 1857.", "The mill was built in 1875."), -1.0),
    (("The mill was built in 1857.", "It was built in 1857 as a mill."), 1.0),
    (("The mill was built in 1857.", "The bridge opened in 1921."), None),
    (("The mill was built in 1857.", "Ada Moss built the mill."), None),
    (("The mill has 1,200 stones.", "The mill has 1200 stones.", "The mill has 9 stones."), -1 / 3),
    ((), None),
)


def test_the_example_finds_contradicting_numbers():
    """docs/examples/consistency_reward.py, at most 150 lines."""
    module = example("consistency_reward")
    for answers, expected in CONTRADICTIONS:
        assert pytest.approx(expected) == module.consistency(answers), answers
    assert [1.0] == module.reward([case(S, [NEI, NEI])], RewardSettings())
    assert 150 >= module.__spec__.loader.get_source(module.__name__).count("\n")
