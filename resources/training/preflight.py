"""Checks and estimates before a training run spends its first step.

The tokenizer is loaded and every prompt measured. Every endpoint that the run will use is asked:
the judge gets one harmless call, the embedder of questions one text, a vLLM server that samples is
asked for its model. Disk and GPU are checked, and batches, judge calls, memory and hours are
estimated. No weights of the policy are loaded, and nothing is written but stored replies.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.reports.cost import Rate
from decomposerl.reports.readiness import ReadinessCheck
from decomposerl.reports.training_plan import DryRun, judging_cost
from decomposerl.training.estimate import (
    ClaimFacts,
    RunEstimate,
    batch_problems,
    disk_bytes,
    estimate_run,
)
from decomposerl.training.memory import (
    GRAPHS,
    MemoryEstimate,
    ModelShape,
    estimate_memory,
    shape_of,
)
from decomposerl.training.token_report import ALL, LENGTHS, TokenReport, token_report
from resources.preflight.probes import available_memory, disk
from resources.preflight.workload import claim_facts
from resources.store.integrity import read_parquet
from resources.training.data import training_prompts
from resources.training.engine_checks import (
    DryRunFacts,
    context_check,
    judge_check,
    memory_setting_checks,
    question_check,
    sampler_checks,
    vllm_checks,
)
from resources.training.process import TrainingRun

_GIB = 2**30


def dry_run(
    run: TrainingRun,
    judge: Judge,
    facts: DryRunFacts | None = None,
    embedder: Embedder | None = None,
) -> DryRun:
    """Everything that can be known about a run without training; no ``embedder`` is not asked.

    Raises:
        ConfigError: the policy's prompt file is malformed, or a weight names no reward.
    """
    facts = facts or DryRunFacts()
    claims = claim_facts(run.claims) or ClaimFacts(0, 0.0, 0.0, 0.0)
    estimate = estimate_run(run.experiment, claims, facts.judge_tokens, facts.seconds_per_step)
    lengths, shape = _lengths(run), _shape(run)
    memory = None if isinstance(shape, ReadinessCheck) else _memory(run, shape, facts.processes)
    needed = _disk(run, estimate, shape)
    findings = (
        *_batches(run, claims, facts.processes),
        *_prompts(run, lengths),
        *_held_out(run),
        *([shape] if isinstance(shape, ReadinessCheck) else []),
        judge_check(run, judge, claims),
        *context_check(run, facts, lengths),
        *([] if embedder is None else [question_check(run, embedder)]),
        *sampler_checks(run),
        disk(run.folder, round(sum(needed.values()) / _GIB, 2)),
        *_room(run, memory),
        *memory_setting_checks(run),
        *vllm_checks(run),
    )
    return DryRun(
        experiment=run.experiment.name,
        findings=findings,
        amounts=estimate,
        judging=judging_cost(estimate, judge.engine, Rate(facts.price, facts.tokens_per_s)),
        memory=memory,
        disk=needed,
        lengths=None if isinstance(lengths, ReadinessCheck) else lengths,
    )


def _batches(run: TrainingRun, claims: ClaimFacts, processes: int) -> Iterator[ReadinessCheck]:
    grpo = run.experiment.grpo
    wrong = batch_problems(grpo, processes)
    together = f"{grpo.global_batch} completions a step, groups of {grpo.group_size}"
    if wrong:
        yield ReadinessCheck(
            "batches", together, "missing", "; ".join(wrong), "change the experiment"
        )
    else:
        yield ReadinessCheck("batches", together, "ok", "they divide")
    per_step = grpo.global_batch // grpo.group_size
    if claims.claims < per_step:
        detail = f"{claims.claims} claims, and one step takes {per_step}"
        yield ReadinessCheck(
            "claims", run.claims.name, "missing", detail, "materialize a larger set"
        )


def _lengths(run: TrainingRun) -> TokenReport | ReadinessCheck:
    """The report on all prompts, also those that training will leave out."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(run.base, **run.base_revision)
    except (OSError, ValueError) as error:
        return _absent("tokenizer", run.base, error)
    sampling = run.experiment.sampling
    unlimited = replace(run.experiment, sampling=replace(sampling, max_prompt_tokens=sys.maxsize))
    rows = training_prompts(replace(run, experiment=unlimited), tokenizer).rows
    frame = pl.DataFrame([{name: row[name] for name in LENGTHS} for row in rows], LENGTHS)
    return token_report(frame, sampling.max_prompt_tokens)


def _prompts(run: TrainingRun, lengths: TokenReport | ReadinessCheck) -> Iterator[ReadinessCheck]:
    if isinstance(lengths, ReadinessCheck):
        yield lengths
        return
    yield ReadinessCheck("model", f"tokenizer of {run.base}", "ok", "loads")
    claims = sum(lengths.by_source.filter(pl.col("source") == ALL)["claims"])
    short = claims - lengths.too_long.height
    detail = f"{short:,} of {claims:,} within {lengths.limit:,} tokens"
    if short == claims:
        yield ReadinessCheck("prompts", run.claims.name, "ok", detail)
        return
    fix = "the others are left out; raise max_prompt_tokens to train on them"
    yield ReadinessCheck("prompts", run.claims.name, "note" if short else "missing", detail, fix)


def _held_out(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """Whether the pool had as many claims to hold out as the recipe wants."""
    wanted = run.experiment.held_out.claims
    if not wanted:
        return
    rows = read_parquet(run.held_out, ["claim_id"]).height if run.held_out else 0
    detail = f"{rows:,} of {wanted:,} claims"
    if rows >= wanted:
        yield ReadinessCheck("held-out claims", "silver_decomposed", "ok", detail)
        return
    fix = "the pool has too few that no training set holds; with none best_on_dev cannot choose"
    yield ReadinessCheck("held-out claims", "silver_decomposed", "note", detail, fix)


def _shape(run: TrainingRun) -> ModelShape | ReadinessCheck:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(run.base, **run.base_revision).to_dict()
        shape = shape_of(config)
    except (OSError, ValueError) as error:
        return _absent("configuration", run.base, error)
    except KeyError as error:
        detail = f"its memory cannot be estimated: no {error} in its configuration"
        return ReadinessCheck("model", run.base, "note", detail)
    sampling = run.experiment.sampling
    needed = sampling.max_prompt_tokens + sampling.max_completion_tokens
    limit = config.get("max_position_embeddings") or needed
    if limit < needed:
        detail = f"reads {limit:,} tokens; prompt and completion may have {needed:,}"
        return ReadinessCheck("model", run.base, "missing", detail, "lower the experiment's limits")
    return shape


def _absent(part: str, base: str, error: Exception) -> ReadinessCheck:
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ReadinessCheck("model", f"{part} of {base}", "missing", detail, f"hf download {base}")


def _memory(run: TrainingRun, shape: ModelShape, processes: int) -> MemoryEstimate:
    on_gpu = run.device.startswith("cuda")
    return estimate_memory(shape, run.experiment, processes, on_gpu=on_gpu, liger=run.liger)


def _disk(
    run: TrainingRun, estimate: RunEstimate, shape: ModelShape | ReadinessCheck
) -> dict[str, int]:
    adapter = 0 if isinstance(shape, ReadinessCheck) else shape.adapter(run.experiment.lora)
    longest = float(run.experiment.sampling.max_completion_tokens)
    return dict(disk_bytes(estimate, adapter, longest, run.limits.checkpoints_kept))


def _room(run: TrainingRun, memory: MemoryEstimate | None) -> Iterator[ReadinessCheck]:
    """The device's free memory, and what the run needs of it."""
    here = run.generation.engine == "transformers"
    needed = 0 if memory is None else memory.total if here else memory.updating
    if not run.device.startswith("cuda"):
        fix = "end other programs, or shorten prompts and completions or per_device_batch"
        if memory is not None:
            yield _enough("memory", run.device, available_memory(), needed, fix)
        return
    import torch

    if not torch.cuda.is_available():
        fix = "run on a machine with a GPU, or set DECOMPOSERL_MACHINE__DEVICE=cpu"
        yield ReadinessCheck("GPU", run.device, "missing", "torch finds no card", fix)
        return
    free, whole = torch.cuda.mem_get_info(run.device)
    fix = "free the card, or shorten prompts and completions"
    if run.generation.engine == "vllm_colocate":
        share = round(run.generation.memory_share * whole)
        if run.generation.sleep_mode and memory is not None:
            needed = max(round(needed + GRAPHS), memory.waiting + share)  # asleep, it keeps graphs
        else:
            free, fix = free - share, f"{fix}, or set sleep_mode: true"
    yield _enough("GPU", run.device, free, needed, fix)


def _enough(part: str, device: str, free: int, needed: int, fix: str) -> ReadinessCheck:
    detail = f"{free / _GIB:,.1f} GiB for training, about {needed / _GIB:,.1f} needed"
    if free < needed:
        return ReadinessCheck(part, device, "missing", detail, fix)
    return ReadinessCheck(part, device, "ok", detail)
