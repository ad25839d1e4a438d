"""What a rehearsal works with: its jobs run here on little data, and each says what it did."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_project.job_runs import JobRuns
from dagster_project.profiles import Profile
from dagster_project.run_errors import failure_of
from decomposerl.errors import ConfigError
from decomposerl.reports.rehearsal import RehearsedStep
from decomposerl.training.experiment import Experiment
from resources.preflight.gpu_memory import PeakMemory
from resources.store.parquet import DataFolder

_RESOURCES: dict[str, tuple[str, ...]] = {
    "funnel": ("tokens", "entities", "verifier", "embedder", "decomposer"),
    "train": ("judge", "question_embedder", "policy_trainer"),
    "evaluate": ("evaluation_model", "verifier"),
}
"""The resources of each job that ``--config`` may change."""
Say = Callable[[RehearsedStep], None]


class StepFailed(Exception):  # noqa: N818 - the name is what happened
    """A step failed; the message is the sentence for the user."""


@dataclass(frozen=True)
class Done:
    """What a job did: the metadata of each asset that it materialized, and the first failure."""

    facts: dict[str, dict[str, Any]]
    peak: int | None
    failure: str

    def require(self) -> None:
        """Raise if a step failed.

        Raises:
            StepFailed: with its name and its error.
        """
        if self.failure:
            raise StepFailed(self.failure)


@dataclass
class Stage:
    """What a rehearsal works with."""

    profile: Profile
    recipe: Experiment
    config: Mapping[str, Any]
    runs: JobRuns
    folder: DataFolder
    say: Say
    steps: list[RehearsedStep]

    def add(self, step: RehearsedStep) -> None:
        """A step ended."""
        self.steps.append(step)
        self.say(step)

    def run(
        self,
        job: str,
        ops: Mapping[str, Any],
        wanted: Callable[[str], bool] | None = None,
        partition: str | None = None,
    ) -> Done:
        """Run a job, or what is ``wanted`` of it.

        Raises:
            ConfigError: the configuration does not fit the job.
        """
        own = self.config.get("resources") or {}
        engines = {name: own[name] for name in _RESOURCES.get(job, ()) if name in own}
        given = {name: {"config": values} for name, values in ops.items()}
        config = {"ops": given, **({"resources": engines} if engines else {})}
        with PeakMemory() as peak:
            result = self.runs.execute(
                job, config, partition, "CRITICAL", checks=False, wanted=wanted
            )
        return Done(_materialized(result), peak.mib, failure_of(result))


def refuse_configuration(config: Mapping[str, Any]) -> None:
    """Refuse parts that no job of a rehearsal reads.

    Raises:
        ConfigError: there is one, or ``resources`` is no mapping.
    """
    if unknown := sorted(set(config) - {"resources"}):
        raise ConfigError(f"a rehearsal's configuration has 'resources' only, not '{unknown[0]}'")
    given = config.get("resources") or {}
    if not isinstance(given, dict):
        raise ConfigError("'resources' of a rehearsal's configuration must be a mapping")
    known = sorted({name for names in _RESOURCES.values() for name in names})
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(f"there is no resource '{unknown[0]}' to change; {', '.join(known)} are")


def _materialized(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of each materialized asset, in the order of the run."""
    return {
        event.asset_key.to_user_string(): {
            name: value.value
            for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }


@contextmanager
def timed() -> Iterator[list[float]]:
    """A list that holds the seconds of the block when it has ended."""
    spent, started = [0.0], time.perf_counter()
    try:
        yield spent
    finally:
        spent[0] = time.perf_counter() - started
