"""A training process without training, as a program: ``-m study_stand_in --run FILE``.

It leaves what a study reads of a run: held-out traces at both ends, curves, an outcome. Its traces
are those of a policy that learned what its recipe pays: without diversity it repeats a question,
without verification it is wrong half of the time. Runs named in ``fail`` beside the policies are
refused, those in ``slow`` wait until they are ended; each start is a line of ``started``.
"""

import argparse
import signal
import sys
import time
import zlib
from pathlib import Path

import polars as pl

from decomposerl.rewards.scoring import reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.curves import CurvePoint, Split, curve_rows
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import write_parquet
from resources.training.data import Completion, rollouts_of
from resources.training.process import REFUSED, TrainingOutcome, TrainingRun
from resources.training.rollout_log import RolloutLog, StepBatch
from resources.training.run_store import RunFolder, begin_attempt, write_outcome

SPLITS: tuple[Split, ...] = ("held_out_sampled", "held_out_greedy")
CYCLE = "<question>{}</question><answer>Ilva opened it.</answer>"
OPEN = "<think>Look.</think>"


def main() -> int:
    """Leave a finished run, or refuse it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path)
    known, _ = parser.parse_known_args()
    run = TrainingRun.from_json(known.run.read_text("utf-8"))
    beside = run.folder.parent.parent
    with (beside / "started").open("a") as journal:
        journal.write(f"{run.experiment.name}\n")
    if run.experiment.name in (beside / "fail").read_text("utf-8").split():
        sys.stdout.write("the judge does not answer\n")
        return REFUSED
    if run.experiment.name in (beside / "slow").read_text("utf-8").split():
        wait_for_the_end(beside / f"waiting-{run.experiment.name}")
    leave(run)
    return 0


def wait_for_the_end(waiting: Path) -> None:
    """Wait for SIGTERM, as a run that saves its checkpoint then."""

    def end(number: int, _: object) -> None:
        waiting.with_name(waiting.name.replace("waiting", "ended")).touch()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    waiting.touch()
    time.sleep(120)


def leave(run: TrainingRun) -> None:
    """Write the files of a finished run."""
    attempt, steps = begin_attempt(run), run.experiment.optimization.steps
    log = RolloutLog(run.folder, run.key, attempt.number)
    claims = pl.read_parquet(str(run.held_out))
    for step in (0, steps):
        batch = [completion(run, row, trained=step > 0) for row in claims.iter_rows(named=True)]
        judged = reward_rollouts(
            rollouts_of(batch, 1), RuleJudge(), BagOfWordsEmbedder(), RewardSettings()
        )
        for split in SPLITS:
            log.write(StepBatch(step, batch, judged), split)
    points = {"total": CurvePoint(3.0, 0.5, 16), "verification": CurvePoint(0.5, 0.5, 16)}
    curves = [curve_rows(run.key, run.experiment.name, n, "train", points) for n in range(steps)]
    write_parquet(pl.concat(curves), run.folder / "curves.parquet")
    adapter = run.folder / "adapter"
    adapter.mkdir(exist_ok=True)
    (adapter / "adapter_model.safetensors").write_bytes(run.key.encode())
    outcome = TrainingOutcome(
        steps, 0, "", adapter, run.folder / "curves.parquet", {}, {}, {"update": 1.0}, {}, {}
    )
    write_outcome(RunFolder(run.folder), outcome)


def completion(run: TrainingRun, row: dict[str, object], *, trained: bool) -> Completion:
    """A trace of two questions and a verdict."""
    off = {name for name, weight in run.experiment.rewards.weights.items() if not weight}
    luck = zlib.crc32(f"{row['claim_id']} {run.experiment.seed}".encode())
    right = not (trained and "verification" in off and luck % 2)
    wrong = {"Supported": "Refuted", "Refuted": "Supported"}
    label = str(row["label"])
    second = "Who opened it?" if trained and "diversity" in off else "Is the river in Torbeck?"
    cycles = [OPEN + CYCLE.format(question) for question in ("Who opened it?", second)]
    text = f"{''.join(cycles)}{OPEN}<verification>{label if right else wrong[label]}</verification>"
    return Completion(
        claim_id=str(row["claim_id"]),
        claim=str(row["claim"]),
        evidence=str(row["evidence"]),
        label="Supported" if label == "Supported" else "Refuted",
        n_star=2,
        source="hover",
        labelled=True,
        prompt_digest="0" * 64,
        prompt_tokens=9,
        tokens=tuple(range(9)),
        text=text,
        truncated=False,
    )


if __name__ == "__main__":
    sys.exit(main())
