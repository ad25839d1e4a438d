"""Which process of a ``paper_7b`` run lies on which GPU, with its memory and its command.

Memory is computed from the models' shapes (``training.memory``). Our readings: ``GRAPHS`` of each
server, ``CONTEXT`` of each process, and FP8 weights of the judge where bf16 does not fit. Nothing
here was measured.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.training.experiments import PAPER_7B
from decomposerl.training.memory import ModelShape, estimate_memory, serving_bytes, weight_bytes

GIB, _WIDTH = 2**30, 97
GRAPHS, CONTEXT = 1.5 * GIB, 0.6 * GIB
"""Assumed: CUDA graphs and libraries of a vLLM server; the CUDA context of a process."""
_COLOCATED_TOKENS, _SERVED_TOKENS, _SERVED_SEQUENCES = 4_096, 8_192, 1_024
"""Tokens a forward pass: TRL's for vLLM beside the trainer, vLLM's on such cards; its sequences."""

QWEN25_7B = ModelShape(3_584, 28, 3_584, 512, 18_944, 152_064, tied=False, biases=True)
QWEN3_32B = ModelShape(5_120, 64, 8_192, 1_024, 25_600, 151_936, tied=False, biases=False)
EMBEDDING_8B = ModelShape(4_096, 36, 4_096, 1_024, 12_288, 151_665, tied=True, biases=False)
JUDGE_FLAGS = "--max-model-len 32768 --max-num-seqs 64 --enable-prefix-caching"
"""The judge's context, the calls that it answers at once, and its cache of shared documents."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of card. ``gib`` is the memory that CUDA reports, rounded down."""

    name: str
    gib: int


@dataclass(frozen=True, slots=True)
class Server:
    """A vLLM engine that takes ``share`` of each of its cards; without a port inside the trainer.

    ``length`` is the longest request in tokens, ``sequences`` are those of a forward pass (0: it
    samples none). ``before`` are variables of the command.
    """

    name: str
    model: str
    shape: ModelShape
    cards: tuple[int, ...]
    share: float
    length: int
    port: int = 0
    flags: str = ""
    sequences: int = 0
    tokens: int = _SERVED_TOKENS
    fp8: bool = False
    before: str = ""

    @property
    def weights(self) -> float:
        """Bytes of the weights on each card."""
        return weight_bytes(self.shape, fp8=self.fp8) / len(self.cards)

    @property
    def working(self) -> float:
        """Bytes of activations, CUDA graphs and libraries on each card."""
        return serving_bytes(self.shape, self.tokens, self.sequences) + GRAPHS

    def cache(self, gpu: Gpu) -> float:
        """Bytes that are left for keys and values on each card."""
        return self.share * gpu.gib * GIB - self.weights - self.working

    def cached_tokens(self, gpu: Gpu) -> int:
        """Tokens that the cache holds."""
        per_token = 4 * self.shape.keys * self.shape.layers  # key and value, two bytes each
        return int(self.cache(gpu) * len(self.cards) / per_token)

    @property
    def command(self) -> str:
        """The line that starts it."""
        cards = ",".join(map(str, self.cards))
        split = f" --tensor-parallel-size {len(self.cards)}" if len(self.cards) > 1 else ""
        return (
            f"CUDA_VISIBLE_DEVICES={cards} {self.before}vllm serve {self.model} "
            f"--host 127.0.0.1 --port {self.port} --dtype bfloat16 {self.flags}{split} "
            f"--gpu-memory-utilization {self.share}"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The processes of a run on ``number`` cards; the trainer is on card 0.

    ``servers`` are the judge, the embedder of questions and the sampler. ``config`` are further
    words of the training command.
    """

    name: str
    gpu: Gpu
    number: int
    servers: tuple[Server, Server, Server]
    config: str = ""

    def used(self, card: int) -> float:
        """Bytes of all processes on a card."""
        shares = [one.share * self.gpu.gib * GIB for one in self.servers if card in one.cards]
        apart = sum(1 for one in self.servers if card in one.cards and one.port)
        trainer = sum(trainer_bytes()) if card == 0 else 0.0
        return sum(shares) + trainer + CONTEXT * (apart + (card == 0))


def trainer_bytes() -> tuple[float, float]:
    """Weights, and what an update needs, of one trainer whose rollouts vLLM samples."""
    memory = estimate_memory(QWEN25_7B, PAPER_7B)
    return memory.weights, memory.updating - memory.weights


_HEADER = """\
| Process | Card | Share | Weights | Working | KV cache (tokens) |
| --- | --- | ---: | ---: | ---: | ---: |
"""
H100, H200 = Gpu("H100 80 GB", 79), Gpu("H200 141 GB", 139)
_LIMIT = PAPER_7B.sampling.max_prompt_tokens + PAPER_7B.sampling.max_completion_tokens


def _judge(share: float, *cards: int, fp8: bool) -> Server:
    model = "Qwen/Qwen3-32B-FP8" if fp8 else "Qwen/Qwen3-32B"
    return Server(
        *("judge", model, QWEN3_32B, cards, share, 32_768, 8000, JUDGE_FLAGS),
        sequences=64,
        fp8=fp8,
    )


def _embedder(share: float, card: int) -> Server:
    flags = "--runner pooling --max-model-len 8192"
    model = "Qwen/Qwen3-Embedding-8B"
    return Server("embedder", model, EMBEDDING_8B, (card,), share, 8_192, 8002, flags)


def _beside(share: float) -> Server:
    batch, model = PAPER_7B.grpo.global_batch, PAPER_7B.model
    return Server(
        *("sampler", model, QWEN25_7B, (0,), share, _LIMIT),
        sequences=batch,
        tokens=_COLOCATED_TOKENS,
    )


def _sampler(share: float, card: int) -> Server:
    flags = (
        f'--max-model-len {_LIMIT} --weight-transfer-config \'{{"backend": "nccl"}}\' '
        f"--logprobs-mode processed_logprobs --max-logprobs -1 --seed {PAPER_7B.seed}"
    )
    return Server(
        *("sampler", PAPER_7B.model, QWEN25_7B, (card,), share, _LIMIT, 8003, flags),
        sequences=_SERVED_SEQUENCES,
        before="VLLM_SERVER_DEV_MODE=1 ",
    )


LAYOUTS = (
    Layout(
        *("2×H100", H100, 2),
        (_judge(0.66, 1, fp8=True), _embedder(0.27, 1), _beside(0.3)),
    ),
    Layout(
        *("1×H200", H200, 1),
        (_judge(0.33, 0, fp8=True), _embedder(0.13, 0), _beside(0.15)),
        " -c configs/one_h200.yaml",
    ),
    Layout(
        *("4×H100", H100, 4),
        (_judge(0.9, 2, 3, fp8=False), _embedder(0.3, 1), _sampler(0.6, 1)),
    ),
)


def memory_table(layout: Layout) -> str:
    """One row a process, in GiB, as Markdown; below it the sum of each card."""
    weights, update = (_gib(size) for size in trainer_bytes())
    rows = [(f"trainer, {PAPER_7B.model}", "0", "", weights, update, "")]
    for one in layout.servers:
        place = one.name if one.port else f"{one.name} in the trainer"
        tokens = one.cached_tokens(layout.gpu) // 1000
        cache = f"{_gib(one.cache(layout.gpu))} ({tokens} k)"
        head = (f"{place}, {one.model}", ", ".join(map(str, one.cards)), f"{one.share:g}")
        rows.append((*head, _gib(one.weights), _gib(one.working), cache))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(f"{_gib(layout.used(card))} (card {card})" for card in range(layout.number))
    context = f"a CUDA context of {_gib(CONTEXT)} for each process included"
    return f"{_HEADER}{table}\n\nUsed of the {layout.gpu.gib} GiB of a card, {context}: {used}."


def commands(layout: Layout) -> str:
    """The shell lines that start the servers one after the other, and check the run."""
    lines: list[str] = []
    for one in layout.servers:
        if one.port:
            health = f"http://127.0.0.1:{one.port}/health"
            lines += [
                wrapped(re.split(r" (?=--)", f"{one.command} &")),
                f"until curl -sf {health} || ! kill -0 $!; do sleep 5; done",
            ]
    lines += [wrapped(f"export {variables(layout)}".split())]
    return "\n".join([*lines, f"{TRAINING} -c configs/look.yaml{layout.config}"])


def wrapped(words: Sequence[str]) -> str:
    """A command as continuation lines of at most 100 characters."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("  " + word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return " \\\n".join(lines)


TRAINING = (
    ".venv/bin/dagster asset materialize -m dagster_project.definitions "
    f"--select 'key:\"policy\"' --partition {PAPER_7B.name}"
)


def variables(layout: Layout) -> str:
    """The variables of the trainer."""
    judge, questions, sampler = layout.servers
    named = {
        "CUDA_VISIBLE_DEVICES": "0",
        "DECOMPOSERL_PROFILE": "paper",
        "DECOMPOSERL_DEVICE": "cuda",
        "DECOMPOSERL_JUDGE_URL": f"http://127.0.0.1:{judge.port}/v1",
        "DECOMPOSERL_JUDGE_MODEL": judge.model,
        "DECOMPOSERL_QUESTIONS_URL": f"http://127.0.0.1:{questions.port}/v1",
        "DECOMPOSERL_GENERATION": "vllm_server" if sampler.port else "vllm_colocate",
    }
    if sampler.port:
        named["DECOMPOSERL_GENERATION_URL"] = f"http://127.0.0.1:{sampler.port}"
    return " ".join(f"{name}={value}" for name, value in named.items())


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"


def page_block(layout: Layout) -> str:
    """Table and commands, as they stand in ``docs/how-to/gpus.md``."""
    return f"{memory_table(layout)}\n\n```sh\n{commands(layout)}\n```"
