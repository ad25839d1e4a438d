"""Recipes of readings beyond the paper: each changes its one part, and the part has an effect."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from decomposerl.rewards.composite import reward_batch
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Cycle
from decomposerl.training.experiment import plain_values
from decomposerl.training.experiments import BEYOND, EXPERIMENTS, SEEDS, experiment, with_seed
from resources.training.process import TrainingRun
from resources.training.settings import grpo_arguments
from reward_parts import NEI, R, S, case, numbered, rollout, signals, unit

CHANGED = {
    "tiny_normalise_then_sum": ("tiny_clean", {"grpo.aggregation": "normalize_then_sum"}),
    "tiny_vote_policy": ("tiny_supervision_10", {"rewards.votes": "policy"}),
    "tiny_necessity_mean": ("tiny_clean", {"rewards.necessity": "mean"}),
    "tiny_literal": ("tiny_clean", {"rewards.abstention": "literal"}),
    "tiny_consistency": ("tiny_clean", {"rewards.weights": {"consistency": 1.0}}),
    "tiny_two_way": ("tiny_clean", {"model": "base_policy_three_way"}),
    "tiny_three_way": ("tiny_two_way", {"verdict_rule": "three_way"}),
    "tiny_long": (
        "tiny",
        {"optimization.steps": 200, "rewards.abstention": "literal", "rewards.necessity": "mean"},
    ),
}


def leaves(name: str) -> dict[str, Any]:
    """A recipe's numbers by dotted name, but for what only names it."""
    plain = plain_values(experiment(name))
    return {
        f"{part}.{field}" if isinstance(values, dict) else part: value
        for part, values in plain.items()
        if part not in {"name", "title", "paper"}
        for field, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


@pytest.mark.parametrize("name", CHANGED)
def test_a_reading_changes_its_one_part(name: str):
    """Compared with the run that it stands beside, nothing else differs."""
    against, expected = CHANGED[name]
    before = leaves(against)
    differing = {key: value for key, value in leaves(name).items() if before[key] != value}
    assert expected == differing


def test_each_reading_has_every_seed():
    """Comparisons are over seeds, so each is a run under its own name."""
    names = {one.name for one in EXPERIMENTS}
    assert {one.name for one in BEYOND} < set(CHANGED)
    assert {with_seed(one, seed).name for one in BEYOND for seed in SEEDS} < names


def test_trl_normalises_each_reward_before_the_sum():
    """The aggregation reaches the trainer under its own name."""
    run = TrainingRun(
        experiment("tiny_normalise_then_sum"), "0" * 16, Path("/nowhere"), "", Path("/nowhere")
    )
    config = GRPOConfig(**grpo_arguments(run, Path("/nowhere"), 100))
    assert "normalize_then_sum" == config.multi_objective_aggregation


def rewards_of(name: str, cases: list[RewardCase]) -> list[float | None]:
    settings = RewardSettings() if name == "tiny" else experiment(name).rewards
    return list(reward_batch(numbered(cases), settings).totals)


def dodging() -> RewardCase:
    """Two abstentions on questions that the document answers."""
    sampled = rollout((Cycle("What of it?", "I don't know."), Cycle("Who?", "I don't know.")))
    ruled = replace(signals(2, NEI), correct=(None, None), abstained=(True, True))
    return RewardCase(sampled, ruled, unit((1, 0), (0, 1)))


def opened(second: int) -> RewardCase:
    """Two answers on one year."""
    first = Cycle("When was Ilva bridge opened?", "Ilva bridge was opened in 1921.")
    other = Cycle("In which year was Ilva bridge opened?", f"Ilva bridge was opened in {second}.")
    return RewardCase(rollout((first, other)), signals(2), unit((1, 0), (0, 1)))


def test_each_reading_pays_something_else():
    """One case for each setting where its total differs from that of the plain run."""
    harmful = case(R, (S, R))
    for name, one in (
        ("tiny_necessity_mean", harmful),
        ("tiny_literal", dodging()),
    ):
        ((plain,), (other,)) = rewards_of("tiny", [one]), rewards_of(name, [one])
        assert plain != other, name


def test_only_the_eighth_reward_sees_answers_that_cannot_both_hold():
    """The plain run pays both traces the same."""
    for name, apart in (("tiny", 0.0), ("tiny_consistency", 1.0)):
        ((agreeing,), (contrary,)) = (rewards_of(name, [opened(year)]) for year in (1921, 1935))
        assert agreeing is not None
        assert contrary is not None
        assert agreeing - contrary == pytest.approx(apart)


def test_the_policys_votes_make_another_pseudo_label():
    """Two of three rollouts say Refuted, while the judge reads Supported from all answers."""
    group = [case(S, label=None, verdict=verdict) for verdict in (R, R, S)]
    by_judge = reward_batch(numbered(group), experiment("tiny_supervision_10").rewards)
    by_policy = reward_batch(numbered(group), experiment("tiny_vote_policy").rewards)
    assert {1.0} == set(by_judge.counted["coverage"])
    assert {0.0} == set(by_policy.counted["coverage"])
