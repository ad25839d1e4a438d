"""The trainer as a Dagster resource, and a trained policy as a materialization.

A run is trained in a separate process, or as a Ray job (``ray_jobs``), that reports through Dagster
Pipes; its lines appear in the run's log as they come. The process frees a GPU's memory when it
ends, may have another Python environment, and never outlives its starter, unlike one of Dagster's
``PipesSubprocessClient``, which also shows nothing of what a dead process printed.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.errors import TrainingError
from decomposerl.extras import require
from decomposerl.reports.training_figure import training_curve, training_png
from decomposerl.reports.training_report import changes_markdown, duration, seconds_markdown
from decomposerl.training.curves import changes, ends
from decomposerl.training.experiment import plain_values
from resources.judge.tiny_judge import MINILM
from resources.process.child import run_watched
from resources.profile_defaults import ProfileDefaults
from resources.store.integrity import file_sha256, read_parquet
from resources.store.recording import picture, rounded
from resources.store.temporary import replace_file
from resources.training.judge_heads import HeadsRun
from resources.training.messages import failure_text, watched_process
from resources.training.process import (
    DONE,
    DRY_RUN,
    Generation,
    GenerationEngine,
    Reporter,
    RunLimits,
    TrainingOutcome,
    TrainingRun,
    last_of,
    meaning_of,
    outcome_among,
)
from resources.training.ray_jobs import TrainingJobs
from resources.training.run_inputs import RunInputs
from resources.training.run_store import RunFolder, read_attempts, stored_outcome

_RUN_FILE, _LOG_FILE = "run.json", "worker.log"
_RETURNS_MEMORY = ("env", "MALLOC_MMAP_THRESHOLD_=1048576")
"""On a processor: glibc returns freed tensors at once. By default it kept 3.3 of 3.4 GB after an
update of 1,000 tokens on 135 million parameters; with this it needed 2.6 and kept 1.4. The tiny
policy needs little and is spared: there it tripled the system's share of a step, to 9 s.
"""
_WEIGHTS = "adapter_model.safetensors"
_ENDS = 10  # the ends of training curves are means over a tenth of the steps


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The reports of a training process; ``dry_run`` is from before the first step."""

    run: TrainingRun
    outcome: TrainingOutcome
    dry_run: dict[str, Any]


class PolicyTrainerResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """How a policy is trained on this machine, without effect on what is learned."""

    module: str = Field(description="Python module that trains: started with -m and --run FILE")
    python: str = Field(default="", description="interpreter; empty: this one")
    launch: list[str] = Field(
        default=[],
        description="words between interpreter and -m, for several GPUs: -m "
        "accelerate.commands.launch --config_file configs/accelerate/two_gpus.yaml",
    )
    device: str = Field(default="cpu", description="torch's name")
    encoder: str = Field(
        default=MINILM, description="of the tiny judge: hub name, folder, or minilm (the wheel's)"
    )
    threads: int = Field(default=1, ge=1, description="torch's threads")
    prompts_dir: str = Field(default="", description="folder of your own prompt files")
    generation: GenerationEngine = Field(
        default="transformers",
        description="what samples: transformers, or vLLM beside it or as a server",
    )
    generation_url: str = Field(default="", description="vllm_server: its URL, without /v1")
    memory_share: float = Field(
        default=0.3, gt=0, le=1, description="vllm_colocate: of the card's memory"
    )
    importance_correction: bool = Field(
        default=True, description="vLLM: weight rollouts by the trainer's probabilities over vLLM's"
    )
    sleep_mode: bool = Field(
        default=False, description="vllm_colocate: vLLM gives its memory back during an update"
    )
    liger: bool = Field(default=False, description="GPU: the layer kernels of liger-kernel")
    checkpoint_every: int = Field(default=50, ge=1, description="optimizer steps")
    checkpoints_kept: int = Field(default=2, ge=1, description="complete ones")
    most_judge_failures: float = Field(
        default=0.05, ge=0, le=1, description="share of judged rewards without a ruling; ends it"
    )
    most_cycles: int = Field(default=40, ge=1, description="a longer trace is not judged")
    most_wait_s: int = Field(
        default=7_200, ge=1, description="seconds that one process waits for another"
    )
    sampler_check_every: int = Field(
        default=20, ge=1, description="steps between checks that vLLM has the policy's weights"
    )
    report_to: Reporter = Field(
        default="none",
        description="tracker of transformers that also receives TRL's measures of every step",
    )
    grace_s: float = Field(
        default=120, gt=0, description="seconds for a checkpoint when a run is cancelled"
    )
    jobs: TrainingJobs = Field(default=TrainingJobs(), description="on a Ray cluster, as jobs")

    def require_reporter(self) -> None:
        """Refuse a tracker that is not installed in this interpreter; others check it themselves.

        Raises:
            EngineMissing: it is not; the message names the command that installs it.
        """
        if self.report_to != "none" and not self.python:
            require(self.report_to)

    def plan_run(self, inputs: RunInputs, *, stop_unhealthy: bool) -> TrainingRun:
        """The run on this machine that learns from these inputs.

        Raises:
            EngineMissing: the tracker is not installed.
        """
        self.require_reporter()
        own = dict(self)
        limits = {field.name: own[field.name] for field in fields(RunLimits) if field.name in own}
        return TrainingRun(
            **{
                one.name: getattr(inputs, one.name) for one in fields(inputs) if one.name != "notes"
            },
            device=self.device,
            threads=self.threads,
            generation=Generation(
                engine=self.generation,
                url=self.generation_url,
                memory_share=self.memory_share,
                importance_correction=self.importance_correction,
                sleep_mode=self.sleep_mode,
            ),
            limits=RunLimits(**limits, stop_unhealthy=stop_unhealthy),
            report_to=self.report_to,
            liger=self.liger,
        )

    def train(
        self,
        context: dg.AssetExecutionContext,
        run: TrainingRun,
        notes: Path,
        options: Sequence[str] = (),
    ) -> TrainedRun:
        """Train in a separate process, whose log is in ``notes``.

        Raises:
            TrainingError: the process failed; the message has its exit status and the last lines
                that it printed.
        """
        log = notes / _LOG_FILE
        messages = self._watched(context, [*self.command(run, notes), *options], log)
        # Dagster's reader ends at a line that it read while it was written.
        outcome = outcome_among(messages) or stored_outcome(run)
        if outcome is None:
            raise TrainingError(failure_text("ended without an outcome", log))
        dry = last_of(messages, DRY_RUN) or {}
        return TrainedRun(run, outcome, dict(dry.get("report", {})))

    def train_heads(self, context: dg.AssetExecutionContext, run: HeadsRun, notes: Path) -> None:
        """Train the tiny judge's heads in a separate process, whose log is in ``notes``.

        Raises:
            TrainingError: as ``train``.
        """
        file, log = notes / "heads.json", notes / "heads.log"
        replace_file(file, lambda path: path.write_text(run.model_dump_json(indent=2), "utf-8"))
        words = [self.python or sys.executable, "-m", self.module, "--heads", str(file)]
        self._watched(context, words, log)

    def dry_run(self, context: dg.AssetExecutionContext, run: TrainingRun, notes: Path) -> str:
        """The page of a dry run in a separate process of this machine; nothing is trained.

        Raises:
            TrainingError: it found a problem, or failed.
        """
        # A Pipes session would require a materialization, so the page is read from the log.
        log = notes / "dry_run.log"
        log.unlink(missing_ok=True)
        words = [*self.command(run, notes), "--dry-run-only"]
        status = run_watched(words, log, self.grace_s, _title(context))
        if status != DONE:
            raise TrainingError(failure_text(f"ended with {meaning_of(status)}", log))
        return log.read_text("utf-8")

    def command(self, run: TrainingRun, notes: Path) -> list[str]:
        """What trains a run, which is written to ``notes`` first."""
        notes.mkdir(parents=True, exist_ok=True)
        run_file = notes / _RUN_FILE
        replace_file(run_file, lambda path: path.write_text(run.to_json(), "utf-8"))
        spared = run.device.startswith("cuda") or run.experiment.on_tiny_base
        settings = () if spared else _RETURNS_MEMORY
        words = [*settings, self.python or sys.executable, *self.launch, "-m", self.module]
        return [*words, "--run", str(run_file)]

    def _watched(
        self, context: dg.AssetExecutionContext, words: Sequence[str], log: Path
    ) -> Sequence[Any]:
        """The messages of a process here, or of a Ray job."""
        if self.jobs.address:
            return self.jobs.run(context, words, self.grace_s)

        def start(pipes: Sequence[str]) -> int:
            return run_watched([*words, *pipes], log, self.grace_s, _title(context))

        return watched_process(context, log, start)


def _title(context: dg.AssetExecutionContext) -> str:
    return f"run {context.run.run_id}, started by process {os.getpid()}"


def policy_result(trained: TrainedRun) -> dg.MaterializeResult[None]:
    """The materialization of a policy: metadata for the UI, and a data version."""
    run, experiment, outcome = trained.run, trained.run.experiment, trained.outcome
    config = RunFolder(run.folder).config
    curves = read_parquet(outcome.curves)
    metadata: dict[str, Any] = {
        "rewards": dg.MetadataValue.md(training_curve(curves)),
        "before and after": dg.MetadataValue.md(_before_and_after(outcome, curves)),
        "experiment": experiment.title,
        "reproduces": experiment.paper or "nothing of the paper",
        "adapter": dg.MetadataValue.path(str(outcome.adapter)),
        "run": run.key,
        "base": run.base,
        "steps": outcome.steps,
        "attempts": len(read_attempts(run.folder)) or 1,
        "resumed from step": outcome.resumed_from,
        "stopped early": outcome.stopped or "no",
        "learning curves": picture(training_png(curves)),
        "curves file": dg.MetadataValue.path(str(outcome.curves)),
        "wall time": duration(sum(outcome.seconds.values())),
        "wall time by phase": dg.MetadataValue.md(seconds_markdown(outcome.seconds)),
        "judge": dg.MetadataValue.json(_plain(outcome.judge)),
        "recipe": dg.MetadataValue.json(plain_values(experiment)),
        "resolved config": dg.MetadataValue.json(_config(config)),
        "library versions": dg.MetadataValue.json(_plain(outcome.versions)),
        "dry run": dg.MetadataValue.md(str(trained.dry_run.get("markdown", "none"))),
        **_numbers(outcome),
    }
    version = dg.DataVersion(_version(outcome))
    return dg.MaterializeResult(metadata=rounded(metadata), data_version=version)


def _before_and_after(outcome: TrainingOutcome, curves: pl.DataFrame) -> str:
    first, last = ends(curves, max(outcome.steps // _ENDS, 1))
    return changes_markdown(changes({**outcome.before, **first}, {**outcome.after, **last}))


def _numbers(outcome: TrainingOutcome) -> dict[str, float]:
    """Held-out measures as numbers, which the UI plots across materializations."""
    return {
        f"{key.replace('_', ' ')} {end}": value
        for end, measures in (("before", outcome.before), ("after", outcome.after))
        for key, value in measures.items()
    }


def _version(outcome: TrainingOutcome) -> str:
    """Over the adapter's weights and the curves."""
    weights = outcome.adapter / _WEIGHTS if outcome.adapter.is_dir() else outcome.adapter
    both = file_sha256(weights) + file_sha256(outcome.curves)
    return hashlib.sha256(both.encode()).hexdigest()


def _config(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def _plain(values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return json.loads(json.dumps(dict(values), default=str))
