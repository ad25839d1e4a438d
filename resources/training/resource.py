"""The trainer as a Dagster resource: a run is written down, and a process of its own trains it.

Takes a ``TrainingRun`` and the context of an asset, gives what the process reported. It speaks
Dagster Pipes; its lines appear in the run's log as they come. The process frees a GPU's memory
when it ends, may have an environment of its own, and never outlives its starter
(``resources.process.child``).

Dagster's ``PipesSubprocessClient`` is not used: it leaves a child alone that takes longer than
its patience, and shows nothing of what a dead one printed.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from decomposerl.errors import TrainingError
from decomposerl.training.experiment import Experiment
from resources.process.child import run_watched
from resources.store.profile_defaults import ProfileDefaults
from resources.store.temporary import replace_file
from resources.training.messages import (
    DONE,
    DRY_RUN,
    last_of,
    meaning_of,
    outcome_among,
)
from resources.training.run import (
    Generation,
    GenerationEngine,
    RunLimits,
    TrainingOutcome,
    TrainingRun,
)
from resources.vllm.process import tail

_RUN_FILE, _LOG_FILE = "run.json", "worker.log"


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training process reported; ``dry_run`` is what it found before the first step."""

    run: TrainingRun
    outcome: TrainingOutcome
    dry_run: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Material:
    """What a run learns from: files of claims, base weights, a folder of prompts, and its key.

    ``folder`` is the run's own; ``notes`` another one, for what is written around it.
    """

    experiment: Experiment
    key: str
    claims: Path
    held_out: Path | None
    base: str
    prompts: str
    folder: Path
    notes: Path


class _Messages(dg.PipesTempFileMessageReader):
    """Messages of one process. Dagster's own property of this name warns that it is a preview."""

    @property
    def expected_writer_count(self) -> int:
        """How many processes write."""
        return 1


class PolicyTrainerResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """How a policy is trained on this machine; nothing here changes what is learned."""

    module: str = Field(description="Python module that trains: started with -m and --run FILE")
    python: str = Field(default="", description="interpreter; empty: this one")
    launch: list[str] = Field(
        default=[],
        description="words between interpreter and -m, for several GPUs: -m "
        "accelerate.commands.launch --config_file configs/accelerate/two_gpus.yaml",
    )
    device: str = Field(default="cpu", description="torch's name")
    threads: int = Field(default=1, ge=1, description="torch's threads")
    prompts_dir: str = Field(default="", description="folder of prompt files of one's own")
    generation: GenerationEngine = Field(
        default="transformers", description="what samples: in process, or vLLM beside or apart"
    )
    generation_url: str = Field(default="", description="vllm_server: its URL, without /v1")
    memory_share: float = Field(
        default=0.3, gt=0, le=1, description="vllm_colocate: of the card's memory"
    )
    paged: bool = Field(default=False, description="transformers: continuous batching")
    checkpoint_every: int = Field(default=50, ge=1, description="optimizer steps")
    checkpoints_kept: int = Field(default=2, ge=1, description="complete ones")
    most_judge_failures: float = Field(
        default=0.05, ge=0, le=1, description="share of judged scores without a ruling; ends it"
    )
    most_cycles: int = Field(default=40, ge=1, description="a longer trace is not judged")
    grace_s: float = Field(
        default=120, gt=0, description="seconds for a checkpoint when a run is cancelled"
    )

    def planned(self, material: Material, *, stop_unhealthy: bool) -> TrainingRun:
        """The run of some material on this machine."""
        return TrainingRun(
            experiment=material.experiment,
            key=material.key,
            claims=material.claims,
            base=material.base,
            folder=material.folder,
            held_out=material.held_out,
            prompts=material.prompts,
            device=self.device,
            threads=self.threads,
            generation=Generation(
                engine=self.generation,
                url=self.generation_url,
                memory_share=self.memory_share,
                paged=self.paged,
            ),
            limits=RunLimits(
                checkpoint_every=self.checkpoint_every,
                checkpoints_kept=self.checkpoints_kept,
                most_judge_failures=self.most_judge_failures,
                most_cycles=self.most_cycles,
                stop_unhealthy=stop_unhealthy,
            ),
        )

    def train(
        self,
        context: dg.AssetExecutionContext,
        run: TrainingRun,
        notes: Path,
        options: Sequence[str] = (),
    ) -> Trained:
        """Train in a process of its own, whose log is in ``notes``.

        Raises:
            TrainingError: the process ended before it was done; the message has its exit status
                and the last lines it printed.
        """
        log = notes / _LOG_FILE
        context.log.info(f"training in a process of its own; what it prints is in {log}")
        with dg.open_pipes_session(
            # With the asset's own context Dagster warns of a method that it calls itself.
            context=context.op_execution_context,
            context_injector=dg.PipesTempFileContextInjector(),
            message_reader=_Messages(),
        ) as session:
            pipes = [w for pair in session.get_bootstrap_cli_arguments().items() for w in pair]
            status = self._run(run, log, [*options, *pipes], context.run.run_id)
        if status != DONE:
            raise TrainingError(_story(f"ended with {meaning_of(status)}", log))
        messages = session.get_custom_messages()
        outcome = outcome_among(messages)
        if outcome is None:
            raise TrainingError(_story("ended without an outcome", log))
        dry = last_of(messages, DRY_RUN) or {}
        return Trained(run, outcome, dict(dry.get("report", {})))

    def look(self, context: dg.AssetExecutionContext, run: TrainingRun, notes: Path) -> str:
        """What the process finds before the first step, as a page; nothing is trained.

        A Pipes session would want a materialization, so the page is read from the log.

        Raises:
            TrainingError: it found a problem, or could not look.
        """
        log = notes / "dry_run.log"
        log.unlink(missing_ok=True)
        status = self._run(run, log, ["--dry-run-only"], context.run.run_id)
        if status != DONE:
            raise TrainingError(_story(f"ended with {meaning_of(status)}", log))
        return log.read_text("utf-8")

    def _run(self, run: TrainingRun, log: Path, options: Sequence[str], run_id: str) -> int:
        run_file = log.with_name(_RUN_FILE)
        replace_file(run_file, lambda path: path.write_text(run.to_json(), "utf-8"))
        words = [self.python or sys.executable, *self.launch, "-m", self.module]
        title = f"run {run_id}, started by process {os.getpid()}"
        return run_watched([*words, "--run", str(run_file), *options], log, self.grace_s, title)


def _story(what: str, log: Path) -> str:
    return f"the training process {what}. Its log is {log}, and ends:\n{tail(log)}"
