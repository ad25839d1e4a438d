"""A training run that a test starts and that kills itself, as a program.

``python training_child.py <folder> <base> report <step>`` dies by SIGKILL when the step is
reported, ``… judge <batch>`` in the middle of a step, while that batch is judged.
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decomposerl.judge.call import JudgeCall, Ruling
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.training.process import StepReport
from resources.training.train import train
from training_parts import resumable


@dataclass
class DyingJudge:
    """The rule judge, and the process ends at its ``last`` batch."""

    last: int
    batches: int = 0
    engine: str = RuleJudge().engine

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings of the batches before."""
        self.batches += 1
        if self.batches == self.last:
            die()
        return RuleJudge().judge(calls)


def die() -> None:
    """As if the machine had stopped."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, base: str, where: str, when: str) -> None:
    """Train until killed."""

    def report(step: StepReport) -> None:
        if where == "report" and step.step == int(when):
            die()

    judge = DyingJudge(int(when) if where == "judge" else 0)
    train(resumable(Path(folder), Path(base)), judge, BagOfWordsEmbedder(), report)


if __name__ == "__main__":
    main(*sys.argv[1:])
