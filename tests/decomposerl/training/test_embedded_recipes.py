"""The paper's ablations on the tiny policy: each differs from the full run in one part."""

from dataclasses import replace
from typing import Any

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.experiments import EMBEDDED, TINY

TINY_CHANGED: dict[str, dict[str, Any]] = {
    "tiny_clean": {},
    **{
        f"tiny_no_{reward.name}": {"rewards": RewardSettings(weights={reward.name: 0.0})}
        for reward in REWARDS
        if reward.weight
    },
    **{f"tiny_supervision_{s}": {"supervision": s / 100} for s in (10, 30, 50, 70)},
    "tiny_random_sampling": {"claims": "training_claims_random"},
    "tiny_one_epoch": {"optimization": replace(TINY.optimization, steps=15)},
    "tiny_small": {"model": "base_policy_small"},
    "tiny_clean_classifiers": {"judge": "tiny"},
}


def test_an_embedded_ablation_is_the_tiny_run_from_the_clean_base_with_its_one_part():
    """Beside name and title; none claims to reproduce a row of the paper."""
    clean = replace(TINY, name="tiny_clean", model="base_policy_clean")
    assert set(TINY_CHANGED) == {one.name for one in EMBEDDED}
    for recipe in EMBEDDED:
        changed = TINY_CHANGED[recipe.name]
        described = {"name": recipe.name, "title": recipe.title}
        assert replace(clean, **described, **changed) == recipe
