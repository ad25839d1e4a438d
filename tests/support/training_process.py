"""One of several training processes, as a program that ``torch.distributed.run`` starts.

``python training_process.py <run.json>`` trains the run and prints its rank, the steps done, the
steps that it reported and the batches that it judged.
"""

import sys
from pathlib import Path

from accelerate import PartialState

from fakes import BagOfWordsEmbedder
from resources.training.process import StepReport, TrainingRun
from resources.training.train import train
from training_parts import FailingJudge


def main(path: str) -> None:
    """Train with a judge that counts."""
    judge, reports = FailingJudge("coverage", 0), list[StepReport]()
    run = TrainingRun.from_json(Path(path).read_text("utf-8"))
    outcome = train(run, judge, BagOfWordsEmbedder(), reports.append)
    rank = PartialState().process_index
    print("rank", rank, outcome.steps, len(reports), len(judge.asked), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(sys.argv[1])
