"""Data folders with traces: predictions, and training runs as their logs would have left them."""

import json
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.judge.call import Calls, needed_calls
from decomposerl.rewards.scoring import role_of
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from evaluation_files import SYSTEMS, predictions
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet
from trace_parts import CYCLES, EVIDENCE, write_benchmark
from training_files import write_policy

CLAIM_IDS = ("c1", "c2", "c3")


def write_traces(data: Path) -> Path:
    """Predictions of two systems on one test set, and a training run: 20 traces."""
    claims = write_benchmark(data, "fever", CLAIM_IDS)
    for system in SYSTEMS:
        frame = predictions(system, "fever", claims)
        write_parquet(frame, data / f"predictions/fever/{system.key}.parquet")
    write_policy(data)
    return data


TEXT = (
    "<think>Look.</think>"
    + "".join(
        f"<question>{one.question}</question><answer>{one.answer}</answer><think>So.</think>"
        for one in CYCLES[:2]
    )
    + "<verification>Supported</verification>"
)
STEPS = (0, 10, 20)


def write_judged_run(data: Path, recipe: str = "mine", engine: str = "chat:echo") -> Path:
    """A run whose one held-out claim was sampled at three steps, with rulings and rewards."""
    folder = data / "policy" / recipe
    folder.mkdir(parents=True)
    record = {"key": "ab" * 8, "attempts": [{"attempt": 1, "resumed_from": 0}]}
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    (folder / "config.json").write_text(json.dumps({"base": "org/model"}), "utf-8")
    claims = pl.DataFrame({"claim_id": ["c1"], "evidence": [EVIDENCE]})
    write_parquet(claims, folder / f"inputs/{'ab' * 8}/held_out.parquet")
    for step in STEPS:
        _write_step(folder, step, engine)
    return folder


def judged_rollout() -> Calls:
    """The judge calls of the one trace."""
    return needed_calls(Rollout("c1", 0, "A claim.", EVIDENCE, parse_trace(TEXT)))


def _write_step(folder: Path, step: int, engine: str) -> None:
    name = f"step-{step:06d}.attempt-01.parquet"
    about = {"group": "c1", "rollout": 0}
    calls = [
        about
        | {"task": task, "role": role_of(task, cycle), "question": cycle}
        | {"value": "Refuted" if task == "coverage" else "1", "failure": None}
        | {"engine": engine, "call_key": call.key}
        for (task, cycle), call in judged_rollout().items()
    ]
    scored = about | {"run": "ab" * 8, "step": step, "weight": 1.0, "counted": True}
    rewards = [
        scored | {"reward": "necessity", "question": None, "value": -1.0, "state": "scored"},
        scored | {"reward": "necessity", "question": 0, "value": -1.0, "state": "harmful"},
        scored | {"reward": "diversity", "question": 1, "value": -0.75, "state": "compared"},
        scored | {"reward": "total", "question": None, "value": 2.5, "state": "scored"},
    ]
    rollouts = [
        (
            plain("rollouts")
            | about
            | {"step": step, "split": "held_out_greedy", "claim": "A claim."}
            | {"label": "Refuted", "prompt_tokens": 9, "completion": TEXT}
            | {"completion_tokens": 9, "questions": 2, "total": 2.5}
        )
    ]
    tables = {
        "judge_calls": (schemas.JUDGE_CALLS, calls),
        "rewards": (schemas.REWARDS, rewards),
        "rollouts": (schemas.ROLLOUTS, rollouts),
    }
    for table, (form, rows) in tables.items():
        write_parquet(table_of(form, rows), folder / "held_out_greedy" / table / name)
