"""The append-only log of a run: every rollout, reward, ruling and measure, one file per step.

Files are atomic Parquet, named ``step-000012.attempt-02.parquet`` in a folder per table; step 12
is the one after twelve optimizer steps. Held-out claims have separate folders. No file is
overwritten or removed: readers drop what a later attempt replaced, which is all that earlier
attempts sampled from its first step on, so that they see one uninterrupted run.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from decomposerl.rewards.scoring import TOTAL, RewardedBatch
from decomposerl.schemas import CURVES, JUDGE_CALLS, REWARDS, ROLLOUTS
from decomposerl.table import Table
from decomposerl.training.curves import TRAIN, Split
from resources.store.integrity import read_parquet
from resources.store.parquet import write_parquet
from resources.training.data import Completion
from resources.training.run_store import AttemptRecord, read_attempts

LogTable = Literal["rollouts", "rewards", "judge_calls", "curves"]
_TABLES: dict[LogTable, Table] = {
    "rollouts": ROLLOUTS,
    "rewards": REWARDS,
    "judge_calls": JUDGE_CALLS,
    "curves": CURVES,
}
_NAME = re.compile(r"step-(\d{6,})\.attempt-(\d{2,})\.parquet")


@dataclass(frozen=True, slots=True)
class StepBatch:
    """A rewarded batch of completions. ``step`` is the number of optimizer steps before it."""

    step: int
    completions: Sequence[Completion]
    rewards: RewardedBatch


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file: the number of steps before it was sampled, and the attempt."""

    step: int
    attempt: int
    path: Path


@dataclass(frozen=True, slots=True)
class RolloutLog:
    """Writes for one attempt. ``run`` is the run's key."""

    folder: Path
    run: str
    attempt: int

    def write(self, batch: StepBatch, split: Split = TRAIN) -> None:
        """Log a batch's rollouts, rewards and judge calls."""
        frames: dict[LogTable, pl.DataFrame] = {
            "rollouts": self._rollouts(batch, split),
            "rewards": batch.rewards.frame(self.run, batch.step),
            "judge_calls": batch.rewards.judge_calls,
        }
        for table, frame in frames.items():
            self._write(table, split, batch.step, frame)

    def write_curves(self, step: int, split: Split, rows: pl.DataFrame) -> None:
        """Log a step's measures."""
        self._write("curves", split, step, rows)

    def _write(self, table: LogTable, split: Split, step: int, frame: pl.DataFrame) -> None:
        name = f"step-{step:06d}.attempt-{self.attempt:02d}.parquet"
        target = _folder(self.folder, table, split) / name
        write_parquet(_TABLES[table].conform(frame), target)

    def _rollouts(self, batch: StepBatch, split: Split) -> pl.DataFrame:
        rewards = batch.rewards
        rows = [
            {
                "run": self.run,
                "step": batch.step,
                "split": split,
                "group": case.rollout.group,
                "rollout": case.rollout.number,
                "attempt": self.attempt,
                "source": one.source,
                "claim": one.claim,
                "label": one.label,
                "labelled": one.labelled,
                "n_star": one.n_star,
                "prompt_digest": one.prompt_digest,
                "prompt_tokens": one.prompt_tokens,
                "completion": one.text,
                "completion_tokens": len(one.tokens),
                "truncated": one.truncated,
                "verdict": case.rollout.trace.verdict,
                "questions": len(case.rollout.trace.cycles),
                "faults": [fault.kind for fault in case.rollout.trace.faults],
                TOTAL: total,
            }
            for one, case, total in zip(
                batch.completions, rewards.cases, rewards.totals, strict=True
            )
        ]
        return pl.DataFrame(rows, schema=ROLLOUTS.schema)


def read_log(folder: Path, table: LogTable, split: Split = TRAIN) -> pl.DataFrame:
    """A table of the whole run, by step, without what a later attempt replaced.

    ``judge_calls``, which has no step, gets a column ``step``.
    """
    frames = []
    for file in files(folder, table, split):
        frame = read_parquet(file.path)
        frames.append(frame.with_columns(step=file.step) if table == "judge_calls" else frame)
    return pl.concat(frames) if frames else _TABLES[table].empty()


def files(folder: Path, table: LogTable, split: Split = TRAIN) -> list[LogFile]:
    """The files that count, one per step, by step."""
    attempts = read_attempts(folder)
    counting: dict[int, LogFile] = {}
    for file in sorted(all_files(folder, table, split), key=lambda file: file.attempt):
        if _counts(file, attempts, split):
            counting[file.step] = file
    return [counting[step] for step in sorted(counting)]


def all_files(folder: Path, table: LogTable, split: Split = TRAIN) -> Iterator[LogFile]:
    """Every file, also those that a later attempt replaced."""
    for path in sorted(_folder(folder, table, split).glob("step-*.parquet")):
        if match := _NAME.fullmatch(path.name):
            yield LogFile(int(match[1]), int(match[2]), path)


def _counts(file: LogFile, attempts: Sequence[AttemptRecord], split: Split) -> bool:
    """Whether no later attempt began before the file's step was over."""
    # Held-out claims are sampled between steps: a measure at step r holds for a run that
    # resumes from r, a training step r does not.
    later = [each.resumed_from for each in attempts if each.attempt > file.attempt]
    return all(file.step < step + (split != TRAIN) for step in later)


def _folder(folder: Path, table: LogTable, split: Split) -> Path:
    return folder / table if split == TRAIN else folder / split / table
