"""The callback around each step: held-out claims, measures, health, reports and the end.

The trainer's events come in this order: a step begins (a safe point), the optimizer changes the
weights, the step is logged, a checkpoint is saved.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from decomposerl.progress import Bar
from decomposerl.training.curves import TRAIN, CurvePoint, Split
from decomposerl.training.health import (
    AT_ONCE,
    HealthFinding,
    HealthSettings,
    health_findings,
    new_findings,
    spread_key,
)
from resources.training.data import CompletionReader, Row
from resources.training.metrics_log import (
    HELD_OUT,
    LAST_STEPS,
    PHASES,
    MetricsLog,
    batch_points,
    second_points,
    trainer_points,
)
from resources.training.process import Report, StepReport, TrainingRun
from resources.training.reward_scoring import RewardScorer, broadcast_from_main
from resources.training.run_store import Attempt
from resources.training.safe_point import Interrupted, SafePoint
from resources.training.sampler import SamplerCheck, sample_completions
from resources.training.trl_hooks import PhaseTimer, write_adapter

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainerControl, TrainerState
    from trl import GRPOTrainer


@dataclass(slots=True)
class TrainingMonitor:
    """The state of a run around its trainer, and the callback.

    ``held_out`` are the rows of the held-out claims, ``trainer`` is set once it exists,
    ``progress`` while it trains, and ``stopped`` is the reason of an early end.
    """

    run: TrainingRun
    attempt: Attempt
    metrics: MetricsLog
    scorer: RewardScorer
    held_out: tuple[Row, ...]
    reader: CompletionReader
    report: Report
    sampler: SamplerCheck
    phases: PhaseTimer = field(default_factory=PhaseTimer)
    safe_point: SafePoint = field(default_factory=SafePoint)
    trainer: "GRPOTrainer" = None
    stopped: str = ""
    progress: Bar | None = None
    _findings: list[HealthFinding] = field(default_factory=list)
    _started: float = 0.0
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))

    def on_step_begin(
        self, _args: object, state: "TrainerState", _control: object, **_: object
    ) -> None:
        """Sample held-out claims where they are due, then begin the step."""
        self.safe_point.record(state)
        self._sample_held_out(state)
        self.phases.spent.clear()
        self._started = perf_counter()

    def on_pre_optimizer_step(self, *_: object, **__: object) -> None:
        """From here on the step must be finished."""
        self.safe_point.updating = True

    def on_step_end(
        self, _args: object, state: "TrainerState", control: "TrainerControl", **_: object
    ) -> None:
        """Save only before a new batch of claims, else a resumed run would sample twice."""
        each = self.run.experiment.grpo.iterations
        every = -(-self.run.limits.checkpoint_every // each) * each
        last = state.global_step >= state.max_steps
        control.should_save = last or state.global_step % every == 0

    def on_log(
        self,
        _args: object,
        state: "TrainerState",
        control: "TrainerControl",
        logs: Mapping[str, Any],
        **_: object,
    ) -> None:
        """Finish the step: measure, log, check health, report; end the run if necessary."""
        if "loss" not in logs:
            return  # the summary at the end
        if self.progress is not None:
            self.progress.move(state.global_step)
        if self.trainer.accelerator.is_main_process:
            self._finish_step(state, logs)
        self.stopped = broadcast_from_main(self.trainer.accelerator, lambda: self.stopped)
        if self.stopped:
            control.should_training_stop = control.should_save = True
        self.safe_point.record(state)
        if self.safe_point.pending:
            raise Interrupted(self.safe_point.pending)

    def on_save(self, *_: object, **__: object) -> None:
        """Bring the curves as far as the checkpoint."""
        self.metrics.write()

    def on_train_end(
        self, _args: object, state: "TrainerState", _control: object, **_: object
    ) -> None:
        """Sample held-out claims once more, unless the run ended early."""
        if not self.stopped:
            self._sample_held_out(state)

    def _sample_held_out(self, state: "TrainerState") -> None:
        """Sample, reward and log held-out claims where they are due and not logged yet.

        Between both ends the step's adapter is written first: it can then be chosen by them.
        """
        step, every = state.global_step, self.run.experiment.held_out.every
        ends = {0, state.max_steps}
        due = step in ends or (every and step % every == 0)
        if not (due and self.held_out) or self.metrics.held_out_at(step):
            return
        if step not in ends:
            write_adapter(self.trainer, self.attempt.folder.adapter_at(step))
        for split in HELD_OUT:
            self.metrics.add(step, split, self._held_out_points(step, split))

    def _held_out_points(self, step: int, split: Split) -> dict[str, CurvePoint]:
        greedy = split == "held_out_greedy"
        samples = 1 if greedy else self.run.experiment.held_out.samples
        started = perf_counter()
        completions = sample_completions(
            self.trainer, self.reader, self.held_out, samples=samples, greedy=greedy
        )
        generated = perf_counter()

        def measure() -> dict[str, CurvePoint]:
            batch = self.scorer.score(step, split, completions, samples)
            points = batch_points(batch, self.run.experiment.rewards)
            spent = {"generation": generated - started, "judging": perf_counter() - generated}
            return points | second_points(spent)

        return broadcast_from_main(self.trainer.accelerator, measure)

    def _finish_step(self, state: "TrainerState", logs: Mapping[str, Any]) -> None:
        step = state.global_step - 1
        points = self._points(step, logs)
        self.metrics.add(step, TRAIN, points)
        settings = HealthSettings(
            window=LAST_STEPS,
            mask_truncated=self.run.experiment.grpo.mask_truncated,
            judge_failures_stop=self.run.limits.most_judge_failures,
        )
        findings = health_findings(self.metrics.history, settings)
        fresh, self._findings = new_findings(findings, self._findings), findings
        if state.global_step < state.max_steps:
            self.stopped = self._stop_reason(findings)
        self.report(self._step_report(state, points, fresh))

    def _points(self, step: int, logs: Mapping[str, Any]) -> dict[str, CurvePoint]:
        """A step's measures; without a batch's where an earlier batch was used again."""
        points = trainer_points(logs) | second_points(self._phase_seconds())
        points |= self.sampler.points_at(step)
        batch = self.scorer.last
        if batch is None or batch.step != step:
            return points
        return batch_points(batch, self.run.experiment.rewards) | points

    def _phase_seconds(self) -> dict[str, float]:
        """The step's seconds by phase; the update takes what the other phases do not."""
        whole = perf_counter() - self._started
        self._seconds.append(whole)
        spent = {phase: self.phases.spent.get(phase, 0.0) for phase in PHASES}
        self.phases.spent = spent | {"update": max(0.0, whole - sum(spent.values()))}
        return self.phases.spent

    def _stop_reason(self, findings: list[HealthFinding]) -> str:
        limits, share = self.run.limits, self.metrics.judge_failure_share()
        if share > limits.most_judge_failures:
            return (
                f"{share:.1%} of judged rewards over the last {LAST_STEPS} steps lack a ruling, "
                f"the limit is {limits.most_judge_failures:.1%}"
            )
        if not limits.stop_unhealthy:
            return ""
        full = self.metrics.window_is_full  # a run that is started again gets one more window
        stops = [one for one in findings if one.stop and (full or one.rule in AT_ONCE)]
        return "; ".join(finding.message for finding in stops)

    def _step_report(
        self, state: "TrainerState", points: Mapping[str, CurvePoint], fresh: list[HealthFinding]
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


def step_callback(monitor: TrainingMonitor) -> "TrainerCallback":
    """The monitor as a callback of transformers; events that it does not handle do nothing."""
    from transformers import TrainerCallback

    events = [name for name in vars(TrainingMonitor) if name.startswith("on_")]
    methods = {name: staticmethod(getattr(monitor, name)) for name in events}
    kind: type[TrainerCallback] = type("StepCallback", (TrainerCallback,), methods)
    return kind()
