"""Runs that end early, in every way there is, and go on as if they never had.

``python test_resume.py FOLDER BASE`` trains each run of ``KILLS`` until it kills itself.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from decomposerl.errors import EngineError, TrainingError
from decomposerl.judge.call import JudgeCall, Ruling
from fakes import BagOfWordsEmbedder
from project import PYTHONPATH
from resources.judge.rule_judge import RuleJudge
from resources.store.integrity import DIGESTS
from resources.training.process import Report, StepReport, TrainingOutcome, TrainingRun
from resources.training.rollout_log import all_files
from resources.training.run_store import AttemptRecord, read_attempts
from resources.training.train import train
from training_parts import (
    EXPERIMENT,
    PATIENT,
    FailingJudge,
    alike,
    logged,
    resumable,
    run_of,
    tiny_policy,
)

KILLED = -signal.SIGKILL
KILLS = {"report": (3, 2), "judge": (16, 4)}
"""A run dies when that step is reported, or while that batch is judged; its last checkpoint."""


@dataclass
class TroubledJudge:
    """The rule judge, and something happens before its ``last`` batch."""

    last: int
    trouble: Callable[[], None]
    batches: int = 0
    engine: str = RuleJudge().engine

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings, unless the trouble is an error."""
        self.batches += 1
        if self.batches == self.last:
            self.trouble()
        return RuleJudge().judge(calls)


def spent() -> None:
    raise EngineError("judge 'x': stopped at the ceiling of 10 calls of one run")


def ending(number: signal.Signals) -> Callable[[], None]:
    """This process gets a signal."""
    return lambda: os.kill(os.getpid(), number)


def go_on(run: TrainingRun, judge: object = None, report: Report = id) -> TrainingOutcome:
    return train(run, judge or RuleJudge(), BagOfWordsEmbedder(), report)  # type: ignore[arg-type]


def train_until_killed(folder: Path, base: Path, where: str) -> None:
    die, (last, _) = ending(signal.SIGKILL), KILLS[where]

    def report(step: StepReport) -> None:
        if where == "report" and step.step == last:
            die()

    judge = TroubledJudge(last if where == "judge" else 0, die)
    go_on(resumable(folder / where, base), judge, report)


def main(folder: str, base: str) -> None:
    """Start each run in a fork, which has loaded what it needs; print the exit codes."""
    codes = []
    for where in KILLS:
        process = get_context("fork").Process(
            target=train_until_killed, args=(Path(folder), Path(base), where)
        )
        process.start()
        process.join()
        codes.append(process.exitcode)
    print(json.dumps(codes))  # noqa: T201 - the parent reads it


@pytest.fixture(scope="module")
def uninterrupted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run that nobody stopped."""
    run = resumable(tmp_path_factory.mktemp("whole") / "run", base)
    assert "" == go_on(run).stopped
    return run.folder


@pytest.fixture(scope="module")
def killed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs that were killed."""
    folder = tmp_path_factory.mktemp("killed")
    variables = {"PYTHONPATH": PYTHONPATH, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__, str(folder), str(base)]
    child = subprocess.run(
        words, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert 0 == child.returncode, child.stderr
    assert [KILLED] * len(KILLS) == json.loads(child.stdout.splitlines()[-1]), child.stderr
    return folder


@pytest.fixture(scope="module")
def stopped(base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """A run that a spent budget ended in the middle of a step."""
    run = resumable(tmp_path_factory.mktemp("stopped") / "run", base)
    run = replace(run, limits=replace(run.limits, checkpoint_every=100))
    go_on(run, TroubledJudge(6, spent))
    return run


@pytest.fixture
def again(stopped: TrainingRun, tmp_path: Path) -> TrainingRun:
    """The same, in a folder of its own."""
    return replace(stopped, folder=shutil.copytree(stopped.folder, tmp_path / "run"))


def assert_the_same_run(folder: Path, whole: Path) -> None:
    """Rollouts, measures and weights agree exactly; wall time may not."""
    for split in ("train", "held_out_sampled", "held_out_greedy"):
        (rollouts, curves), (rollouts_, curves_) = logged(folder, split), logged(whole, split)
        assert rollouts.equals(rollouts_)
        assert curves.equals(curves_)
    for name in ("adapter", "adapter_step_0", "adapter_step_3"):
        assert alike(folder / name, whole / name)


@pytest.mark.parametrize("where", KILLS)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    where: str, base: Path, killed: Path, uninterrupted: Path
):
    """SIGKILL after a step or in the middle of one: the last checkpoint's step is taken up."""
    run, (_, done) = resumable(killed / where, base), KILLS[where]
    outcome = go_on(run)
    assert (6, done, "") == (outcome.steps, outcome.resumed_from, outcome.stopped)
    assert (AttemptRecord(1, 0), AttemptRecord(2, done)) == read_attempts(run.folder)
    assert_the_same_run(run.folder, uninterrupted)


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (spent, "ceiling of 10 calls"),
        (ending(signal.SIGTERM), "SIGTERM"),
        (ending(signal.SIGINT), "SIGINT"),
    ],
    ids=["spent", "terminated", "interrupted"],
)
def test_a_run_that_is_ended_saves_where_it_was(
    trouble: Callable[[], None], says: str, base: Path, uninterrupted: Path, tmp_path: Path
):
    """A spent budget or a signal, in the middle of a step: that step alone is done again."""
    run = resumable(tmp_path / "run", base)
    run = replace(run, limits=replace(run.limits, checkpoint_every=100))
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    outcome = go_on(run, TroubledJudge(6, trouble))  # two at step 0, two at step 3
    assert handlers == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    assert says in outcome.stopped
    assert {} == outcome.after
    steps = outcome.steps
    assert steps > 0
    finished = go_on(run)
    assert (6, steps, "") == (finished.steps, finished.resumed_from, finished.stopped)
    assert_the_same_run(run.folder, uninterrupted)


def test_a_judge_that_keeps_failing_ends_the_run(base: Path, tmp_path: Path):
    """What the limit allows in twenty steps fails at once: stop, with a checkpoint."""
    run = run_of(tmp_path / "run", base, limits=replace(PATIENT, most_judge_failures=0.001))
    outcome = go_on(run, FailingJudge("coverage", most=100))
    assert "of judged rewards over the last 20 steps lack a ruling" in outcome.stopped
    assert 1 == outcome.steps
    assert (run.folder / "checkpoints" / "step-000001").is_dir()
    assert outcome.adapter.is_dir()
    assert outcome.judge["failed"] == outcome.judge["failures"]["timeout"] > 0


def test_a_run_that_learns_nothing_ends(tmp_path: Path):
    """No spread for a window: the run stops with a checkpoint; started again, after one more."""
    same = replace(EXPERIMENT.sampling, max_completion_tokens=1)  # no verdict, no cycle
    run = run_of(
        tmp_path / "run",
        tiny_policy(tmp_path / "base", end=40.0),
        sampling=same,
        optimization=replace(EXPERIMENT.optimization, steps=50),
    )
    outcome = go_on(run)
    assert (20, 0) == (outcome.steps, outcome.resumed_from)
    assert "nothing is learned" in outcome.stopped
    again = go_on(run)
    assert (40, 20) == (again.steps, again.resumed_from)
    obeying = replace(run, limits=replace(run.limits, stop_unhealthy=False))
    assert (50, "") == (go_on(obeying).steps, go_on(obeying).stopped)


def test_another_key_trains_anew(again: TrainingRun, uninterrupted: Path):
    """Nothing of the run before is taken up; its files stand aside."""
    other = replace(again, key="f" * 16)
    outcome = go_on(other)
    assert (6, 0) == (outcome.steps, outcome.resumed_from)
    assert {1} == {file.attempt for file in all_files(other.folder, "rollouts")}
    assert list(all_files(other.folder / "superseded" / again.key, "rollouts"))
    assert alike(other.folder / "adapter", uninterrupted / "adapter")


def test_a_run_that_lost_its_beginning_does_not_go_on(again: TrainingRun):
    """Without the held-out measures of step 0 it would end with nothing to compare with."""
    for file in again.folder.glob("held_out_*/curves/step-000000.*"):
        file.unlink()
    with pytest.raises(TrainingError, match="held-out measures of step 0"):
        go_on(again)


def test_a_checkpoint_with_a_part_of_its_adapter_is_not_resumed(again: TrainingRun):
    """The other part would start anew, with a warning of peft alone."""
    (file,) = again.folder.glob("checkpoints/*/adapter_model.safetensors")
    stored = load_file(file)
    lost, _ = stored.popitem()
    save_file(stored, file, {"format": "pt"})
    (file.parent / DIGESTS).unlink()  # as of an earlier version: else its digest says so
    with pytest.raises(TrainingError, match=f"cannot be resumed: .*{lost.removesuffix('.weight')}"):
        go_on(again)


if __name__ == "__main__":
    main(*sys.argv[1:])
