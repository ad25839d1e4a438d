"""A reward of one's own: by import path, weighed, tried before a run; the example of the docs."""

import pytest

from decomposerl.errors import ConfigError
from decomposerl.rewards.composite import active_rewards, check_rewards, reward_batch
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.table import rewards_frame
from reward_parts import NEI, OWN, S, case, numbered
from reward_serving import example

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
        check_rewards(RewardSettings(own=path))
    with pytest.raises(ConfigError, match=r"rewards\.own"):
        check_rewards(RewardSettings({"own": 1.0}))


def test_it_counts_with_its_weight():
    """1 unless the settings have another; a row of the table; what it reads is what is judged."""
    cases = numbered([case(S, [NEI, NEI]), case(S, [NEI])])
    batch = reward_batch(cases, RewardSettings({"own": 0.5}, own=OWN))
    plain = reward_batch(cases, RewardSettings())
    assert (1.0, -1.0) == batch.counted["own"]
    differences = [a - b for a, b in zip(batch.totals, plain.totals, strict=True)]  # type: ignore[operator]
    assert pytest.approx([0.5, -0.5]) == differences
    assert [1.0, -1.0] == rewards_frame(batch).filter(reward="own")["value"].to_list()
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
