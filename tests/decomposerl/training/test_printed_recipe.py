"""The recipe that the page on training prints."""

import re
from dataclasses import replace

from decomposerl.rewards.composite import weights_of
from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.experiment import steps_of
from decomposerl.training.experiments import PAPER_7B, experiment
from project import ROOT


def test_the_recipe_on_the_page_on_training_is_one():
    """As printed it changes base and two weights, is no row of the paper, and has its steps."""
    page = (ROOT / "docs/how-to/train.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"replace": replace, "PAPER_7B": PAPER_7B, "RewardSettings": RewardSettings}
    (recipe,) = eval(f"({block})", names)  # noqa: S307 - our own page
    weights = {**weights_of(PAPER_7B.rewards), "joint": 2.0, "consistency": 1.0}
    assert (weights, "") == (weights_of(recipe.rewards), recipe.paper)
    assert experiment("paper_3b").model == recipe.model
    assert steps_of(recipe, 5_464) == steps_of(PAPER_7B, 5_464)
