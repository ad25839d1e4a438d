"""Run jobs of a profile one after the other in this process.

The graph is built once, so each further run costs only its steps.
"""

import gc
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from dagster_project.definitions import build_definitions
from dagster_project.run_errors import failure_of, one_line
from dagster_project.run_progress import RunProgress
from dagster_project.settings import Settings
from decomposerl.errors import ConfigError

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def read_config(file: str) -> dict[str, Any]:
    """The run configuration in a file of ``configs``; empty where ``file`` is empty."""
    config: dict[str, Any] = yaml.safe_load((CONFIGS / file).read_text("utf-8")) if file else {}
    return config


class JobRuns:
    """Runs jobs of a profile; the graph is built at the first run."""

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        progress: RunProgress | None = None,
    ) -> None:
        """Record runs on ``instance``; ``progress`` shows them in place of Dagster's lines."""
        self._settings, self._instance, self._progress = settings, instance, progress
        self.failure = ""
        """Why the last ``run`` failed; empty where it succeeded."""

    def run(
        self,
        job: str,
        config: Mapping[str, Any] | None = None,
        partition: str | None = None,
        log_level: str = "INFO",
        *,
        checks: bool = True,
    ) -> bool:
        """Run a job and return whether it succeeded; arguments as ``execute``."""
        result = self.execute(job, config, partition, log_level, checks=checks)
        self.failure = failure_of(result)
        return result.success

    def execute(
        self,
        job: str,
        config: Mapping[str, Any] | None = None,
        partition: str | None = None,
        log_level: str = "INFO",
        *,
        checks: bool = True,
        wanted: Callable[[str], bool] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Run a job and return its events; a failed step does not raise.

        ``log_level`` is that of the terminal; ``checks`` also runs the asset checks, each a step.
        ``wanted`` chooses from the job's assets by key, such as ``claims/hover``; None: all.

        Raises:
            ConfigError: the configuration has an unknown field or a wrong value.
        """
        definition = self._graph.resolve_job_def(job)
        if wanted is not None or not checks:
            every = definition.asset_layer.selected_asset_keys
            keys = {key for key in every if wanted is None or wanted(key.to_user_string())}
            chosen = None if checks else set[dg.AssetCheckKey]()
            definition = definition.get_subset(asset_selection=keys, asset_check_selection=chosen)
        return self._executed(definition, config, log_level, partition_key=partition)

    def keys(self, job: str) -> set[str]:
        """The keys of a job's assets, such as ``claims/hover``."""
        layer = self._graph.resolve_job_def(job).asset_layer
        return {key.to_user_string() for key in layer.selected_asset_keys}

    def materialize(
        self, keys: Collection[str], config: Mapping[str, Any] | None = None
    ) -> dg.ExecuteInProcessResult:
        """Materialize these assets without partitions, with their checks; errors as ``execute``."""
        selection = [dg.AssetKey.from_user_string(key) for key in keys]
        job = self._graph.resolve_implicit_global_asset_job_def()
        return self._executed(job, config, "INFO", asset_selection=selection)

    @cached_property
    def _graph(self) -> dg.Definitions:
        loggers = None if self._progress is None else {"console": self._progress.logger}
        graph = build_definitions(self._settings, loggers, prefilled=False)
        # Each full garbage collection of the runs would look through all that was loaded: 0.2 s.
        gc.freeze()
        return graph

    def _executed(
        self,
        job: dg.JobDefinition,
        config: Mapping[str, Any] | None,
        log_level: str,
        **selected: Any,  # noqa: ANN401 - arguments of Dagster's
    ) -> dg.ExecuteInProcessResult:
        console = {"console": {"config": {"log_level": log_level}}}
        try:
            return job.execute_in_process(
                run_config={**(config or {}), "loggers": console},
                instance=self._instance,
                raise_on_error=False,
                **selected,
            )
        except dg.DagsterInvalidConfigError as error:
            raise ConfigError(one_line(str(error))) from error
        finally:
            if self._progress is not None:
                self._progress.end_run()
