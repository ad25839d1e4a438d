"""``decomposerl run`` and ``train``: stages of the graph by name, and a partition of ``policy``."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dagster_project.evaluation_commands import DataOption
from dagster_project.named_graph import (
    ConfigOption,
    VerboseOption,
    named_graph,
    read_config,
    with_ops,
)
from dagster_project.terminal import print_note, print_text, report_errors
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.training.experiment import DEFAULT_SEED

if TYPE_CHECKING:
    from dagster_project.settings import Settings
    from dagster_project.stages import Stages


class RunCommand(TyperCommand):
    """``decomposerl run``, whose help also lists the stages of the profile's graph."""

    def format_help(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as typer has it
        """Print the help and the stages."""
        super().format_help(*args, **options)
        try:
            print_text(_stage_list())
        except DecomposeRLError as error:
            print_note(f"the stages cannot be listed: {error}")


@report_errors
def run(
    stages: Annotated[
        list[str] | None,
        typer.Argument(metavar="STAGE...", help="Stages or groups of them, as listed below."),
    ] = None,
    *,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="Also run the stages before them that are missing.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run stages of the funnel, or other parts of the graph.

    Runs what is named and nothing else: a stage whose input is not on disk is refused, unless
    --upstream adds what is missing. What is on disk is read and not made again.
    """
    from dagster_project.stages import condensed, missing_upstream, stages_named

    settings = read_config(config)
    graph = named_graph(data)
    keys = stages_named(stages or [], graph.stages)
    missing = missing_upstream(keys, graph.stages, graph.exists)
    if upstream and missing:
        print_note(f"also missing: {condensed(missing, graph.stages)}")
        keys += missing
    _refuse_without_inputs(keys, missing, graph.stages)
    with graph.started(verbose=verbose) as started:
        started.require(started.runs.materialize(keys, settings))
    if "report" in keys:
        from resources.report.files import report_html_path

        print_text(report_html_path(graph.folder.path).as_uri())


def _refuse_without_inputs(
    keys: Sequence[str], missing: Mapping[str, Sequence[str]], stages: "Stages"
) -> None:
    from dagster_project.stages import condensed

    needed = {key: set(missing[key]) & set(keys) for key in missing if key not in keys}
    absent = [key for key, readers in needed.items() if readers]
    if absent:
        readers = condensed(
            [key for key in keys if any(key in each for each in needed.values())], stages
        )
        raise ConfigError(
            f"{readers}: not on disk: {condensed(absent, stages)}; name them too, or add --upstream"
        )


def _stage_list() -> str:
    """Every group with its stages; of corpora, which all do the same, only the names."""
    from dagster_project.stages import groups_of

    stages = named_graph(None).stages
    groups = groups_of(stages)
    grouped = {key for keys in groups.values() for key in keys}
    groups["others"] = [k for k, one in stages.items() if not one.partitioned and k not in grouped]
    lines = []
    for group, keys in groups.items():
        lines.append(f"\n {group}")
        if group in {"sources", "benchmarks"}:
            lines.append(fill(", ".join(keys), 100, initial_indent="   ", subsequent_indent="   "))
        else:
            lines += [f"   {key:<22} {stages[key].what}" for key in keys]
    return "\n".join(lines)


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
