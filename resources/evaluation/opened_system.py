"""A system with its engine, ready to predict test sets, and what it was asked."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from decomposerl.evaluation.calibration import Calibration
from decomposerl.progress import Bar, bar
from resources.evaluation.caller import MethodCaller
from resources.evaluation.context_guard import ContextGuard
from resources.evaluation.generation import Generated, Task, answer_claims, predict
from resources.evaluation.prediction_store import usable_calibration
from resources.evaluation.runner import ClaimToVerify, FailureLimit, Finished

SHARDS = "prediction_shards"
VERIFIED = "verify"
"""The folder of shards of claims that belong to no test set."""
_AT_ONCE = 16  # claims in progress in this process: more would delay the first result
_REPORTS = 20  # most progress messages of a run
_REPORT_EVERY_S = (
    5.0  # each is an event in Dagster's storage, which costs more than a claim by rules
)
Details = Callable[[], Mapping[str, int | float | str]]


@dataclass
class OpenedSystem:
    """A system ready to predict test sets.

    ``calls`` counts claims that were predicted, ``hits`` claims that were stored already.
    """

    task: Task
    caller: MethodCaller
    folder: Path
    details: Details = dict
    guard: ContextGuard | None = None
    calls: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    @property
    def engine(self) -> str:
        """Name of the program and model that answer."""
        return self.caller.engine

    def predict(
        self,
        benchmark: str,
        claims: pl.DataFrame,
        most_failed: float,
        log: Callable[[str], None],
        *,
        calibrated: bool = True,
    ) -> Generated:
        """Predictions of ``claims``; ``log`` receives progress messages.

        ``calibrated``: apply the system's calibration, if one was fitted.

        Raises:
            EngineError: too many claims failed, or no call can be answered.
            EvaluationError: the calibration was fitted to another model or prompt.
        """
        with bar(f"{self.task.system}, {benchmark}", claims.height, "claims") as shown:
            made = predict(
                self.task,
                benchmark,
                claims,
                self.caller,
                self.folder / SHARDS,
                limits=FailureLimit(most_failed),
                progress=_reported(_moves(shown), f"{self.task.system}, {benchmark}", log),
                calibration=self.calibration() if calibrated else None,
                guard=self.guard,
            )
        self.calls += made.asked
        self.hits += made.stored
        return made

    def verify(self, claims: Sequence[ClaimToVerify], finished: Finished) -> None:
        """Answer claims with distinct ids that belong to no test set.

        ``finished`` receives each claim's result as soon as it is there, in any order. A claim
        whose call got no answer has none, and is asked again by the next call; the others are
        stored.

        Raises:
            EngineError: no call can be answered.
        """
        with bar(self.task.system, len(claims), "claims") as shown:
            moved = _moves(shown)
            made = answer_claims(
                self.task,
                claims,
                self.caller,
                self.folder / SHARDS / VERIFIED,
                limits=FailureLimit(1.0),
                progress=lambda done, _: moved(done),
                guard=self.guard,
                finished=finished,
                at_once=_AT_ONCE,
            )
        self.calls += made.asked
        self.hits += made.stored

    def calibration(self) -> Calibration | None:
        """The system's calibration, None where none was fitted.

        Raises:
            EvaluationError: it was fitted to another model or prompt.
        """
        prompt_hash = self.task.prompt_hash(self.caller)
        return usable_calibration(
            self.folder, self.task.system, model=self.engine, prompt_hash=prompt_hash
        )


def _moves(shown: Bar) -> Callable[[int], None]:
    """Moves the bar; the first report is of what was stored, and says nothing of the rate."""
    reports = 0

    def moved(done: int) -> None:
        nonlocal reports
        shown.known = done if reports == 0 else shown.known
        reports += 1
        shown.move(done)

    return moved


def _reported(
    moved: Callable[[int], None], what: str, log: Callable[[str], None]
) -> Callable[[int, int], None]:
    """Moves the bar and logs ``what`` at the end, and at each part where that takes long."""
    said = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal said
        moved(done)
        part = total and done * _REPORTS // total != (done - 1) * _REPORTS // total
        if done and (done == total or (part and time.monotonic() - said > _REPORT_EVERY_S)):
            said = time.monotonic()
            log(f"{what}: {done:,} of {total:,} claims")

    return progress
