"""One of several training processes, as a program that ``torch.distributed.run`` starts.

``python training_process.py <run.json>`` trains the run and prints its rank, the steps done, the
steps that it reported, the batches that it judged and the seconds that it waits for another. Then
it compares a sampler's tokens, three here and one there, and prints their number and surprisal.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import PartialState

from fakes import BagOfWordsEmbedder
from resources.training.process import StepReport, TrainingRun
from resources.training.sampler import sampler_gaps
from resources.training.train import load_policy, prepare, train
from training_parts import FailingJudge


def longest_wait_s() -> int:
    """The limit of the group's collectives, as torch has it."""
    group = torch.distributed.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    return int(backend.options._timeout.total_seconds())


def main(path: str) -> None:
    """Train with a judge that counts."""
    judge, reports = FailingJudge("coverage", 0), list[StepReport]()
    run = TrainingRun.from_json(Path(path).read_text("utf-8"))
    outcome = train(run, judge, BagOfWordsEmbedder(), reports.append)
    rank, limit_s = PartialState().process_index, longest_wait_s()
    say("rank", rank, outcome.steps, len(reports), len(judge.asked), limit_s)
    say("sampler", *sampler_check(run, rank))


def say(*words: object) -> None:
    """Write one line at once: with ``print``, two processes may mix their words in one pipe."""
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


def sampler_check(run: TrainingRun, rank: int) -> tuple[int, float | None]:
    """Tokens compared and their mean surprisal, which ought to be over both processes."""
    again = replace(run, folder=run.folder.with_name("check"))
    judge, embedder = FailingJudge("coverage", 0), BagOfWordsEmbedder()
    monitor = prepare(again, load_policy(again), judge, embedder, lambda _: None)
    sampled = [[-1.0] * 3, [-5.0]][rank]
    points = sampler_gaps(monitor.trainer, [[5, 6, 7]], [[6] * len(sampled)], [sampled])
    return points["sampler_gap"].rows, points["sampler_nll"].mean


if __name__ == "__main__":
    main(sys.argv[1])
