"""``make demo``: the whole graph on the bundled sample (``python -m dagster_project``).

Runs the ``funnel`` job, trains the tiny policy for a few steps, evaluates every baseline as
published and that policy on the sample's test sets, and rebuilds the catalogue; the run
configurations are in ``configs``. Prints the attrition table, what training changed on held-out
claims, the leaderboard, and where to look next. Needs no GPU and no key.
"""

import dataclasses
import time
from collections.abc import Callable

import dagster as dg
import polars as pl

from dagster_project.job_runs import JobRuns, read_config
from dagster_project.profiles import Profile, load_env_file, profile_from_environment, titles_for
from dagster_project.terminal import Terminal
from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import SOURCES
from decomposerl.evaluation.systems import systems as all_systems
from decomposerl.reports.attrition import attrition_text, attrition_wide
from decomposerl.reports.leaderboard_report import leaderboard_text
from decomposerl.reports.training_report import changes_text
from decomposerl.training.curves import Change, changes
from resources.store.parquet import DataFolder
from resources.training.process import TrainingOutcome
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

_RECIPE = "tiny"
_ENGINES = {"rules", "lexical"}
_HELD_OUT = ("format", "verification", "question_count", "necessity", "joint", "total")
_Part = tuple[str, str]  # a table, and the facts printed below it


def main() -> int:
    """Run the demo on the sample; 0 on success."""
    load_env_file()
    profile = dataclasses.replace(profile_from_environment(), corpora=None)
    with dg.DagsterInstance.get() as instance:
        return show(profile, instance, Terminal())


def show(profile: Profile, instance: dg.DagsterInstance, console: Terminal) -> int:
    """Run every job and print its results; 0 on success."""
    runs, folder = JobRuns(profile, instance), DataFolder(base_dir=str(profile.data))
    parts: tuple[Callable[[], _Part | None], ...] = (
        lambda: _curate(runs, folder, profile.name),
        lambda: _train(runs, folder),
        lambda: _evaluate(runs, folder, profile, console),
    )
    for part in parts:
        started = time.perf_counter()
        result = part()
        if result is None:
            console.print("the run failed; the last line says why", style="red")
            return 1
        table, facts = result
        _print(console, table)
        _print(console, f"{facts}; this took {time.perf_counter() - started:.0f} s")
    console.print(f"\nDuckDB    {folder.path / 'decomposerl.duckdb'}")
    console.print("again     .venv/bin/decomposerl leaderboard")
    console.print("columns   docs/evaluation.md")
    console.print("browse    .venv/bin/decomposerl explain CLAIM_ID")
    console.print("open UI   make ui   (then http://127.0.0.1:3000)")
    return 0


def _curate(runs: JobRuns, folder: DataFolder, profile: str) -> _Part | None:
    """The funnel's attrition."""
    if not runs.run("funnel", read_config("demo.yaml")):
        return None
    return attrition_text(_attrition(folder)), f"profile={profile}"


def _train(runs: JobRuns, folder: DataFolder) -> _Part | None:
    """What training changed on held-out claims."""
    config = read_config("demo_train.yaml")
    if not (runs.run("training_inputs") and runs.run("train", config, _RECIPE)):
        return None
    outcome = read_outcome(RunFolder(policy_folder(folder, _RECIPE)))
    judge = outcome.judge.get("engine", "")
    return changes_text(
        _changes(outcome)
    ), f"recipe={_RECIPE}; engine={judge}; {outcome.steps} steps"


def _evaluate(
    runs: JobRuns, folder: DataFolder, profile: Profile, console: Terminal
) -> _Part | None:
    """The leaderboard of every baseline and the policy.

    Only the last system runs the asset checks: each is a step, 36 per system, and with them
    evaluation by rules takes 1.7 times as long.
    """
    systems = [(key, "") for key in baselines()] + [(policy(), "demo_evaluate.yaml")]
    console.print(f"\nevaluating {len(systems)} systems on the test sets of the sample")
    for number, (system, config) in enumerate(systems, 1):
        started = time.perf_counter()
        checks = number == len(systems)
        if not runs.run("evaluate", read_config(config), system, "ERROR", checks=checks):
            return None
        console.print(f"{number:>4}  {system:<40}{time.perf_counter() - started:>4.0f} s")
    if not (runs.run("rank") and runs.run("catalogue")):
        return None
    board = leaderboard_text(folder.read("leaderboard"), titles_for(profile))
    return board, f"profile={profile.name}; {len(systems)} systems"


def baselines() -> list[str]:
    """Each baseline in its published protocol, answered by rules; no model is needed."""
    return [
        system.key
        for system in all_systems(METHODS, [])
        if system.model.key in _ENGINES and system.protocol == "faithful"
    ]


def policy() -> str:
    """The policy that the demo trains."""
    (system,) = all_systems([], [_RECIPE])
    return system.key


def _attrition(folder: DataFolder) -> pl.DataFrame:
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    return attrition_wide(folder.read("attrition"), raw, {s.name: s.title for s in SOURCES})


def _changes(outcome: TrainingOutcome) -> list[Change]:
    """What training changed on held-out claims, in the measures of ``_HELD_OUT``."""
    wanted = {f"held_out_sampled/{name}" for name in _HELD_OUT} | {
        "held_out_greedy/balanced_accuracy"
    }
    before, after = (
        {key: value for key, value in measures.items() if key in wanted}
        for measures in (outcome.before, outcome.after)
    )
    return changes(before, after)


def _print(console: Terminal, text: str) -> None:
    console.print()
    console.print(text)
