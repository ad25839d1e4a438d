"""Training a policy with GRPO on the reward ensemble (paper, section 4).

``train`` prepares a run, loops over its steps and concludes with a ``TrainingOutcome``; everything
else is in the run's folder (``training.run_store``). The same run started again continues exactly
from its last complete checkpoint, and does nothing once it is done. The caller opens judge and
embedder.
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Any

from decomposerl.errors import EngineError, RewardError, TrainingError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.progress import bar
from decomposerl.prompts.template import labels_of
from decomposerl.rewards.scoring import active_rewards
from decomposerl.training.experiment import Grpo, plain_values
from resources.hub.adapters import adapter_problem
from resources.training.data import (
    CompletionReader,
    Prompts,
    completion_reader,
    held_out_prompts,
    policy_prompt,
    training_prompts,
)
from resources.training.metrics_log import MetricsLog, judge_usage, seconds_spent
from resources.training.monitor import TrainingMonitor, step_callback
from resources.training.process import Report, TrainingOutcome, TrainingRun
from resources.training.reward_scoring import RewardScorer, broadcast_from_main, reward_functions
from resources.training.rollout_log import RolloutLog
from resources.training.run_store import begin_attempt, finished_outcome, write_json, write_outcome
from resources.training.safe_point import Interrupted, signals_interrupt
from resources.training.sampler import SamplerCheck
from resources.training.settings import grpo_arguments, lora_arguments
from resources.training.trl_hooks import (
    StepOrder,
    TrainerParts,
    end_tokens,
    policy_trainer,
    write_adapter,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl import GRPOTrainer

_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy", "polars")


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """The base with its tokenizer, and its prompts."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    reader: CompletionReader
    training: Prompts
    held_out: Prompts


def train(run: TrainingRun, judge: Judge, embedder: Embedder, report: Report) -> TrainingOutcome:
    """Train, from step 0 or from where the run with this key stopped.

    SIGTERM and SIGINT, a spent budget, an unreachable judge and the health rules end the run
    early, each with a checkpoint; the outcome has the reason.

    Raises:
        ConfigError: the recipe's batches do not divide, or a prompt file is malformed.
        TrainingError: too few claims can be used, the tokenizer drops the tags of a trace, or
            the run was ended before its first step.
    """
    done = finished_outcome(run)
    if done is not None:
        return done
    monitor = prepare(run, load_policy(run), judge, embedder, report)
    with signals_interrupt(monitor.safe_point):
        try:
            _loop(monitor)
        except (EngineError, RewardError, Interrupted) as stop:
            _abandon_step(monitor, stop)
        monitor.safe_point.updating = True  # what is left is short: signals wait until it is done
        return _conclude(monitor)


def load_policy(run: TrainingRun) -> LoadedPolicy:
    """Load base and tokenizer, and render every prompt.

    Raises:
        ConfigError: a prompt file is malformed.
        TrainingError: the tokenizer drops the tags of a trace.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(run.threads)
    tokenizer = AutoTokenizer.from_pretrained(run.base, padding_side="left", **run.base_revision)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = getattr(torch, run.experiment.lora.dtype)
    model = AutoModelForCausalLM.from_pretrained(run.base, dtype=dtype, **run.base_revision)
    labels = labels_of(run.experiment.verdict_rule)
    reader = completion_reader(tokenizer, end_tokens(model, tokenizer), labels)
    prompts = training_prompts(run, tokenizer), held_out_prompts(run, tokenizer)
    return LoadedPolicy(model, tokenizer, reader, *prompts)


def prepare(
    run: TrainingRun, policy: LoadedPolicy, judge: Judge, embedder: Embedder, report: Report
) -> TrainingMonitor:
    """Open the folder for one more attempt and set up the trainer, ready for its first step.

    Raises:
        ConfigError: the recipe's batches do not divide, or a weight names no reward.
        TrainingError: too few claims can be used, or a resumed run lost its first measures.
    """
    from accelerate import PartialState

    # The group of processes is made here, too early for ``ddp_timeout`` of ``GRPOConfig``.
    timeout = timedelta(seconds=run.limits.most_wait_s)
    process = PartialState(cpu=run.device == "cpu", timeout=timeout)
    claims = len(policy.training.rows)
    arguments = grpo_arguments(run, run.folder / "checkpoints", claims, process.num_processes)
    order = _order(run.experiment.grpo, arguments, claims)
    attempt = broadcast_from_main(process, lambda: begin_attempt(run))
    log = RolloutLog(run.folder, run.key, attempt.number)
    monitor = TrainingMonitor(
        run=run,
        attempt=attempt,
        metrics=MetricsLog(attempt.folder, log, run.experiment.name, process.is_main_process),
        scorer=RewardScorer(run.experiment, judge, embedder, log, run.limits.most_cycles),
        held_out=policy.held_out.rows,
        reader=policy.reader,
        report=report,
        sampler=SamplerCheck(run.limits.sampler_check_every),
    )
    _require_first_measures(monitor)
    monitor.trainer = _trainer(monitor, policy, order, arguments)
    if process.is_main_process:
        _write_config(monitor, policy)
    return monitor


def _require_first_measures(monitor: TrainingMonitor) -> None:
    """A resumed run must still have the measures from before its first step."""
    attempt = monitor.attempt
    if attempt.resumed_from and monitor.held_out and not monitor.metrics.held_out_at(0):
        raise TrainingError(
            f"{monitor.run.folder} would resume from step {attempt.resumed_from}, but its held-out "
            "measures of step 0 are lost, so the effect of training could not be measured: move "
            "the folder away to start from step 0"
        )


def _order(grpo: Grpo, arguments: Mapping[str, Any], claims: int) -> StepOrder:
    """The claims of every step; each process reads it once per micro-batch."""
    return StepOrder(
        claims=claims,
        claims_a_step=grpo.global_batch // grpo.group_size,
        group_size=grpo.group_size,
        steps=arguments["max_steps"],
        seed=arguments["data_seed"],
        iterations=grpo.iterations,
        reads=arguments["gradient_accumulation_steps"],
    )


def _trainer(
    monitor: TrainingMonitor,
    policy: LoadedPolicy,
    order: StepOrder,
    arguments: Mapping[str, Any],
) -> "GRPOTrainer":
    from peft import LoraConfig
    from trl import GRPOConfig

    run = monitor.run
    rewards = active_rewards(run.experiment.rewards)
    parts = TrainerParts(
        order=order,
        reader=policy.reader,
        scorer=monitor.scorer,
        rewards={},
        phases=monitor.phases,
        checkpoints=monitor.attempt.folder.checkpoints(run.limits.checkpoints_kept),
        sampler=monitor.sampler,
    )
    return policy_trainer(
        parts,
        model=policy.model,
        reward_funcs=reward_functions([one.name for one in rewards], parts.rewards),
        args=GRPOConfig(**arguments, reward_weights=[one.weight for one in rewards]),
        train_dataset=policy.training.dataset(),
        processing_class=policy.tokenizer,
        peft_config=LoraConfig(**lora_arguments(run.experiment.lora)),
        callbacks=[step_callback(monitor)],
    )


def _loop(monitor: TrainingMonitor) -> None:
    """Train until the last step, or until a rule ends the run."""
    checkpoint = monitor.attempt.checkpoint
    if checkpoint is None:
        write_adapter(monitor.trainer, monitor.attempt.folder.adapter_at(0))
    elif problem := adapter_problem(monitor.trainer.model, checkpoint.path, trained=False):
        raise TrainingError(f"{checkpoint.path} cannot be resumed: {problem}")
    done = monitor.attempt.resumed_from
    with bar("training", monitor.trainer.args.max_steps, "steps", done) as monitor.progress:
        monitor.trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint.path))


def _abandon_step(monitor: TrainingMonitor, stop: BaseException) -> None:
    """Return to the last safe point and save a checkpoint there."""
    trainer, monitor.stopped = monitor.trainer, str(stop)
    if monitor.safe_point.random is None:
        raise TrainingError(f"{monitor.stopped}, before the first step of this attempt") from stop
    # A signal reaches several processes at different steps: they resume from the last regular
    # checkpoint.
    if trainer.accelerator.num_processes > 1 and isinstance(stop, Interrupted):
        raise stop
    if monitor.safe_point.rewind(trainer.state) and trainer.state.global_step > 0:
        monitor.safe_point.updating = True  # from here on signals wait
        trainer._save_checkpoint(trainer.model, trial=None)  # noqa: SLF001 - transformers has no public name for it


def _conclude(monitor: TrainingMonitor) -> TrainingOutcome:
    """Write adapter, curves and outcome."""
    trainer, folder, metrics = monitor.trainer, monitor.attempt.folder, monitor.metrics
    write_adapter(trainer, folder.adapter)
    metrics.write()
    steps = trainer.state.global_step
    outcome = TrainingOutcome(
        steps=steps,
        resumed_from=monitor.attempt.resumed_from,
        stopped=monitor.stopped,
        adapter=folder.adapter,
        curves=folder.curves,
        before=metrics.held_out_at(0),
        after={} if monitor.stopped else metrics.held_out_at(steps),
        seconds=seconds_spent(folder.path),
        judge=judge_usage(folder.path, monitor.scorer.judge.engine),
        versions=versions(),
    )
    if trainer.accelerator.is_main_process:
        write_outcome(folder, outcome)
    return outcome


def versions() -> dict[str, str]:
    """The versions of the libraries that decide the result of a step."""
    libraries = {name: metadata.version(name) for name in _LIBRARIES}
    return {"python": platform.python_version()} | libraries


def _write_config(monitor: TrainingMonitor, policy: LoadedPolicy) -> None:
    """Write every setting of the run, as resolved by the trainer."""
    run, scorer = monitor.run, monitor.scorer
    config = {
        "key": run.key,
        "experiment": plain_values(run.experiment),
        "base": run.base,
        "revision": run.revision,
        "device": run.device,
        "prompt": policy_prompt(run).digest,
        "claims": {"used": len(policy.training.rows), "too_long": policy.training.left_out},
        "held_out": {"used": len(policy.held_out.rows), "too_long": policy.held_out.left_out},
        "engines": {"judge": scorer.judge.engine, "embedder": scorer.embedder.engine},
        "generation": asdict(run.generation),
        "limits": asdict(run.limits),
        "grpo": monitor.trainer.args.to_dict(),
        "lora": lora_arguments(run.experiment.lora),
        "versions": versions(),
    }
    write_json(monitor.attempt.folder.config, config)
