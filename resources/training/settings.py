"""A recipe in the terms of TRL and peft.

The keyword arguments of ``trl.GRPOConfig`` and ``peft.LoraConfig`` for a ``TrainingRun``. Every
argument is explicit that the recipe decides, whose default TRL has changed between versions, or
that would change the result. The trainer adds ``reward_weights``.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

from decomposerl.errors import ConfigError
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiment import Experiment, Lora, steps_of
from resources.training.process import Generation, TrainingRun


def grpo_arguments(
    run: TrainingRun, folder: Path, claims: int, processes: int = 1
) -> dict[str, Any]:
    """All keyword arguments of ``trl.GRPOConfig`` for a run on ``claims`` training claims.

    ``folder`` receives the checkpoints; ``processes`` is the number of parallel trainers
    (accelerate's ``num_processes``).

    Raises:
        ConfigError: the batches do not divide; the message lists every problem.
    """
    problems = batch_problems(run.experiment.grpo, processes)
    if problems:
        raise ConfigError(f"experiment '{run.experiment.name}': {'; '.join(problems)}")
    return (
        _batches(run, claims, processes)
        | _loss(run.experiment)
        | _optimizer(run)
        | _sampling(run.experiment)
        | _generation(run.generation, run.experiment)
        | _device(run)
        | _records(run, folder)
    )


def lora_arguments(lora: Lora) -> dict[str, Any]:
    """All keyword arguments of ``peft.LoraConfig``."""
    return {
        "task_type": "CAUSAL_LM",
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "target_modules": list(lora.projections),
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "modules_to_save": None,
    }


def _batches(run: TrainingRun, claims: int, processes: int) -> dict[str, Any]:
    """One generation per optimizer step: ``steps_per_generation`` is the accumulation."""
    experiment, grpo = run.experiment, run.experiment.grpo
    accumulation = grpo.global_batch // (grpo.per_device_batch * processes)
    return {
        "max_steps": steps_of(experiment, claims),
        "num_train_epochs": experiment.optimization.epochs,  # max_steps overrides it
        "per_device_train_batch_size": grpo.per_device_batch,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": accumulation,
        "num_generations": grpo.group_size,
        "num_iterations": grpo.iterations,
        "seed": experiment.seed,
        "data_seed": experiment.seed,
        "shuffle_dataset": True,
        "remove_unused_columns": False,  # the rewards read claim, evidence and label
        "dataloader_num_workers": 0,
        "ddp_find_unused_parameters": False,  # every weight of the adapter is in every loss
        "ddp_timeout": run.limits.most_wait_s,
        "eval_strategy": "no",  # held-out claims are sampled by our own callback
    }


def _loss(experiment: Experiment) -> dict[str, Any]:
    grpo = experiment.grpo
    return {
        "loss_type": grpo.loss,  # TRL's default moved from grpo to bnpo to dapo
        "beta": grpo.beta,  # was 0.04
        "epsilon": grpo.epsilon,
        "epsilon_high": grpo.epsilon_high,
        "delta": None,
        "importance_sampling_level": "token",
        "scale_rewards": grpo.scale_rewards,
        "multi_objective_aggregation": grpo.aggregation,
        "mask_truncated_completions": grpo.mask_truncated,  # TRL: off
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "off_policy_mask_threshold": None,
        "sync_ref_model": False,
        "disable_dropout": False,  # Qwen2.5 has none, the adapter's is in the recipe
        "cast_lm_head_to_fp32": False,
        "average_tokens_across_devices": True,
    }


def _optimizer(run: TrainingRun) -> dict[str, Any]:
    chosen = run.experiment.optimization
    return {
        "optim": "adamw_torch_fused" if _on_gpu(run) else "adamw_torch",
        "learning_rate": chosen.learning_rate,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": chosen.least_learning_rate},
        "warmup_steps": chosen.warmup_ratio,  # below 1 it is a share of the steps
        "weight_decay": chosen.weight_decay,
        "max_grad_norm": chosen.max_grad_norm,
        "adam_beta1": chosen.adam_beta1,
        "adam_beta2": chosen.adam_beta2,
        "adam_epsilon": chosen.adam_epsilon,
    }


def _sampling(experiment: Experiment) -> dict[str, Any]:
    sampling = experiment.sampling
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,  # was 50 once
        "min_p": None,
        "repetition_penalty": 1.0,
        "max_completion_length": sampling.max_completion_tokens,  # TRL: 512
        "generation_kwargs": None,
        "chat_template_kwargs": None,
    }


def _generation(generation: Generation, experiment: Experiment) -> dict[str, Any]:
    sampling = experiment.sampling
    on_vllm = generation.engine != "transformers"
    return {
        "use_vllm": on_vllm,
        "vllm_mode": "server" if generation.engine == "vllm_server" else "colocate",
        "vllm_server_base_url": generation.url or None,
        "vllm_gpu_memory_utilization": generation.memory_share,
        "vllm_max_model_length": sampling.max_prompt_tokens + sampling.max_completion_tokens,
        "vllm_tensor_parallel_size": 1,
        "vllm_enable_sleep_mode": generation.sleep_mode,
        "vllm_importance_sampling_correction": generation.importance_correction,
        "vllm_importance_sampling_mode": "sequence_mask",  # was token_truncate, with a cap of 2
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": None,
        # Did not end on a card, and would cast the adapter to bfloat16, where steps of 5e-6 vanish.
        "use_transformers_continuous_batching": False,
        "cache_implementation": None,
    }


def _device(run: TrainingRun) -> dict[str, Any]:
    """Mixed precision follows the base; the adapter's own weights stay in float32."""
    return {
        "use_cpu": not _on_gpu(run),
        "bf16": run.experiment.lora.dtype == "bfloat16",  # TRL: on, whatever the weights are
        "fp16": False,
        _checkpointing(): _on_gpu(run),  # TRL: on; a tiny model fits without
        "dataloader_pin_memory": _on_gpu(run),
        "torch_compile": False,
        "use_liger_kernel": run.liger,  # of a layer: the logits are TRL's own tiles either way
    }


def _records(run: TrainingRun, folder: Path) -> dict[str, Any]:
    """One log entry per step, checkpoints by steps; sent nowhere but to the run's tracker."""
    return {
        "output_dir": str(folder),
        "save_strategy": "steps",
        "save_steps": run.limits.checkpoint_every,
        "save_total_limit": run.limits.checkpoints_kept,
        "save_only_model": False,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "log_completions": False,
        "disable_tqdm": True,
        "report_to": run.report_to,
        "run_name": run.experiment.name,
        "project": "decomposerl",  # of trackio; wandb reads WANDB_PROJECT
        "push_to_hub": False,
    }


def _on_gpu(run: TrainingRun) -> bool:
    return run.device.startswith("cuda")


def _checkpointing() -> str:
    """The argument's name: transformers renamed it, and warns about the old name."""
    from transformers import TrainingArguments

    names = {field.name for field in fields(TrainingArguments)}
    new = "activation_checkpointing"
    return new if new in names else "gradient_checkpointing"
