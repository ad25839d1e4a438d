"""Checks and estimates before a training run spends its first step.

The tokenizer is loaded and every prompt measured. Every endpoint that the run will use is asked:
the judge gets one harmless call, the embedder of questions one text, a vLLM server that samples is
asked for its model. Disk and GPU are checked, and batches, judge calls, memory and hours are
estimated. No weights of the policy are loaded, and nothing is written but stored replies.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from uuid import uuid4

import polars as pl

from decomposerl.chat import Price
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall
from decomposerl.ports import Embedder
from decomposerl.reports.readiness import ReadinessCheck
from decomposerl.reports.training_plan import DryRun, judging_cost
from decomposerl.rewards.composite import active_rewards
from decomposerl.training.estimate import (
    ClaimFacts,
    JudgeTokens,
    RunEstimate,
    batch_problems,
    calls_per_rollout,
    disk_bytes,
    estimate_run,
)
from decomposerl.training.memory import MemoryEstimate, ModelShape, estimate_memory, shape_of
from decomposerl.training.token_report import ALL, LENGTHS, TokenReport, token_report
from resources.preflight.probes import disk, sampler, vllm_check
from resources.preflight.workload import claim_facts
from resources.training.data import training_prompts
from resources.training.process import TrainingRun

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class DryRunFacts:
    """Facts besides the run: the judge's price and speed, a step's seconds, processes.

    ``tokens_per_s`` is the judge's on one card of yours; None for a paid or foreign server.
    """

    price: Price | None = None
    tokens_per_s: float | None = None
    judge_tokens: JudgeTokens | None = None
    seconds_per_step: float | None = None
    processes: int = 1


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
        *([shape] if isinstance(shape, ReadinessCheck) else []),
        _judge(run, judge, claims),
        *([] if embedder is None else [_questions(run, embedder)]),
        *_sampler(run),
        disk(run.folder, round(sum(needed.values()) / _GIB, 2)),
        *_gpu(run, memory),
        *_vllm(run),
    )
    return DryRun(
        experiment=run.experiment.name,
        findings=findings,
        amounts=estimate,
        judging=judging_cost(estimate, judge.engine, facts.price, facts.tokens_per_s),
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
        tokenizer = AutoTokenizer.from_pretrained(run.base)
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


def _shape(run: TrainingRun) -> ModelShape | ReadinessCheck:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(run.base).to_dict()
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


def _judge(run: TrainingRun, judge: Judge, claims: ClaimFacts) -> ReadinessCheck:
    """The result of one call that no stored ruling can answer, so that the judge itself does."""
    engine = judge.engine
    if not sum(calls_per_rollout(run.experiment, claims.questions).values()):
        return ReadinessCheck(
            "judge", engine, "ok", "not called: no reward of the experiment is judged"
        )
    document = f"The note of the day is {uuid4().hex}."
    call = JudgeCall("answerability", document=document, question="What is the note of the day?")
    fix = "check DECOMPOSERL_JUDGE_URL and the server's log (docs/running-on-gpus.md)"
    try:
        (ruling,) = judge.judge([call])
    except EngineError as error:
        return ReadinessCheck("judge", engine, "missing", str(error), fix)
    if ruling.value is None:
        return ReadinessCheck("judge", engine, "missing", f"gave no ruling: {ruling.failure}", fix)
    return ReadinessCheck("judge", engine, "ok", "rules")


def _questions(run: TrainingRun, embedder: Embedder) -> ReadinessCheck:
    """The result of embedding one text whose vector cannot be stored already."""
    part, engine = "questions", embedder.engine
    if "diversity" not in {reward.name for reward in active_rewards(run.experiment.rewards)}:
        return ReadinessCheck(part, engine, "ok", "not embedded: no reward compares them")
    fix = "check DECOMPOSERL_QUESTIONS_URL and the server's log (docs/running-on-gpus.md)"
    try:
        vectors = embedder.embed([f"What is the note {uuid4().hex}?"])
    except (EngineError, ConfigError) as error:
        return ReadinessCheck(part, engine, "missing", str(error), fix)
    return ReadinessCheck(part, engine, "ok", f"vectors of {vectors.shape[1]:,} numbers")


def _sampler(run: TrainingRun) -> Iterator[ReadinessCheck]:
    if run.generation.engine == "vllm_server":
        sampling = run.experiment.sampling
        tokens = sampling.max_prompt_tokens + sampling.max_completion_tokens
        fix = "start it as in docs/running-on-gpus.md, or correct DECOMPOSERL_GENERATION_URL"
        yield sampler(run.generation.url, run.base, tokens, fix)


def _memory(run: TrainingRun, shape: ModelShape, processes: int) -> MemoryEstimate:
    on_gpu = run.device.startswith("cuda")
    return estimate_memory(shape, run.experiment, processes, checkpointing=on_gpu)


def _disk(
    run: TrainingRun, estimate: RunEstimate, shape: ModelShape | ReadinessCheck
) -> dict[str, int]:
    adapter = 0 if isinstance(shape, ReadinessCheck) else shape.adapter(run.experiment.lora)
    longest = float(run.experiment.sampling.max_completion_tokens)
    return dict(disk_bytes(estimate, adapter, longest, run.limits.checkpoints_kept))


def _gpu(run: TrainingRun, memory: MemoryEstimate | None) -> Iterator[ReadinessCheck]:
    if not run.device.startswith("cuda"):
        return
    import torch

    if not torch.cuda.is_available():
        fix = "run on a machine with a GPU, or set DECOMPOSERL_DEVICE=cpu"
        yield ReadinessCheck("GPU", run.device, "missing", "torch finds no card", fix)
        return
    free, whole = torch.cuda.mem_get_info(run.device)
    if run.generation.engine == "vllm_colocate":
        free -= round(run.generation.memory_share * whole)
    here = run.generation.engine == "transformers"
    needed = 0 if memory is None else memory.total if here else memory.updating
    detail = f"{free / _GIB:,.1f} GiB for training, about {needed / _GIB:,.1f} needed"
    if free < needed:
        fix = "free the card, or shorten prompts and completions"
        yield ReadinessCheck("GPU", run.device, "missing", detail, fix)
    else:
        yield ReadinessCheck("GPU", run.device, "ok", detail)


def _vllm(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """The trainer imports vLLM for both of its engines: beside it, and as a server."""
    if run.generation.engine == "transformers":
        return
    try:
        yield vllm_check(version("vllm"))
    except PackageNotFoundError:
        yield vllm_check(None)
