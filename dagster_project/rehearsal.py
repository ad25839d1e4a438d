"""``decomposerl rehearse``: the chosen profile in miniature, before anyone pays for a long run.

Runs the jobs of a full run on eight claims with the profile's own engines: the funnel's model
stages, two GRPO steps, the adapter and the verifier on two test sets, the leaderboard. Everything
lies in ``<data>/rehearsal``, which is made anew, so no stored result hides a fault; the runs are
recorded in memory only.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project import rehearsal_parts as parts
from dagster_project.doctor import KeyReader, estimates_for
from dagster_project.job_runs import JobRuns
from dagster_project.profiles import Profile, with_data_folder
from dagster_project.rehearsal_parts import PORTS, seconds_per_step
from dagster_project.rehearsal_stage import Say, Stage, StepFailed, refuse_configuration
from dagster_project.training_estimate import training_amounts, training_estimate
from decomposerl.reports.rehearsal import (
    Rehearsal,
    RehearsedStep,
    at_measured_rates,
    training_sentence,
)
from decomposerl.training.experiment import Experiment
from resources.hub.locks import models_lock
from resources.store.parquet import DataFolder
from resources.training.metrics_log import PHASES
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

FOLDER = "rehearsal"


def rehearse(
    profile: Profile,
    recipe: Experiment,
    read_key: KeyReader,
    say: Say,
    config: Mapping[str, Any] | None = None,
) -> Rehearsal:
    """Run every step until one fails; each is passed to ``say`` when it ends.

    ``config`` has ``resources``, as the run configuration of a job.

    Raises:
        ConfigError: the configuration has a part that no job of it reads.
    """
    refuse_configuration(config or {})
    steps: list[RehearsedStep] = []
    with _stage(profile, recipe, say, config or {}, steps) as stage:
        try:
            for part in (
                partial(parts.doctor, read_key=read_key),
                *(parts.read, parts.curate, parts.train, parts.evaluate, parts.rank),
            ):
                part(stage)
        except StepFailed as error:
            failure = f"the rehearsal failed at {error}"
            return Rehearsal(profile.name, recipe.name, tuple(steps), failure=failure)
        hours = _training_hours(profile, stage)
    estimates = (
        *estimates_for(profile),
        training_estimate(profile.engines, profile.data, recipe.name),
    )
    measured = {PORTS[step.step]: step for step in steps if step.step in PORTS}
    timed = at_measured_rates(estimates, measured)
    return Rehearsal(profile.name, recipe.name, tuple(steps), timed, hours)


@contextmanager
def _stage(
    profile: Profile,
    recipe: Experiment,
    say: Say,
    config: Mapping[str, Any],
    steps: list[RehearsedStep],
) -> Iterator[Stage]:
    """An empty data folder, and runs that are recorded in memory."""
    data, locked = profile.data / FOLDER, Path(models_lock(profile.data))
    if data.exists():
        shutil.rmtree(data)
    data.mkdir(parents=True)
    if locked.is_file():  # the full run's commits are rehearsed, not the newest ones
        shutil.copyfile(locked, models_lock(data))
    with (
        with_data_folder(profile, data) as small,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        runs, folder = JobRuns(small, instance), DataFolder(base_dir=str(data))
        yield Stage(small, recipe, config, runs, folder, say, steps)


def _training_hours(profile: Profile, stage: Stage) -> str:
    """The hours of the recipe's full run at the measured seconds of a step."""
    outcome = read_outcome(RunFolder(policy_folder(stage.folder, stage.recipe.name)))
    per_step = seconds_per_step(outcome)
    amounts = training_amounts(stage.recipe, profile.data, per_step)
    whole = sum(outcome.seconds[phase] for phase in PHASES)
    share = outcome.seconds["judging"] / whole if whole else 0.0
    return training_sentence(amounts, per_step, share)
