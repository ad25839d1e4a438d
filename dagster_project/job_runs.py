"""Jobs of a profile, run one after the other in this process.

Takes a profile and a Dagster instance, runs jobs by name with a configuration and a partition. The
graph is built once, so that a further run costs its steps alone.

Left out deliberately: which jobs, and in what order (``demo``, and the studies of ``perf``).
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def read_config(file: str) -> dict[str, Any]:
    """What a file of ``configs`` says; nothing where no file is named."""
    found: dict[str, Any] = yaml.safe_load((CONFIGS / file).read_text("utf-8")) if file else {}
    return found


class JobRuns:
    """Runs jobs of a profile; nothing is built before the first."""

    def __init__(self, profile: Profile, instance: dg.DagsterInstance) -> None:
        """Runs are recorded on ``instance``."""
        self._profile, self._instance = profile, instance

    def run(
        self,
        job: str,
        config: Mapping[str, Any] | None = None,
        partition: str | None = None,
        log_level: str = "INFO",
        *,
        checks: bool = True,
    ) -> bool:
        """Run a job; whether it succeeded. ``log_level`` is of the log on the terminal.

        ``checks``: with the checks of its assets, each of which is a step.
        """
        console = {"console": {"config": {"log_level": log_level}}}
        steps = self._graph.resolve_job_def(job)
        if not checks:
            made = set(steps.asset_layer.selected_asset_keys)
            steps = steps.get_subset(asset_selection=made, asset_check_selection=set())
        result = steps.execute_in_process(
            run_config={**(config or {}), "loggers": console},
            instance=self._instance,
            raise_on_error=False,
            partition_key=partition,
        )
        return result.success

    @cached_property
    def _graph(self) -> dg.Definitions:
        return build_definitions(self._profile)
