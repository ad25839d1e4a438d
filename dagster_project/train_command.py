"""``decomposerl train``: one partition of the asset ``policy``."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project.evaluation_commands import DataOption
from dagster_project.named_graph import (
    ConfigOption,
    VerboseOption,
    named_graph,
    read_config,
    with_ops,
)
from dagster_project.terminal import print_text, report_errors
from decomposerl.errors import ConfigError
from decomposerl.training.experiment import DEFAULT_SEED

if TYPE_CHECKING:
    from dagster_project.settings import Settings


class Tracker(StrEnum):
    """An experiment tracker that also receives a training's measures."""

    WANDB = "wandb"
    TENSORBOARD = "tensorboard"
    TRACKIO = "trackio"


def _recipes_like(beginning: str) -> list[str]:
    from decomposerl.training.experiments import RECIPES

    return [one.name for one in RECIPES if one.name.startswith(beginning)]


@report_errors
def train(  # noqa: PLR0913 - each is one option of the command
    recipe: Annotated[
        str,
        typer.Argument(help="A recipe, such as tiny or paper_7b.", autocompletion=_recipes_like),
    ],
    *,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Another seed of it, as a run of its own.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Another base: a hub name, or a folder of weights.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps; default: the recipe's.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether it is possible.")
    ] = False,
    report_to: Annotated[
        Tracker | None, typer.Option(help="Also send each step's measures to this tracker.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Train a policy with GRPO, or go on with its run where that was stopped.

    Its claims and its base policy must be on disk: decomposerl run training_claims base_policy.
    The last run of other settings, claims or base is kept in superseded/ of the policy's folder.
    """
    from dagster_project.training_estimate import refuse_sample

    graph = named_graph(data)
    refuse_sample(graph.settings)
    name = _run_named(recipe, seed, graph.partitions("policy"))
    base = str(Path(model).resolve()) if model and Path(model).is_dir() else model
    given = {"model": base, "steps": steps, "report_to": report_to and report_to.value}
    fields = {key: value for key, value in given.items() if value is not None}
    fields |= {"dry_run_only": True} if dry_run else {}
    job = with_ops(read_config(config), {"policy": fields})
    _require_tracker(graph.settings, job["ops"]["policy"]["config"])
    with graph.started(verbose=verbose, messages=True) as started:
        started.require(started.runs.execute("train", job, name))
    if not dry_run:
        print_text(f"adapter   {graph.folder.path / 'policy' / name / 'adapter'}")
        print_text(f"evaluate  decomposerl evaluate decomposerl-{name}")


def _require_tracker(settings: "Settings", config: Mapping[str, Any]) -> None:
    from dagster_project.engine_resources import resources_for

    fields = {key: config[key] for key in ("report_to", "python") if config.get(key)}
    resources_for(settings)["policy_trainer"].model_copy(update=fields).require_reporter()


def _run_named(recipe: str, seed: int | None, partitions: Sequence[str]) -> str:
    """The partition of a recipe and seed.

    Raises:
        ConfigError: there is none; the message has the nearest recipes, or the seeds.
    """
    from dagster_project.stages import nearest
    from decomposerl.training.experiments import SEEDS, run_name

    name = recipe if seed is None else run_name(recipe, seed)
    if name in partitions:
        return name
    base = run_name(recipe, DEFAULT_SEED)
    if base in partitions:
        seeds = ", ".join(map(str, (DEFAULT_SEED, *SEEDS)))
        raise ConfigError(
            f"'{name}' is no run: the seeds are {seeds} (SEEDS in "
            "decomposerl/training/experiments.py)"
        )
    recipes = list(dict.fromkeys(run_name(one, DEFAULT_SEED) for one in partitions))
    near = " or ".join(nearest(recipe, recipes))
    raise ConfigError(f"there is no recipe '{recipe}'; the nearest is {near}")
