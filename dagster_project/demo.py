"""``make demo``: the whole graph on the bundled sample, then where to look.

Takes the environment like every other command, but always the sample; runs the ``funnel`` job,
trains the tiny policy in a short form, asks every baseline and that policy about the sample's test
sets, each with a file of ``configs``, and builds the catalogue anew. Prints the attrition table,
what the training changed on held-out claims, the leaderboard, the path of the DuckDB file and the
line that opens the UI. Exits with 1 when a run fails.

``python -m dagster_project`` starts it.

Left out deliberately: everything that needs a GPU or a key, and the baselines written out in a
single call (docs/evaluation.md).
"""

import dataclasses
import time
from collections.abc import Callable

import dagster as dg
import polars as pl

from dagster_project.job_runs import JobRuns, config_named
from dagster_project.profiles import Profile, fill_environment, profile_from_environment, titles_for
from dagster_project.terminal import Terminal
from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import SOURCES
from decomposerl.evaluation.systems import systems
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


_Shown = tuple[str, str]  # a table, and what to say below it


def main() -> int:
    """Run the demo on the sample; 0 on success."""
    fill_environment()
    profile = dataclasses.replace(profile_from_environment(), corpora=None)
    with dg.DagsterInstance.get() as instance:
        return show(profile, instance, Terminal())


def show(profile: Profile, instance: dg.DagsterInstance, console: Terminal) -> int:
    """Run every job and print what came of it; 0 on success."""
    runs, folder = JobRuns(profile, instance), DataFolder(base_dir=str(profile.data))
    parts: tuple[Callable[[], _Shown | None], ...] = (
        lambda: _curate(runs, folder, profile.name),
        lambda: _train(runs, folder),
        lambda: _evaluate(runs, folder, profile, console),
    )
    for part in parts:
        started = time.perf_counter()
        told = part()
        if told is None:
            console.print("the run failed; the last line says why", style="red")
            return 1
        table, facts = told
        _print(console, table)
        _print(console, f"{facts}; this took {time.perf_counter() - started:.0f} s")
    console.print(f"\nDuckDB    {folder.path / 'decomposerl.duckdb'}")
    console.print("again     .venv/bin/decomposerl leaderboard")
    console.print("columns   docs/evaluation.md")
    console.print("browse    .venv/bin/decomposerl explain CLAIM_ID")
    console.print("open UI   make ui   (then http://127.0.0.1:3000)")
    return 0


def _curate(runs: JobRuns, folder: DataFolder, profile: str) -> _Shown | None:
    """The funnel's attrition."""
    if not runs.done("funnel", config_named("demo.yaml")):
        return None
    return attrition_text(_attrition(folder)), f"profile={profile}"


def _train(runs: JobRuns, folder: DataFolder) -> _Shown | None:
    """What training changed on held-out claims."""
    config = config_named("demo_train.yaml")
    if not (runs.done("training_inputs") and runs.done("train", config, _RECIPE)):
        return None
    outcome = read_outcome(RunFolder(policy_folder(folder, _RECIPE)))
    judge = outcome.judge.get("engine", "")
    return changes_text(_told(outcome)), f"recipe={_RECIPE}; engine={judge}; {outcome.steps} steps"


def _evaluate(
    runs: JobRuns, folder: DataFolder, profile: Profile, console: Terminal
) -> _Shown | None:
    """The leaderboard of every baseline and the policy.

    Checks keep a result for each system, but each is a step (36 a system, and evaluating by rules
    takes 1.7 times as long with them), so here the last system alone runs them.
    """
    asked = [(key, "") for key in baselines()] + [(policy(), "demo_evaluate.yaml")]
    console.print(f"\nevaluating {len(asked)} systems on the test sets of the sample")
    for number, (system, config) in enumerate(asked, 1):
        started = time.perf_counter()
        checks = number == len(asked)
        if not runs.done("evaluate", config_named(config), system, "ERROR", checks=checks):
            return None
        console.print(f"{number:>4}  {system:<40}{time.perf_counter() - started:>4.0f} s")
    if not (runs.done("rank") and runs.done("catalogue")):
        return None
    board = leaderboard_text(folder.read("leaderboard"), titles_for(profile))
    return board, f"profile={profile.name}; {len(asked)} systems"


def baselines() -> list[str]:
    """Each baseline as published, answered by rules on words: no model is needed."""
    found = systems(METHODS, [])
    return [one.key for one in found if one.model.key in _ENGINES and one.protocol == "faithful"]


def policy() -> str:
    """The policy that the demo trains."""
    (found,) = systems([], [_RECIPE])
    return found.key


def _attrition(folder: DataFolder) -> pl.DataFrame:
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    return attrition_wide(folder.read("attrition"), raw, {s.name: s.title for s in SOURCES})


def _told(outcome: TrainingOutcome) -> list[Change]:
    """What the training changed on held-out claims, the measures that a reader looks for."""
    wanted = {f"held_out_sampled/{name}" for name in _HELD_OUT} | {
        "held_out_greedy/balanced_accuracy"
    }
    before, after = (
        {key: value for key, value in found.items() if key in wanted}
        for found in (outcome.before, outcome.after)
    )
    return changes(before, after)


def _print(console: Terminal, text: str) -> None:
    console.print()
    console.print(text)
