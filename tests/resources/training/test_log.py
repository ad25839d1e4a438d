"""The run's folder: attempts, files of steps, checkpoints; whole or absent, without seams."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl.training.curves import TRAIN, CurvePoint, Split, curve_rows
from resources.store.temporary import publish_folder
from resources.training.metrics_log import MetricsLog, seconds_spent
from resources.training.process import TrainingOutcome, TrainingRun
from resources.training.rollout_log import RolloutLog, all_files, read_log
from resources.training.run_store import (
    Checkpoints,
    RunFolder,
    begin_attempt,
    finished_outcome,
    read_attempts,
    write_outcome,
)
from training_parts import run_of


@pytest.fixture
def run(tmp_path: Path) -> TrainingRun:
    return run_of(tmp_path / "run", tmp_path)


def checkpoint(run: TrainingRun, step: int) -> Path:
    """An attempt writes a checkpoint."""
    checkpoints = RunFolder(run.folder).checkpoints(2)
    (checkpoints.aside / "written").mkdir(parents=True)
    (checkpoints.aside / "written" / "weights").write_text(str(step))
    checkpoints.publish(step, checkpoints.aside / "written")
    return checkpoints.folder


def sample(run: TrainingRun, attempt: int, *steps: int, split: Split = TRAIN) -> None:
    """An attempt logs a curve of steps, whose values say who wrote them."""
    log = RolloutLog(run.folder, run.key, attempt)
    for step in steps:
        points = {"total": CurvePoint(10.0 * attempt + step), "seconds_judging": CurvePoint(1.0)}
        rows = curve_rows(run.key, "e", step, split, points)
        log.write_curves(step, split, rows)


def totals(run: TrainingRun, split: Split = TRAIN) -> dict[int, float]:
    rows = read_log(run.folder, "curves", split).filter(measure="total")
    return dict(rows.select("step", "mean").iter_rows())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_attempts_count_up_and_go_on_from_the_last_checkpoint(run: TrainingRun):
    """The first begins at 0; each later one where the last complete checkpoint is."""
    assert (1, 0) == (
        begin_attempt(run).number,
        begin_attempt(replace(run, key="other")).resumed_from,
    )
    first = begin_attempt(run)
    assert first.checkpoint is None
    checkpoint(run, 4)
    second = begin_attempt(run)
    assert (2, 4) == (second.number, second.resumed_from)
    assert second.checkpoint is not None
    assert "4" == (second.checkpoint.path / "weights").read_text()


def test_what_a_later_attempt_replaces_is_not_read(run: TrainingRun):
    """Steps from the resume point on are the later attempt's alone, also before it got there."""
    begin_attempt(run)
    sample(run, 1, 0, 1, 2, 3, 4)
    sample(run, 1, 0, 2, 4, split="held_out_greedy")
    checkpoint(run, 2)
    begin_attempt(run)
    assert {0: 10.0, 1: 11.0} == totals(run)
    sample(run, 2, 2, 3)
    assert {0: 10.0, 1: 11.0, 2: 22.0, 3: 23.0} == totals(run)
    assert {0: 10.0, 2: 12.0} == totals(run, "held_out_greedy")  # known at 2, so it holds
    assert 7 == len(list(all_files(run.folder, "curves")))
    assert 7.0 == seconds_spent(run.folder)["judging"]
    assert 3.0 == seconds_spent(run.folder)["held_out"]
    checkpoint(run, 3)
    begin_attempt(run)
    assert {0: 10.0, 1: 11.0, 2: 22.0} == totals(run)


def test_half_a_file_is_never_read(run: TrainingRun):
    """What a killed run leaves under a temporary name is no file of the log."""
    begin_attempt(run)
    sample(run, 1, 0)
    (run.folder / "curves" / ".step-000001.attempt-01.parquet.99.partial").write_bytes(b"PAR1")
    assert {0: 10.0} == totals(run)


def test_the_metrics_log_takes_over_what_counts(run: TrainingRun):
    """Curves of an earlier attempt stand in the history and in the file, each step once."""
    begin_attempt(run)
    sample(run, 1, 0, 1, 2)
    checkpoint(run, 2)
    attempt = begin_attempt(run)
    metrics = MetricsLog(attempt.folder, RolloutLog(run.folder, run.key, 2), "e")
    metrics.add(2, TRAIN, {"total": CurvePoint(5.0), "judge_failures": CurvePoint(0.5, None, 8)})
    metrics.add(3, "held_out_greedy", {"total": CurvePoint(6.0)})
    assert [10.0, 11.0, 5.0] == [step["total"] for step in metrics.history]
    assert {"held_out_greedy/total": 6.0} == metrics.held_out_at(3)
    assert 0.5 / 20 == metrics.judge_failure_share()
    metrics.write()
    written = pl.read_parquet(attempt.folder.curves)
    assert [0, 1, 2, 3] == written.filter(measure="total")["step"].to_list()


def test_checkpoints_are_complete_or_absent(run: TrainingRun):
    """What was being written goes at the next start; the last two complete ones stay."""
    for step in (2, 4, 6):
        folder = checkpoint(run, step)
    (folder / ".partial" / "checkpoint-8").mkdir(parents=True)
    checkpoints = RunFolder(run.folder).checkpoints(2)
    assert [4, 6] == [one.step for one in checkpoints.all()]
    attempt = begin_attempt(run)
    assert 6 == attempt.resumed_from
    assert ["step-000004", "step-000006"] == names(folder)


def test_a_folder_takes_the_place_of_an_earlier_one(tmp_path: Path):
    """A published folder is the new one whole."""
    for text in ("one", "two"):
        (tmp_path / "aside").mkdir()
        (tmp_path / "aside" / text).touch()
        publish_folder(tmp_path / "aside", tmp_path / "adapter")
    assert ["two"] == names(tmp_path / "adapter")
    assert ["adapter"] == names(tmp_path)
    assert [] == Checkpoints(tmp_path / "none", 2).all()


def test_another_key_begins_anew_and_keeps_the_old_run_aside(run: TrainingRun):
    """Nothing of a run with another recipe is taken up, and nothing of it is lost."""
    begin_attempt(run)
    sample(run, 1, 0)
    checkpoint(run, 1)
    other = replace(run, key="f" * 16)
    attempt = begin_attempt(other)
    assert (1, 0) == (attempt.number, attempt.resumed_from)
    assert {} == totals(other)
    aside = run.folder / "superseded" / run.key
    assert {0: 10.0} == totals(replace(run, folder=aside))
    assert ["step-000001"] == names(aside / "checkpoints")
    begin_attempt(run)
    assert 1 == len(read_attempts(run.folder))


def test_a_run_is_done_when_its_outcome_says_so(run: TrainingRun):
    """Only an outcome of the same key that did not stop early ends a run; its folder may move."""
    assert finished_outcome(run) is None
    folder = begin_attempt(run).folder
    outcome = TrainingOutcome(
        steps=2,
        resumed_from=0,
        stopped="budget",
        adapter=folder.adapter,
        curves=folder.curves,
        before={},
        after={},
        seconds={},
        judge={},
        versions={},
    )
    write_outcome(folder, outcome)
    assert finished_outcome(run) is None
    write_outcome(folder, replace(outcome, stopped=""))
    assert replace(outcome, stopped="") == finished_outcome(run)
    assert finished_outcome(replace(run, key="f" * 16)) is None
    moved = run.folder.rename(run.folder.with_name("moved"))
    moved_outcome = finished_outcome(replace(run, folder=moved))
    assert moved_outcome is not None
    assert moved / "adapter" == moved_outcome.adapter
