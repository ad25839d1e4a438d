"""``make demo``: the whole graph on the bundled sample, then where to look.

Takes the environment like every other command, but always the sample; runs the ``funnel`` job,
then trains the tiny policy in a short form, each with a file of ``configs``, and builds the
catalogue anew. Prints the attrition table, what the training changed on held-out claims, the
path of the DuckDB file and the line that opens the UI. Exits with 1 when a run fails.

Left out deliberately: everything that needs a GPU or a key.
"""

import dataclasses
import sys
import time
from pathlib import Path

import dagster as dg
import polars as pl
import yaml
from rich.console import Console

from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile, fill_environment, profile_from_environment
from decomposerl.claims.catalogue import SOURCES
from decomposerl.reports.attrition import attrition_text, attrition_wide
from decomposerl.reports.training_report import changes_text
from decomposerl.training.curves import Change, changes
from resources.tables import DataFolder
from resources.training.folder import RunFolder, read_outcome
from resources.training.material import policy_folder
from resources.training.run import TrainingOutcome

_CONFIGS = Path(__file__).resolve().parent.parent / "configs"
_RECIPE = "tiny"
_TOLD = ("format", "verification", "question_count", "necessity", "joint", "total")


def main() -> int:
    """Run the demo on the sample; 0 on success."""
    fill_environment()
    profile = dataclasses.replace(profile_from_environment(), corpora=None)
    with dg.DagsterInstance.get() as instance:
        return show(profile, instance, Console())


def show(profile: Profile, instance: dg.DagsterInstance, console: Console) -> int:
    """Run every job and print what came of it; 0 on success."""
    runs, started = _Runs(profile, instance), time.perf_counter()
    if not runs.done("funnel", "demo.yaml"):
        return _failed(console)
    folder, curated = DataFolder(base_dir=str(profile.data)), time.perf_counter()
    _print(console, attrition_text(_attrition(folder)))
    console.print(f"\nprofile={profile.name}; the funnel took {curated - started:.0f} s\n")
    prepared = runs.done("training_inputs")
    trained = prepared and runs.done("train", "demo_train.yaml", _RECIPE)
    if not (trained and runs.done("catalogue")):
        return _failed(console)
    outcome = read_outcome(RunFolder(policy_folder(folder, _RECIPE)))
    _print(console, changes_text(_told(outcome)))
    judge = outcome.judge.get("engine", "")
    console.print(
        f"\nrecipe={_RECIPE}; engine={judge}; {outcome.steps} steps; "
        f"training took {time.perf_counter() - curated:.0f} s\n"
    )
    console.print(f"DuckDB    {folder.path / 'decomposerl.duckdb'}", soft_wrap=True)
    console.print("browse    .venv/bin/decomposerl explain CLAIM_ID")
    console.print("open UI   make ui   (then http://127.0.0.1:3000)")
    return 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Runs:
    """Runs jobs of a profile in this process."""

    profile: Profile
    instance: dg.DagsterInstance

    def done(self, job: str, config: str = "", partition: str | None = None) -> bool:
        """Run a job with a file of ``configs``; whether it succeeded."""
        found = yaml.safe_load((_CONFIGS / config).read_text("utf-8")) if config else {}
        found["loggers"] = {"console": {"config": {"log_level": "INFO"}}}
        chosen = build_definitions(self.profile).resolve_job_def(job)
        result = chosen.execute_in_process(
            run_config=found,
            instance=self.instance,
            raise_on_error=False,
            partition_key=partition,
        )
        return result.success


def _failed(console: Console) -> int:
    console.print("[red]the run failed; its log is above and in the UI (make ui)[/red]")
    return 1


def _attrition(folder: DataFolder) -> pl.DataFrame:
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    return attrition_wide(folder.read("attrition"), raw, {s.name: s.title for s in SOURCES})


def _told(outcome: TrainingOutcome) -> list[Change]:
    """What the training changed on held-out claims, the measures that a reader looks for."""
    wanted = {f"held_out_sampled/{name}" for name in _TOLD} | {"held_out_greedy/balanced_accuracy"}
    before, after = (
        {key: value for key, value in found.items() if key in wanted}
        for found in (outcome.before, outcome.after)
    )
    return changes(before, after)


def _print(console: Console, text: str) -> None:
    console.print()
    console.print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
