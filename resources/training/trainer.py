"""Training a policy with GRPO on the reward ensemble (paper, section 4).

Takes a ``TrainingRun``, judge and embedder, gives a ``TrainingOutcome``; everything else is in
the run's folder (``training.folder``). The same run started again goes on from its last complete
checkpoint as if it had never stopped, and does nothing once it is done.
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from decomposerl.errors import EngineError, RewardError, TrainingError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import weights_of
from decomposerl.training.experiment import Grpo, plain_values
from resources.training.batch import Reader, reader_of
from resources.training.callbacks import StepWatch, step_callback
from resources.training.data import (
    Prompts,
    held_out_prompts,
    policy_prompt,
    training_prompts,
)
from resources.training.distributed import from_first
from resources.training.held_out import HeldOutClaims
from resources.training.library_types import Model, Tokenizer, Trainer
from resources.training.metrics_log import CurveBook
from resources.training.order import StepOrder
from resources.training.policy_trainer import (
    Phases,
    Wiring,
    closing_trainer,
    end_tokens,
    policy_trainer,
    write_adapter,
)
from resources.training.reward_scoring import Evaluation
from resources.training.rewards import Scorer, SharedEvaluation, reward_functions
from resources.training.rollout_log import RolloutLog
from resources.training.run import Report, TrainingOutcome, TrainingRun
from resources.training.run_folder import begin, finished, write_json, write_outcome
from resources.training.stopping import Interrupted, SafePoint, signals_interrupt
from resources.training.totals import judge_usage, seconds_spent
from resources.training.trl_settings import grpo_arguments, lora_arguments

_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy", "polars")


@dataclass(frozen=True, slots=True)
class Policy:
    """The base with its tokenizer, and the prompts that it reads."""

    model: Model
    tokenizer: Tokenizer
    reader: Reader
    training: Prompts
    held_out: Prompts


def train(run: TrainingRun, judge: Judge, embedder: Embedder, report: Report) -> TrainingOutcome:
    """Train, from the beginning or from where the run with this key stopped.

    SIGTERM and SIGINT, a spent budget, a judge that cannot be asked and the health rules end
    the run early, each with a checkpoint; the outcome says why.

    Raises:
        ConfigError: the recipe's batches do not divide, or a prompt file is malformed.
        TrainingError: too few claims can be used, the tokenizer loses the tags of a trace, or
            the run was ended before its first step.
    """
    done = finished(run)
    if done is not None:
        return done
    watch = prepare(run, open_policy(run), judge, embedder, report)
    with closing_trainer(watch.trainer), signals_interrupt(watch.point):
        try:
            _go(watch)
        except (EngineError, RewardError, Interrupted) as stop:
            _give_up_step(watch, stop)
        watch.point.updating = True  # what is left is short, and done whatever may come
        return _conclude(watch)


def open_policy(run: TrainingRun) -> Policy:
    """Load base and tokenizer, and render every prompt.

    Raises:
        ConfigError: a prompt file is malformed.
        TrainingError: the tokenizer loses the tags of a trace.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(run.threads)
    tokenizer = AutoTokenizer.from_pretrained(run.base, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = getattr(torch, run.experiment.lora.dtype)
    model = AutoModelForCausalLM.from_pretrained(run.base, dtype=dtype)
    reader = reader_of(tokenizer, end_tokens(model, tokenizer))
    prompts = training_prompts(run, tokenizer), held_out_prompts(run, tokenizer)
    return Policy(model, tokenizer, reader, *prompts)


def prepare(
    run: TrainingRun, policy: Policy, judge: Judge, embedder: Embedder, report: Report
) -> StepWatch:
    """Open the folder for one more attempt and set up the trainer, ready for its first step.

    Raises:
        ConfigError: the recipe's batches do not divide, or a weight names no reward.
        TrainingError: too few claims can be used.
    """
    from accelerate import PartialState

    process, settings = PartialState(cpu=run.device == "cpu"), run.experiment.rewards
    claims = len(policy.training.rows)
    arguments = grpo_arguments(run, run.folder / "checkpoints", claims, process.num_processes)
    order = _order(run.experiment.grpo, arguments, claims)
    attempt = from_first(process, lambda: begin(run))
    log = RolloutLog(run.folder, run.key, attempt.number)
    scorer = Scorer(judge, embedder, settings, run.limits.most_cycles)
    samples = run.experiment.held_out.samples
    watch = StepWatch(
        run=run,
        attempt=attempt,
        book=CurveBook(attempt.folder, log, run.experiment.name, process.is_main_process),
        evaluation=Evaluation(run.experiment, scorer, log),
        claims=HeldOutClaims(policy.held_out.rows, samples, policy.reader, settings),
        phases=Phases(),
        point=SafePoint(),
        report=report,
    )
    _refuse_lost_beginning(watch)
    watch.trainer = _trainer(watch, policy, order, arguments)
    if process.is_main_process:
        _write_config(watch, policy)
    return watch


def _refuse_lost_beginning(watch: StepWatch) -> None:
    """A run that goes on must still have what it measured before its first step."""
    if watch.attempt.resumed_from and watch.claims.rows and not watch.book.held_out_at(0):
        raise TrainingError(
            f"{watch.run.folder} goes on from step {watch.attempt.resumed_from}, but its held-out "
            "measures of step 0 are lost, so nothing could tell what training changed: move the "
            "folder away to begin anew"
        )


def _order(grpo: Grpo, arguments: Mapping[str, Any], claims: int) -> StepOrder:
    """The claims of every step; each process reads it once a micro-batch."""
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
    watch: StepWatch, policy: Policy, order: StepOrder, arguments: Mapping[str, Any]
) -> Trainer:
    from peft import LoraConfig
    from trl import GRPOConfig

    experiment, evaluation = watch.run.experiment, watch.evaluation
    weights = {name: weight for name, weight in weights_of(experiment.rewards).items() if weight}
    shared = SharedEvaluation(evaluation.amounts)
    kept = watch.run.limits.checkpoints_kept
    wiring = Wiring(
        order=order,
        reader=policy.reader,
        evaluate=evaluation.amounts,
        shared=shared,
        phases=watch.phases,
        checkpoints=watch.attempt.folder.checkpoints(kept),
    )
    return policy_trainer(
        wiring,
        model=policy.model,
        reward_funcs=reward_functions(list(weights), shared, policy.reader),
        args=GRPOConfig(**arguments, reward_weights=list(weights.values())),
        train_dataset=policy.training.dataset(),
        processing_class=policy.tokenizer,
        peft_config=LoraConfig(**lora_arguments(experiment.lora)),
        callbacks=[step_callback(watch)],
    )


def _go(watch: StepWatch) -> None:
    """Train until the last step, or until a rule ends it."""
    checkpoint = watch.attempt.checkpoint
    if checkpoint is None:
        write_adapter(watch.trainer, watch.attempt.folder.first_adapter)
    watch.trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint.path))


def _give_up_step(watch: StepWatch, stop: BaseException) -> None:
    """Save the state between two steps in which the run can be taken up again.

    A signal meets several processes at different points; they go on from the last regular
    checkpoint.
    """
    trainer, watch.stopped = watch.trainer, str(stop)
    if watch.point.random is None:
        raise TrainingError(f"{watch.stopped}, before the first step of this attempt") from stop
    alone = trainer.accelerator.num_processes == 1
    if not alone and isinstance(stop, Interrupted):
        raise stop
    if watch.point.go_back(trainer.state) and trainer.state.global_step > 0:
        watch.point.updating = True  # from here on signals wait
        trainer._save_checkpoint(trainer.model, trial=None)  # noqa: SLF001 - transformers has no public name for it


def _conclude(watch: StepWatch) -> TrainingOutcome:
    """Write adapter, curves and outcome."""
    trainer, folder, book = watch.trainer, watch.attempt.folder, watch.book
    write_adapter(trainer, folder.adapter)
    book.write()
    steps = trainer.state.global_step
    outcome = TrainingOutcome(
        steps=steps,
        resumed_from=watch.attempt.resumed_from,
        stopped=watch.stopped,
        adapter=folder.adapter,
        curves=folder.curves,
        before=book.held_out_at(0),
        after={} if watch.stopped else book.held_out_at(steps),
        seconds=seconds_spent(folder.path),
        judge=judge_usage(folder.path, watch.evaluation.scorer.judge.engine),
        versions=versions(),
    )
    if trainer.accelerator.is_main_process:
        write_outcome(folder, outcome)
    return outcome


def versions() -> dict[str, str]:
    """The libraries that decide what a step does."""
    found = {name: metadata.version(name) for name in _LIBRARIES}
    return {"python": platform.python_version()} | found


def _write_config(watch: StepWatch, policy: Policy) -> None:
    """Everything that the run was told, as the trainer finally understood it."""
    run, scorer = watch.run, watch.evaluation.scorer
    config = {
        "key": run.key,
        "experiment": plain_values(run.experiment),
        "base": run.base,
        "device": run.device,
        "prompt": policy_prompt(run).digest,
        "claims": {"used": len(policy.training.rows), "too_long": policy.training.left_out},
        "held_out": {"used": len(policy.held_out.rows), "too_long": policy.held_out.left_out},
        "engines": {"judge": scorer.judge.engine, "embedder": scorer.embedder.engine},
        "generation": asdict(run.generation),
        "limits": asdict(run.limits),
        "grpo": watch.trainer.args.to_dict(),
        "lora": lora_arguments(run.experiment.lora),
        "versions": versions(),
    }
    write_json(watch.attempt.folder.config, config)
