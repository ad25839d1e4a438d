"""What a trained policy leaves in a data folder, written by hand: three attempts of one run.

The second went on from step 5 and was killed after step 6, so steps 5 and 6 of the first
attempt, and its step 7, do not count any more. The third went on from there and did nothing.
"""

import json
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.table import Table
from decomposerl.training.curves import CurvePoint, curve_rows
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet

EXPERIMENT, KEY = "tiny", "ab" * 8
STARTS = ((1, 0), (2, 5), (3, 5))
SAMPLED = {1: range(8), 2: range(5, 7)}
COUNTING = dict.fromkeys(range(5), 1)
"""Steps that count once the third attempt began, with the attempt that sampled them."""
REWARD_NAMES = ("verification", "joint", "total")


def write_policy(data: Path) -> Path:
    """Write the folder of one run and return it."""
    folder = data / "policy" / EXPERIMENT
    starts = [{"attempt": attempt, "resumed_from": step} for attempt, step in STARTS]
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"key": KEY, "attempts": starts}), "utf-8")
    for attempt, steps in SAMPLED.items():
        for step in steps:
            _write_step(folder, "train", step, attempt)
    for step in (0, 5):
        _write_step(folder / "held_out_sampled", "held_out_sampled", step, 1)
    _write_curves(folder)
    superseded = folder / "superseded/cd"
    _write_step(superseded, "train", 0, 1)
    return folder


def _write_step(folder: Path, split: str, step: int, attempt: int) -> None:
    name = f"step-{step:06d}.attempt-{attempt:02d}.parquet"
    numbers = range(2)
    rollouts = [_rollout(split, step, attempt, number) for number in numbers]
    _write(schemas.ROLLOUTS, rollouts, folder / "rollouts" / name)
    rewards = [_reward(step, number, reward) for number in numbers for reward in REWARD_NAMES]
    _write(schemas.REWARDS, rewards, folder / "rewards" / name)
    calls = [_call(number) for number in numbers]
    _write(schemas.JUDGE_CALLS, calls, folder / "judge_calls" / name)


def _rollout(split: str, step: int, attempt: int, number: int) -> dict[str, object]:
    return (
        plain("rollouts")
        | {"step": step, "split": split, "group": f"{step:016x}", "rollout": number}
        | {"attempt": attempt, "completion": f"<think>attempt {attempt}</think>"}
        | {"completion_tokens": 40 + number, "total": 1.0 + number, "questions": number}
        | {"verdict": "Supported" if number else None}
        | {"faults": [] if number else ["no_verdict"]}
    )


def _reward(step: int, number: int, name: str) -> dict[str, object]:
    about = {"step": step, "group": f"{step:016x}", "rollout": number}
    return plain("rewards", **about, reward=name, value=float(number))


def _call(number: int) -> dict[str, object]:
    ruled = {"value": "Supported" if number else None, "failure": None if number else "no reply"}
    return plain("judge_calls", group=f"{number:016x}", rollout=number, **ruled)


def _write_curves(folder: Path) -> None:
    points = [
        curve_rows(
            KEY, EXPERIMENT, step, "train", {n: CurvePoint(step / 10, 0.5, 16) for n in _TOLD}
        )
        for step in range(1, 8)
    ]
    points += [
        curve_rows(
            KEY, EXPERIMENT, step, "held_out_sampled", {"total": CurvePoint(0.5 + step / 10)}
        )
        for step in (0, 5)
    ]
    write_parquet(schemas.CURVES.conform(pl.concat(points)), folder / "curves.parquet")


_TOLD = ("total", "verification", "zero_spread_groups")


def _write(table: Table, rows: list[dict[str, object]], path: Path) -> None:
    write_parquet(table_of(table, rows), path)
