"""The weights of a trained policy that are evaluated: its final adapter, or a checkpoint.

Takes the data folder, a recipe's name and the rule, gives the adapter's folder and what was chosen.

Left out deliberately: the rule (``evaluation.checkpoint``), and loading weights.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl.errors import ConfigError
from decomposerl.evaluation.checkpoint import Rule, Selected, select_checkpoint
from decomposerl.evaluation.systems import System
from resources.store.parquet import DataFolder
from resources.training.run_store import RunFolder, read_outcome

_EVERY = 1_000_000  # more than any run keeps


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """Where the weights lie, and why these."""

    folder: Path
    adapter: Path
    selected: Selected


def chosen_policy(data: DataFolder, experiment: str, rule: Rule = "final") -> ChosenPolicy:
    """The adapter to evaluate.

    Raises:
        ConfigError: the policy was not trained yet, or the rule finds no candidate.
    """
    run = RunFolder(data.path / "policy" / experiment)
    if not run.outcome.is_file():
        raise ConfigError(
            f"{run.path} holds no trained policy. Train it first: dagster asset materialize "
            f"-m dagster_project.definitions --select 'key:\"policy\"' --partition {experiment}"
        )
    outcome = read_outcome(run)
    saved = {one.step: one.path for one in run.checkpoints(_EVERY).all()}
    selected = select_checkpoint(pl.read_parquet(run.curves), saved, outcome.steps, rule)
    final = selected.step == outcome.steps
    return ChosenPolicy(run.path, outcome.adapter if final else saved[selected.step], selected)


def chosen_facts(data: DataFolder, system: System, rule: Rule) -> dict[str, str | int | float]:
    """What is told of the weights behind a policy's predictions; nothing of other systems."""
    if system.model.port != "policy":
        return {}
    chosen = chosen_policy(data, system.model.key, rule)
    found = chosen.selected
    facts: dict[str, str | int | float] = {
        "adapter": str(chosen.adapter),
        "checkpoint": found.step,
        "checkpoint rule": found.rule,
        "checkpoints weighed": found.candidates,
    }
    if found.dev_score is not None:
        facts["held-out balanced accuracy"] = found.dev_score
    return facts
