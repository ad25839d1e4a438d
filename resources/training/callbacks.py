"""What happens around each step: held-out claims, measures, health, reports, the end.

Takes the trainer's events in their order: a step begins (here a run may be taken up again), the
optimizer writes weights, the step is logged, a checkpoint is saved.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from decomposerl.training.curves import TRAIN, CurvePoint
from decomposerl.training.health import (
    HealthFinding,
    HealthSettings,
    health_findings,
    new_findings,
    spread_key,
)
from resources.training.distributed import from_first
from resources.training.held_out import HeldOutClaims
from resources.training.library_types import Trainer, TrainerControl, TrainerState, Whatever
from resources.training.measures import PHASES, batch_points, second_points, trainer_points
from resources.training.metrics_log import HELD_OUT, LAST_STEPS, CurveBook
from resources.training.policy_trainer import Phases
from resources.training.reward_scoring import Evaluation
from resources.training.run import Report, StepReport, TrainingRun
from resources.training.run_folder import Attempt
from resources.training.stopping import Interrupted, SafePoint


@dataclass(slots=True)
class StepWatch:
    """The callback. ``trainer`` is set once it exists; ``stopped`` says why a run ends early."""

    run: TrainingRun
    attempt: Attempt
    book: CurveBook
    evaluation: Evaluation
    claims: HeldOutClaims
    phases: Phases
    point: SafePoint
    report: Report
    trainer: Trainer = None
    stopped: str = ""
    _findings: list[HealthFinding] = field(default_factory=list)
    _started: float = 0.0
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))

    def on_step_begin(
        self, _args: Whatever, state: TrainerState, _control: TrainerControl, **_: Whatever
    ) -> None:
        """Sample held-out claims where it is time, then begin the step."""
        self.point.note(state)
        self._sample_held_out(state)
        self.phases.spent.clear()
        self._started = perf_counter()

    def on_pre_optimizer_step(self, *_: Whatever, **__: Whatever) -> None:
        """From here on the step must be finished."""
        self.point.updating = True

    def on_step_end(
        self, _args: Whatever, state: TrainerState, control: TrainerControl, **_: Whatever
    ) -> None:
        """Save where a new batch of claims comes next, else a resumed run would sample twice."""
        each = self.run.experiment.grpo.iterations
        every = -(-self.run.limits.checkpoint_every // each) * each
        last = state.global_step >= state.max_steps
        control.should_save = last or state.global_step % every == 0

    def on_log(
        self,
        _args: Whatever,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any],
        **_: Whatever,
    ) -> None:
        """Finish the step: measure, log, look at its health, report; end the run if need be."""
        if "loss" not in logs:
            return  # the summary at the end
        if self._is_first:
            self._finish(state, logs)
        self.stopped = from_first(self.trainer.accelerator, lambda: self.stopped)
        if self.stopped:
            control.should_training_stop = control.should_save = True
        self.point.note(state)
        if self.point.pending:
            raise Interrupted(self.point.pending)

    def on_save(self, *_: Whatever, **__: Whatever) -> None:
        """Curves are as far as the checkpoint."""
        self.book.write()

    def on_train_end(
        self, _args: Whatever, state: TrainerState, _control: TrainerControl, **_: Whatever
    ) -> None:
        """Sample held-out claims once more, unless the run ended early."""
        if not self.stopped:
            self._sample_held_out(state)

    @property
    def _is_first(self) -> bool:
        return bool(self.trainer.accelerator.is_main_process)

    def _sample_held_out(self, state: TrainerState) -> None:
        """Sample and score held-out claims where it is time and nobody did at this step."""
        step, every = state.global_step, self.run.experiment.held_out.every
        due = step in {0, state.max_steps} or (every and step % every == 0)
        if not (due and self.claims.rows) or self.book.held_out_at(step):
            return
        for split in HELD_OUT:
            points = self.claims.points(self.trainer, self.evaluation, step, split)
            self.book.note(step, split, points)

    def _finish(self, state: TrainerState, logs: Mapping[str, Any]) -> None:
        points = self._points(state.global_step - 1, logs)
        self.book.note(state.global_step - 1, TRAIN, points)
        bounds = HealthSettings(
            window=LAST_STEPS,
            mask_truncated=self.run.experiment.grpo.mask_truncated,
            judge_failures_stop=self.run.limits.most_judge_failures,
        )
        findings = health_findings(self.book.history, bounds)
        fresh, self._findings = new_findings(findings, self._findings), findings
        if state.global_step < state.max_steps:
            self.stopped = self._why_stop(findings)
        self.report(self._told(state, points, fresh))

    def _points(self, step: int, logs: Mapping[str, Any]) -> dict[str, CurvePoint]:
        """A step's measures; without a batch's where an earlier batch was used again."""
        points = trainer_points(logs) | second_points(self._timed())
        batch = self.evaluation.last
        if batch is None or batch.step != step:
            return points
        return batch_points(batch, self.run.experiment.rewards) | points

    def _timed(self) -> dict[str, float]:
        """The step's seconds by phase; the update is all that is neither of the others."""
        whole = perf_counter() - self._started
        self._seconds.append(whole)
        spent = {phase: self.phases.spent.get(phase, 0.0) for phase in PHASES}
        self.phases.spent = spent | {"update": max(0.0, whole - sum(spent.values()))}
        return self.phases.spent

    def _why_stop(self, findings: list[HealthFinding]) -> str:
        limits, share = self.run.limits, self.book.lost_share()
        if share > limits.most_judge_failures:
            return (
                f"{share:.1%} of judged scores over the last {LAST_STEPS} steps lack a ruling, "
                f"the limit is {limits.most_judge_failures:.1%}"
            )
        if not (limits.stop_unhealthy and self.book.window_is_full):
            return ""  # a run that is started again gets one more window
        return "; ".join(finding.message for finding in findings if finding.stop)

    def _told(
        self,
        state: TrainerState,
        points: Mapping[str, CurvePoint],
        fresh: list[HealthFinding],
    ) -> StepReport:
        step, steps = state.global_step, state.max_steps
        return StepReport(
            step=step,
            steps=steps,
            attempt=self.attempt.number,
            means={name: point.mean for name, point in points.items()}
            | {spread_key(name): point.spread for name, point in points.items()},
            seconds=dict(self.phases.spent),
            eta_s=sum(self._seconds) / len(self._seconds) * (steps - step),
            warnings=tuple(finding.message for finding in fresh),
        )


def step_callback(watch: StepWatch) -> Whatever:
    """The watch as a callback of transformers: events that it does not take do nothing."""
    from transformers import TrainerCallback

    events = [name for name in vars(StepWatch) if name.startswith("on_")]
    methods = {name: staticmethod(getattr(watch, name)) for name in events}
    return type("StepCallback", (TrainerCallback,), methods)()
