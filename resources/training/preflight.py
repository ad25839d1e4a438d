"""Checks and estimates before a training run spends its first step.

The tokenizer is loaded and every prompt measured. Every endpoint that the run will use is asked:
the judge gets one harmless call, the embedder of questions one text, a vLLM server that samples is
asked for its model. Disk and GPU are checked, and batches, judge calls, memory and hours are
estimated. No weights of the policy are loaded, and nothing is written but stored replies.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from uuid import uuid4

import polars as pl

from decomposerl.chat import Price
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall
from decomposerl.ports import Embedder
from decomposerl.reports.cost import Rate
from decomposerl.reports.readiness import ReadinessCheck, State
from decomposerl.reports.training_plan import DryRun, judging_cost
from decomposerl.rewards.scoring import active_rewards
from decomposerl.training.estimate import (
    ClaimFacts,
    JudgeTokens,
    RunEstimate,
    batch_problems,
    calls_per_rollout,
    disk_bytes,
    estimate_run,
    longest_judge_calls,
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
from resources.preflight.servers import sampler, vllm_check
from resources.preflight.workload import claim_facts
from resources.store.integrity import read_parquet
from resources.training.data import training_prompts
from resources.training.process import TrainingRun

_GIB = 2**30
_LISTED = 5
_BATCH = 256  # texts that are tokenized at once


@dataclass(frozen=True, slots=True)
class DryRunFacts:
    """Facts besides the run: the judge's price, speed and limits, a step's seconds, processes.

    ``tokens_per_s`` is the judge's on one card of yours; None for a paid or foreign server.
    ``judge_context`` is the context in tokens that its server reports (None: it reports none), and
    ``judge_reply`` the most tokens that a reply may take of it.
    """

    price: Price | None = None
    tokens_per_s: float | None = None
    judge_tokens: JudgeTokens | None = None
    judge_context: int | None = None
    judge_reply: int = 0
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
        *_held_out(run),
        *([shape] if isinstance(shape, ReadinessCheck) else []),
        _judge_check(run, judge, claims),
        *_context_check(run, facts, lengths),
        *([] if embedder is None else [_question_check(run, embedder)]),
        *_sampler_checks(run),
        disk(run.folder, round(sum(needed.values()) / _GIB, 2)),
        *_room(run, memory),
        *memory_setting_checks(run),
        *_vllm_checks(run),
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
    fix = "the pool has too few that no training set holds; with none no step is measured on them"
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


def _judge_check(run: TrainingRun, judge: Judge, claims: ClaimFacts) -> ReadinessCheck:
    """The result of one call that no stored ruling can answer, so that the judge itself does."""
    engine = judge.engine
    if not sum(calls_per_rollout(run.experiment, claims.questions).values()):
        return ReadinessCheck(
            "judge", engine, "ok", "not called: no reward of the experiment is judged"
        )
    document = f"The note of the day has the number {uuid4().int % 10**9}."
    call = JudgeCall("answerability", document=document, question="What is the note of the day?")

    def asked() -> str:
        (ruling,) = judge.judge([call])
        if ruling.value is None:
            raise EngineError(f"gave no ruling: {ruling.failure}")
        return "rules"

    return _answered("judge", engine, "JUDGE", asked)


def _answered(part: str, engine: str, section: str, ask: Callable[[], str]) -> ReadinessCheck:
    """Whether an engine answers, and how."""
    fix = f"check DECOMPOSERL_{section}__BASE_URL and the server's log (docs/how-to/gpus.md)"
    try:
        return ReadinessCheck(part, engine, "ok", ask())
    except (EngineError, ConfigError) as error:
        return ReadinessCheck(part, engine, "missing", str(error), fix)


def _context_check(
    run: TrainingRun, facts: DryRunFacts, lengths: TokenReport | ReadinessCheck
) -> Iterator[ReadinessCheck]:
    """Whether the judge reads its longest calls about the claims of the run.

    Counted in the policy's tokens. A call that is too long is refused, and one refused call costs
    its group the reward.
    """
    if facts.judge_context is None or isinstance(lengths, ReadinessCheck):
        return
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run.base, **run.base_revision)
    claims = read_parquet(run.claims, ["claim_id", "evidence"])
    used = claims.join(lengths.too_long, on="claim_id", how="anti")
    ids, texts = used["claim_id"].to_list(), used["evidence"].to_list()
    batches = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
    tokens = [len(one) for batch in batches for one in tokenizer(batch)["input_ids"]]
    what = f"context of {facts.judge_context:,} tokens"
    states: dict[int, State] = {0: "missing", run.experiment.sampling.max_completion_tokens: "note"}
    for trace, state in states.items():
        needs = longest_judge_calls(tokens, trace, facts.judge_reply, facts.judge_tokens)
        over = {i: need for i, need in zip(ids, needs, strict=True) if need > facts.judge_context}
        if over:
            detail, fix = _too_long(over, trace, facts.judge_reply)
            yield ReadinessCheck("judge", what, state, detail, fix)
            return
    yield ReadinessCheck("judge", what, "ok", f"the longest call takes {max(needs, default=0):,}")


def _too_long(over: Mapping[str, int], trace: int, reply: int) -> tuple[str, str]:
    """What does not fit, longest first, and what to do about it."""
    longest = sorted(over, key=lambda one: (-over[one], one))
    named = ", ".join(f"{one} ({over[one]:,})" for one in longest[:_LISTED])
    with_trace = f"with a trace of {trace:,} tokens, " if trace else ""
    detail = (
        f"{with_trace}calls do not fit about {len(over):,} of the claims, with {reply:,} tokens "
        f"for the reply: {named}"
    )
    fix = (
        f"start the judge with --max-model-len {over[longest[0]]} or more, or lower its token "
        "limits (docs/how-to/gpus.md)"
    )
    return detail, fix


def _question_check(run: TrainingRun, embedder: Embedder) -> ReadinessCheck:
    """The result of embedding one text whose vector cannot be stored already."""
    part, engine = "questions", embedder.engine
    if "diversity" not in {reward.name for reward in active_rewards(run.experiment.rewards)}:
        return ReadinessCheck(part, engine, "ok", "not embedded: no reward compares them")
    text = f"What is the note {uuid4().hex}?"
    return _answered(
        part,
        engine,
        "QUESTIONS",
        lambda: f"vectors of {embedder.embed([text]).shape[1]:,} numbers",
    )


def _sampler_checks(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """The vLLM server that samples, where there is one."""
    if run.generation.engine == "vllm_server":
        sampling = run.experiment.sampling
        tokens = sampling.max_prompt_tokens + sampling.max_completion_tokens
        fix = "start it as in docs/how-to/gpus.md, or correct DECOMPOSERL_TRAINING__GENERATION_URL"
        yield sampler(run.generation.url, run.base, tokens, fix)


def memory_setting_checks(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """Settings that save memory, where they cannot work; TRL ignores the first one silently."""
    part, engine = "memory", run.generation.engine
    if run.generation.sleep_mode and engine != "vllm_colocate":
        detail = f"only vLLM in the trainer sleeps, and {engine} samples"
        fix = "set generation: vllm_colocate, or sleep_mode: false"
        yield ReadinessCheck(part, "sleep_mode", "missing", detail, fix)
    if run.liger and not run.device.startswith("cuda"):
        detail = f"its kernels need a GPU, and the device is {run.device}"
        yield ReadinessCheck(part, "liger", "missing", detail, "set liger: false")
    elif run.liger and find_spec("liger_kernel") is None:
        detail = "liger-kernel is not installed"
        yield ReadinessCheck(part, "liger", "missing", detail, "pip install liger-kernel")


def _vllm_checks(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """The trainer imports vLLM for both of its engines: beside it, and as a server."""
    if run.generation.engine == "transformers":
        return
    try:
        yield vllm_check(version("vllm"))
    except PackageNotFoundError:
        yield vllm_check(None)
