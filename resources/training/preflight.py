"""Looks whether a training run can go well, before a step of it is spent.

Takes a ``TrainingRun`` and its judge, gives a ``DryRun``: the tokenizer is loaded and every
prompt measured, the judge is asked one harmless question, disk and GPU are looked at, and
batches, judge calls, memory and hours are reckoned. No weights are loaded and nothing is
written.

Left out deliberately: what is done about problems (whoever starts the run decides).
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import polars as pl

from decomposerl.chat import Price
from decomposerl.errors import EngineError
from decomposerl.judge.call import Judge, JudgeCall
from decomposerl.reports.readiness import Finding
from decomposerl.reports.training_plan import DryRun, judging_cost
from decomposerl.training.estimate import (
    Amounts,
    ClaimFacts,
    JudgeTokens,
    amounts,
    calls_a_rollout,
    disk_bytes,
    divisibility,
)
from decomposerl.training.memory import Memory, ModelShape, memory_of, shape_of
from decomposerl.training.token_report import ALL, LENGTHS, TokenReport, token_report
from resources.preflight.probes import disk
from resources.preflight.workload import claim_facts
from resources.training.data import training_prompts
from resources.training.run import TrainingRun

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides the run: the judge's price and speed, a step's seconds, processes.

    ``tokens_per_s`` is the judge's on one card of ours; None where money or others' cards pay.
    """

    price: Price | None = None
    tokens_per_s: float | None = None
    judge_tokens: JudgeTokens | None = None
    seconds_per_step: float | None = None
    processes: int = 1


def dry_run(run: TrainingRun, judge: Judge, known: Known | None = None) -> DryRun:
    """Everything that can be known about a run without training.

    Raises:
        ConfigError: the policy's prompt file is malformed, or a weight names no reward.
    """
    told = known or Known()
    facts = claim_facts(run.claims) or ClaimFacts(0, 0.0, 0.0, 0.0)
    found = amounts(run.experiment, facts, told.judge_tokens, told.seconds_per_step)
    lengths, shape = _lengths(run), _shape(run)
    memory = None if isinstance(shape, Finding) else _memory(run, shape, told.processes)
    needed = _disk(run, found, shape)
    findings = (
        *_batches(run, facts, told.processes),
        *_prompts(run, lengths),
        *([shape] if isinstance(shape, Finding) else []),
        _judge(run, judge, facts),
        disk(run.folder, round(sum(needed.values()) / _GIB, 2)),
        *_gpu(run, memory),
    )
    return DryRun(
        experiment=run.experiment.name,
        findings=findings,
        amounts=found,
        judging=judging_cost(found, judge.engine, told.price, told.tokens_per_s),
        memory=memory,
        disk=needed,
        lengths=None if isinstance(lengths, Finding) else lengths,
    )


def _batches(run: TrainingRun, facts: ClaimFacts, processes: int) -> Iterator[Finding]:
    grpo = run.experiment.grpo
    wrong = divisibility(grpo, processes)
    together = f"{grpo.global_batch} completions a step, groups of {grpo.group_size}"
    if wrong:
        yield Finding("batches", together, "missing", "; ".join(wrong), "change the experiment")
    else:
        yield Finding("batches", together, "ok", "they divide")
    a_step = grpo.global_batch // grpo.group_size
    if facts.claims < a_step:
        said = f"{facts.claims} claims, and one step takes {a_step}"
        yield Finding("claims", run.claims.name, "missing", said, "materialize a larger set")


def _tokenizer(run: TrainingRun) -> Any:  # noqa: ANN401 - the library has no common type
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(run.base)


def _lengths(run: TrainingRun) -> TokenReport | Finding:
    """The report on all prompts, also those that training will leave out."""
    try:
        tokenizer = _tokenizer(run)
    except (OSError, ValueError) as error:
        return _absent("tokenizer", run.base, error)
    sampling = run.experiment.sampling
    endless = replace(run.experiment, sampling=replace(sampling, max_prompt_tokens=sys.maxsize))
    rows = training_prompts(replace(run, experiment=endless), tokenizer).rows
    frame = pl.DataFrame([{name: row[name] for name in LENGTHS} for row in rows], LENGTHS)
    return token_report(frame, sampling.max_prompt_tokens)


def _prompts(run: TrainingRun, lengths: TokenReport | Finding) -> Iterator[Finding]:
    if isinstance(lengths, Finding):
        yield lengths
        return
    yield Finding("model", f"tokenizer of {run.base}", "ok", "loads")
    claims = sum(lengths.by_source.filter(pl.col("source") == ALL)["claims"])
    short = claims - lengths.too_long.height
    said = f"{short:,} of {claims:,} within {lengths.limit:,} tokens"
    if short == claims:
        yield Finding("prompts", run.claims.name, "ok", said)
        return
    mend = "the others are left out; raise max_prompt_tokens to train on them"
    yield Finding("prompts", run.claims.name, "note" if short else "missing", said, mend)


def _shape(run: TrainingRun) -> ModelShape | Finding:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(run.base).to_dict()
        shape = shape_of(config)
    except (OSError, ValueError) as error:
        return _absent("configuration", run.base, error)
    except KeyError as error:
        said = f"its memory cannot be reckoned: no {error} in its configuration"
        return Finding("model", run.base, "note", said)
    sampling = run.experiment.sampling
    asked = sampling.max_prompt_tokens + sampling.max_completion_tokens
    most = config.get("max_position_embeddings") or asked
    if most < asked:
        said = f"reads {most:,} tokens; prompt and completion may have {asked:,}"
        return Finding("model", run.base, "missing", said, "lower the experiment's limits")
    return shape


def _absent(part: str, base: str, error: Exception) -> Finding:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Finding("model", f"{part} of {base}", "missing", said, f"hf download {base}")


def _judge(run: TrainingRun, judge: Judge, facts: ClaimFacts) -> Finding:
    """One call that no stored ruling can answer, so that the judge itself does."""
    engine = judge.engine
    if not sum(calls_a_rollout(run.experiment, facts.questions).values()):
        return Finding("judge", engine, "ok", "not asked: no reward of the experiment is judged")
    document = f"The note of the day is {uuid4().hex}."
    call = JudgeCall("answerability", document=document, question="What is the note of the day?")
    mend = "look at DECOMPOSERL_JUDGE_URL and at the server's log (docs/running-on-gpus.md)"
    try:
        (ruling,) = judge.judge([call])
    except EngineError as error:
        return Finding("judge", engine, "missing", str(error), mend)
    if ruling.value is None:
        said = f"gave no ruling: {ruling.failure}"
        return Finding("judge", engine, "missing", said, mend)
    return Finding("judge", engine, "ok", "rules")


def _memory(run: TrainingRun, shape: ModelShape, processes: int) -> Memory:
    on_gpu = run.device.startswith("cuda")
    return memory_of(shape, run.experiment, processes, checkpointing=on_gpu)


def _disk(run: TrainingRun, found: Amounts, shape: ModelShape | Finding) -> dict[str, int]:
    adapter = 0 if isinstance(shape, Finding) else shape.adapter(run.experiment.lora)
    longest = float(run.experiment.sampling.max_completion_tokens)
    return dict(disk_bytes(found, adapter, longest, run.limits.checkpoints_kept))


def _gpu(run: TrainingRun, memory: Memory | None) -> Iterator[Finding]:
    if not run.device.startswith("cuda"):
        return
    import torch

    if not torch.cuda.is_available():
        mend = "run on a machine with a GPU, or set DECOMPOSERL_DEVICE=cpu"
        yield Finding("GPU", run.device, "missing", "torch finds no card", mend)
        return
    free, whole = torch.cuda.mem_get_info(run.device)
    if run.generation.engine == "vllm_colocate":
        free -= round(run.generation.memory_share * whole)
    needed = 0 if memory is None else memory.total
    said = f"{free / _GIB:,.1f} GiB for training, about {needed / _GIB:,.1f} needed"
    if free < needed:
        mend = "free the card, or shorten prompts and completions"
        yield Finding("GPU", run.device, "missing", said, mend)
    else:
        yield Finding("GPU", run.device, "ok", said)
