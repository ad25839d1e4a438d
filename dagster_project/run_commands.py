"""``decomposerl run`` and ``train``: start the graph's jobs on this project's instance.

The UI shows their runs as any other. Words that name nothing end a command before its run starts,
with exit code 2; a run that fails ends it with 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dagster_project.evaluation_commands import DataOption
from dagster_project.rehearse_command import read_config
from dagster_project.terminal import print_failure, print_note, print_text, report_errors
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.training.experiment import DEFAULT_SEED

if TYPE_CHECKING:
    import dagster as dg

    from dagster_project.job_runs import JobRuns
    from dagster_project.profiles import Profile
    from dagster_project.run_progress import RunProgress
    from dagster_project.stages import Stages
    from resources.store.parquet import DataFolder

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML run configuration, see configs/.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print Dagster's own lines.")
]


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


class Tracker(StrEnum):
    """An experiment tracker that also receives a training's measures."""

    WANDB = "wandb"
    TENSORBOARD = "tensorboard"
    TRACKIO = "trackio"


@report_errors
def train(  # noqa: PLR0913 - each is one option of the command
    recipe: Annotated[str, typer.Argument(help="A recipe, such as tiny or paper_7b.")],
    *,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Another seed of it, as a run of its own.")
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
    """
    settings = read_config(config)
    graph = named_graph(data)
    name = _run_named(recipe, seed, graph.partitions("policy"))
    values = {"steps": steps, "report_to": report_to and report_to.value}
    given = {key: value for key, value in values.items() if value is not None}
    given |= {"dry_run_only": True} if dry_run else {}
    job = with_ops(settings, {"policy": given})
    _require_tracker(graph.profile, job["ops"]["policy"]["config"])
    with graph.started(verbose=verbose, messages=True) as started:
        started.require(started.runs.execute("train", job, name))
    if not dry_run:
        print_text(f"adapter   {graph.folder.path / 'policy' / name / 'adapter'}")
        print_text(f"evaluate  decomposerl evaluate decomposerl-{name}")


def _require_tracker(profile: "Profile", config: Mapping[str, Any]) -> None:
    from dagster_project.profiles import resources_for

    fields = {key: config[key] for key in ("report_to", "python") if config.get(key)}
    resources_for(profile)["policy_trainer"].model_copy(update=fields).require_reporter()


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


def with_ops(settings: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A run configuration with further fields of assets, which win."""
    ops = dict(settings.get("ops") or {})
    for op, fields in given.items():
        before = ops.get(op) or {}
        ops[op] = {**before, "config": {**(before.get("config") or {}), **fields}}
    return {**settings, "ops": ops}


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
        if all("/" in key for key in keys):
            lines.append(fill(", ".join(keys), 100, initial_indent="   ", subsequent_indent="   "))
        else:
            lines += [f"   {key:<22} {stages[key].what}" for key in keys]
    return "\n".join(lines)


@dataclass
class NamedGraph:
    """The graph of a profile, by the names of its parts; nothing runs yet."""

    profile: "Profile"
    definitions: "dg.Definitions"

    @cached_property
    def stages(self) -> "Stages":
        """Its assets by key."""
        from dagster_project.stages import stages_of

        return stages_of(self.definitions)

    @cached_property
    def folder(self) -> "DataFolder":
        """The profile's data folder."""
        from resources.store.parquet import DataFolder

        return DataFolder(base_dir=str(self.profile.data))

    def partitions(self, key: str) -> list[str]:
        """The partitions of an asset, in order."""
        import dagster as dg

        node = self.definitions.resolve_asset_graph().get(dg.AssetKey.from_user_string(key))
        return [] if node.partitions_def is None else list(node.partitions_def.get_partition_keys())

    def exists(self, key: str) -> bool:
        """Whether an asset without partitions is on disk."""
        return self.folder.exists(key) or (self.folder.path / key).is_dir()

    @contextmanager
    def started(self, *, verbose: bool, messages: bool = False) -> Iterator["StartedGraph"]:
        """Its runs on this project's instance; ``messages`` as ``RunProgress``."""
        import dagster as dg

        from dagster_project.job_runs import JobRuns
        from dagster_project.profiles import use_instance
        from dagster_project.run_progress import RunProgress

        use_instance()
        with (
            dg.DagsterInstance.get() as instance,
            RunProgress(self.profile.data, verbose=verbose, messages=messages) as progress,
        ):
            yield StartedGraph(JobRuns(self.profile, instance, progress), progress)


@dataclass
class StartedGraph:
    """Runs of a graph, and what shows them."""

    runs: "JobRuns"
    progress: "RunProgress"

    def require(self, result: "dg.ExecuteInProcessResult") -> None:
        """Print where the run's log is, and if it failed, why.

        Raises:
            Exit: it failed.
        """
        if not self.succeeded(result):
            raise typer.Exit(1)
        print_note(f"Dagster's log: {self.progress.log}")

    def succeeded(self, result: "dg.ExecuteInProcessResult") -> bool:
        """Whether the run succeeded; if not, why is printed with the log's path."""
        from dagster_project.run_errors import failure_of

        if not result.success:
            print_failure(f"{failure_of(result)} (log: {self.progress.log})")
        return result.success


def named_graph(data: Path | None) -> NamedGraph:
    """The graph of the environment's profile, with another data folder where one is named."""
    from dagster_project.definitions import build_definitions
    from dagster_project.profiles import (
        load_env_file,
        profile_from_environment,
        with_data_folder,
    )

    load_env_file()
    profile = profile_from_environment()
    if data is not None:
        profile = with_data_folder(profile, data.resolve())
    return NamedGraph(profile, build_definitions(profile))
