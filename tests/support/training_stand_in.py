"""A training process without training, as a program: ``-m training_stand_in --run FILE``.

It reads its run, speaks through the worker's own output and writes the files that a run leaves.
What it does otherwise, the recipe's name says: ``killed``, ``broken``, ``silent``, ``stopped``,
``unread`` (its messages end in half a line), ``slow`` (waits for the signal to end, then leaves a
checkpoint), ``good``.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import polars as pl
from dagster_pipes import PipesCliArgsParamsLoader

from dagster_project.worker import Output, opened_output
from decomposerl.progress import bar
from decomposerl.schemas import CURVES
from decomposerl.training.curves import CurvePoint, curve_rows
from decomposerl.training.health import spread_key
from resources.store.parquet import write_parquet
from resources.training.process import StepReport, TrainingOutcome, TrainingRun
from resources.training.run_store import RunFolder, begin_attempt, write_outcome

STEPS = 30


def main() -> int:
    """Play the recipe's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path)
    parser.add_argument("--dry-run-only", action="store_true")
    known, _ = parser.parse_known_args()
    run = TrainingRun.from_json(known.run.read_text("utf-8"))
    with opened_output() as output:
        output.dry_run({"markdown": "30 steps will be made", "problems": []})
        if known.dry_run_only:
            return 0
        play(run, output)
        if run.experiment.name == "unread":
            begin_attempt(run)
            write_outcome(RunFolder(run.folder), outcome_of(run))
            path = Path(PipesCliArgsParamsLoader().load_messages_params()["path"])
            path.write_text(path.read_text("utf-8") + '{"method": "log", "pa\n', "utf-8")
        if run.experiment.name != "silent":
            output.outcome(outcome_of(run))
    return 0


def play(run: TrainingRun, output: Output) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "process").write_text(str(os.getpid()))
    output.step(report(1))
    part = run.experiment.name
    if part == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if part == "broken":
        raise RuntimeError("the card fell off the bus")
    if part == "slow":
        wait_for_the_end(run.folder)
    with bar("training", STEPS, "steps", known=1) as shown:
        for step in range(2, STEPS + 1):
            output.step(report(step))
            shown.move(step)


def wait_for_the_end(folder: Path) -> None:
    def leave(number: int, _: object) -> None:
        (folder / "checkpoint").write_text(signal.Signals(number).name)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    (folder / "waiting").touch()
    time.sleep(120)


def report(step: int) -> StepReport:
    means = {"total": 3.0 + step / 100, spread_key("total"): 0.5, "verification": 0.25}
    warnings = ("few questions",) if step == 2 else ()
    return StepReport(step, STEPS, 1, means, {"seconds_update": 0.1}, STEPS - step, warnings)


def outcome_of(run: TrainingRun) -> TrainingOutcome:
    name, folder = run.experiment.name, run.folder
    adapter = folder / "adapter"
    adapter.mkdir(exist_ok=True)
    (adapter / "adapter_model.safetensors").write_bytes(run.key.encode())
    equal = 1.0 if name == "stopped" else 0.0
    rows = [
        curve_rows(
            run.key,
            name,
            step,
            "train",
            {
                "total": CurvePoint(3 + step / 100, 0.5, 16),
                "zero_spread_groups": CurvePoint(equal, None, 2),
            },
        )
        for step in range(1, STEPS + 1)
    ]
    write_parquet(CURVES.conform(pl.concat(rows)), folder / "curves.parquet")
    return TrainingOutcome(
        steps=STEPS,
        resumed_from=0,
        stopped="in 100% of groups all totals are equal" if name == "stopped" else "",
        adapter=adapter,
        curves=folder / "curves.parquet",
        before={"held_out_greedy/balanced_accuracy": 0.5},
        after={"held_out_greedy/balanced_accuracy": 0.75},
        seconds={"seconds_generation": 30.0, "seconds_update": 10.0},
        judge={"calls": 210, "dollars": 0.0},
        versions={"trl": "1.16.0"},
    )


if __name__ == "__main__":
    sys.exit(main())
