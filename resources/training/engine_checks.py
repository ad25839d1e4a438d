"""Whether the engines that a training run asks are there: judge, embedder of questions, vLLM.

Judge and embedder get one harmless request that no stored result can answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from uuid import uuid4

from decomposerl.chat import Price
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall
from decomposerl.ports import Embedder
from decomposerl.reports.readiness import ReadinessCheck, State
from decomposerl.rewards.composite import active_rewards
from decomposerl.training.estimate import (
    ClaimFacts,
    JudgeTokens,
    calls_per_rollout,
    longest_judge_calls,
)
from decomposerl.training.token_report import TokenReport
from resources.preflight.servers import sampler, vllm_check
from resources.store.integrity import read_parquet
from resources.training.process import TrainingRun

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


def judge_check(run: TrainingRun, judge: Judge, claims: ClaimFacts) -> ReadinessCheck:
    """The result of one call that no stored ruling can answer, so that the judge itself does."""
    engine = judge.engine
    if not sum(calls_per_rollout(run.experiment, claims.questions).values()):
        return ReadinessCheck(
            "judge", engine, "ok", "not called: no reward of the experiment is judged"
        )
    document = f"The note of the day has the number {uuid4().int % 10**9}."
    call = JudgeCall("answerability", document=document, question="What is the note of the day?")
    fix = "check DECOMPOSERL_JUDGE_URL and the server's log (docs/how-to/gpus.md)"
    try:
        (ruling,) = judge.judge([call])
    except EngineError as error:
        return ReadinessCheck("judge", engine, "missing", str(error), fix)
    if ruling.value is None:
        return ReadinessCheck("judge", engine, "missing", f"gave no ruling: {ruling.failure}", fix)
    return ReadinessCheck("judge", engine, "ok", "rules")


def context_check(
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


def question_check(run: TrainingRun, embedder: Embedder) -> ReadinessCheck:
    """The result of embedding one text whose vector cannot be stored already."""
    part, engine = "questions", embedder.engine
    if "diversity" not in {reward.name for reward in active_rewards(run.experiment.rewards)}:
        return ReadinessCheck(part, engine, "ok", "not embedded: no reward compares them")
    fix = "check DECOMPOSERL_QUESTIONS_URL and the server's log (docs/how-to/gpus.md)"
    try:
        vectors = embedder.embed([f"What is the note {uuid4().hex}?"])
    except (EngineError, ConfigError) as error:
        return ReadinessCheck(part, engine, "missing", str(error), fix)
    return ReadinessCheck(part, engine, "ok", f"vectors of {vectors.shape[1]:,} numbers")


def sampler_checks(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """The vLLM server that samples, where there is one."""
    if run.generation.engine == "vllm_server":
        sampling = run.experiment.sampling
        tokens = sampling.max_prompt_tokens + sampling.max_completion_tokens
        fix = "start it as in docs/how-to/gpus.md, or correct DECOMPOSERL_GENERATION_URL"
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


def vllm_checks(run: TrainingRun) -> Iterator[ReadinessCheck]:
    """The trainer imports vLLM for both of its engines: beside it, and as a server."""
    if run.generation.engine == "transformers":
        return
    try:
        yield vllm_check(version("vllm"))
    except PackageNotFoundError:
        yield vllm_check(None)
