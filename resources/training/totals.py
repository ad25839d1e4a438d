"""What a run cost over all its attempts, from its log.

Takes a run's folder, gives seconds by phase and the judge's calls, those of steps that were
given up and done again included: they were paid for.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.training.curves import TRAIN, Split
from resources.training.measures import PHASES
from resources.training.metrics_log import HELD_OUT
from resources.training.rollout_log import LogTable, all_files


def seconds_spent(folder: Path) -> dict[str, float]:
    """Wall time by phase of training steps; ``held_out`` is that of held-out claims."""
    spent = dict.fromkeys((*PHASES, "held_out"), 0.0)
    for split, frame in _frames(folder, "curves"):
        for phase in PHASES:
            seconds = float(frame.filter(measure=f"seconds_{phase}")["mean"].sum())
            spent[phase if split == TRAIN else "held_out"] += seconds
    return spent


def judge_usage(folder: Path, engine: str) -> dict[str, Any]:
    """Distinct calls a batch, summed over batches, and how many of them failed, by reason."""
    usage: dict[str, Any] = {"engine": engine, "calls": 0, "failed": 0, "failures": {}}
    for _, frame in _frames(folder, "judge_calls"):
        calls = frame.unique("call_key")
        usage["calls"] += calls.height
        for reason, count in calls["failure"].drop_nulls().value_counts().iter_rows():
            usage["failed"] += count
            usage["failures"][reason] = usage["failures"].get(reason, 0) + count
    return usage


def _frames(folder: Path, table: LogTable) -> Iterator[tuple[Split, pl.DataFrame]]:
    splits: tuple[Split, ...] = (TRAIN, *HELD_OUT)
    for split in splits:
        for file in all_files(folder, table, split):
            yield split, pl.read_parquet(file.path)
