"""The graph of the environment's profile, for commands that start its jobs.

Names are checked before anything runs. A run is recorded on this project's instance, so the UI
shows it as any other, and prints one line per asset.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project.terminal import print_failure, print_note
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    import dagster as dg

    from dagster_project.job_runs import JobRuns
    from dagster_project.run_progress import RunProgress
    from dagster_project.settings import Settings
    from dagster_project.stages import Stages
    from resources.store.parquet import DataFolder

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML run configuration, see configs/.")
]
SystemsOption = Annotated[
    Path | None,
    typer.Option(
        "--systems", help="File of your own systems; default: systems.toml in the data folder."
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print Dagster's own lines.")
]


@dataclass
class NamedGraph:
    """The graph of a profile, by the names of its parts; nothing runs yet."""

    settings: "Settings"
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

        return DataFolder(base_dir=str(self.settings.paths.data))

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

        from dagster_project.environment import use_instance
        from dagster_project.job_runs import JobRuns
        from dagster_project.run_progress import RunProgress
        from resources.store.event_log import kept_open

        use_instance()
        with (
            dg.DagsterInstance.get() as plain,
            kept_open(plain) as instance,
            RunProgress(self.settings.paths.data, verbose=verbose, messages=messages) as progress,
        ):
            yield StartedGraph(JobRuns(self.settings, instance, progress), progress)


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


def named_graph(data: Path | None, systems: Path | None = None) -> NamedGraph:
    """The graph of the environment's profile.

    It has another data folder, or another file of the user's own systems, where one is named.
    """
    from dagster_project.definitions import build_definitions
    from dagster_project.environment import use_settings

    places = {"data": data and data.resolve(), "systems": systems and systems.resolve()}
    settings = use_settings("paths", **places)
    return NamedGraph(settings, build_definitions(settings))


def read_config(path: Path | None) -> dict[str, Any]:
    """A run configuration in a YAML file; empty without a file.

    Raises:
        ConfigError: it is no YAML mapping.
    """
    if path is None:
        return {}
    import yaml

    try:
        config = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds no mapping; it must begin with 'ops:' or 'resources:'")
    return config


def with_ops(settings: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A run configuration with further fields of assets, which win."""
    ops = dict(settings.get("ops") or {})
    for op, fields in given.items():
        before = ops.get(op) or {}
        ops[op] = {**before, "config": {**(before.get("config") or {}), **fields}}
    return {**settings, "ops": ops}
