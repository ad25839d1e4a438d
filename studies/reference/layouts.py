"""The three layouts of a ``paper_7b`` run on GPUs: the tables of ``docs/how-to/gpus.md``.

Memory is computed (``decomposerl.training.memory``). Our readings: FP8 weights of the judge where
bf16 does not fit, and what ``GRAPHS`` and ``CONTEXT`` assume.
"""

from dataclasses import dataclass

from decomposerl.training.experiments import PAPER_7B
from decomposerl.training.memory import (
    CONTEXT,
    GIB,
    GRAPHS,
    SCORE_BYTES,
    ModelShape,
    estimate_memory,
)

QWEN25_7B = ModelShape(3_584, 28, 3_584, 512, 18_944, 152_064, tied=False, biases=True)
QWEN3_32B = ModelShape(5_120, 64, 8_192, 1_024, 25_600, 151_936, tied=False, biases=False)
EMBEDDING_8B = ModelShape(4_096, 36, 4_096, 1_024, 12_288, 151_665, tied=True, biases=False)
_COLOCATED_TOKENS, _SERVED_TOKENS, _SERVED_SEQUENCES = 4_096, 8_192, 1_024
"""Tokens a forward pass: TRL's for vLLM beside the trainer, vLLM's on such cards; its sequences."""


def weight_bytes(shape: ModelShape, *, fp8: bool = False) -> int:
    """Bytes of the weights in bf16; with ``fp8`` all but the embeddings have one byte each."""
    wide = shape.embeddings if fp8 else shape.parameters
    return shape.parameters + wide


def serving_bytes(shape: ModelShape, tokens: int, sequences: int) -> int:
    """Bytes of a forward pass in bf16 over ``tokens`` that samples for ``sequences``."""
    wide = 2 * shape.hidden + shape.queries + 2 * shape.keys + 2 * shape.intermediate
    return tokens * wide * 2 + sequences * shape.vocabulary * SCORE_BYTES


@dataclass(frozen=True, slots=True)
class Server:
    """A vLLM engine that takes ``share`` of each of its cards.

    ``length`` is its longest request in tokens, ``sequences`` are those of a forward pass (0: it
    samples none). ``beside``: in the trainer, asleep during an update.
    """

    name: str
    model: str
    shape: ModelShape
    length: int
    sequences: int
    cards: tuple[int, ...]
    share: float
    beside: bool = False

    @property
    def weights(self) -> float:
        """Bytes of the weights on each card."""
        return weight_bytes(self.shape, fp8=self.model.endswith("FP8")) / len(self.cards)

    @property
    def working(self) -> float:
        """Bytes of activations, CUDA graphs and libraries on each card."""
        tokens = _COLOCATED_TOKENS if self.beside else _SERVED_TOKENS
        return serving_bytes(self.shape, tokens, self.sequences) + GRAPHS

    def cache(self, gib: int) -> float:
        """Bytes that are left for keys and values on each card of ``gib``."""
        return self.share * gib * GIB - self.weights - self.working

    def cached_tokens(self, gib: int) -> int:
        """Tokens that the cache holds."""
        per_token = 4 * self.shape.keys * self.shape.layers  # key and value, two bytes each
        return int(self.cache(gib) * len(self.cards) / per_token)


@dataclass(frozen=True, slots=True)
class Layout:
    """The processes of a ``paper_7b`` run on ``number`` cards; the trainer is on card 0.

    ``gib`` is the memory that CUDA reports of a card, rounded down.
    """

    name: str
    gib: int
    number: int
    servers: tuple[Server, Server, Server]

    def used(self, card: int, *, updating: bool) -> float:
        """Bytes of all processes on a card, while the trainer updates or while it waits."""
        here = [server for server in self.servers if card in server.cards]
        asleep = [server for server in here if server.beside and updating]
        shares = sum(server.share * self.gib * GIB for server in here if server not in asleep)
        processes = sum(1 for server in here if not server.beside) + (card == 0)
        memory = estimate_memory(QWEN25_7B, PAPER_7B)
        trainer = memory.updating if updating else memory.waiting
        return shares + GRAPHS * len(asleep) + CONTEXT * processes + trainer * (card == 0)


def _judge(share: float, *cards: int, form: str = "") -> Server:
    return Server("judge", f"Qwen/Qwen3-32B{form}", QWEN3_32B, 32_768, 64, cards, share)


def _embedder(share: float, card: int) -> Server:
    return Server("embedder", "Qwen/Qwen3-Embedding-8B", EMBEDDING_8B, 8_192, 0, (card,), share)


def _sampler(share: float, card: int) -> Server:
    limits, beside = PAPER_7B.sampling, card == 0
    length = limits.max_prompt_tokens + limits.max_completion_tokens
    at_once = PAPER_7B.grpo.global_batch if beside else _SERVED_SEQUENCES
    return Server("sampler", PAPER_7B.model, QWEN25_7B, length, at_once, (card,), share, beside)


LAYOUTS = (
    Layout("2×H100", 79, 2, (_judge(0.66, 1, form="-FP8"), _embedder(0.27, 1), _sampler(0.3, 0))),
    Layout("1×H200", 139, 1, (_judge(0.33, 0, form="-FP8"), _embedder(0.13, 0), _sampler(0.3, 0))),
    Layout("4×H100", 79, 4, (_judge(0.9, 2, 3), _embedder(0.3, 1), _sampler(0.6, 1))),
)
_HEADER = """\
| Process | Card | Weights | Working | KV cache (tokens) |
| --- | --- | ---: | ---: | ---: |
"""


def layout_table(layout: Layout) -> str:
    """One row a process, in GiB, as Markdown; below it the sum of each card.

    It stands in ``docs/how-to/gpus.md`` beside the commands.
    """
    memory = estimate_memory(QWEN25_7B, PAPER_7B)
    update = memory.updating - memory.weights
    rows = [("trainer", "0", _gib(memory.weights), _gib(update), "")]
    for server in layout.servers:
        place = f"{server.name} in the trainer" if server.beside else server.name
        tokens = server.cached_tokens(layout.gib) // 1000
        cache = f"{_gib(server.cache(layout.gib))} ({tokens} k)"
        cards = ", ".join(map(str, server.cards))
        rows.append((place, cards, _gib(server.weights), _gib(server.working), cache))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(
        f"{_gib(layout.used(card, updating=False))}{asleep} (card {card})"
        for card in range(layout.number)
        for update in [_gib(layout.used(card, updating=True))]
        for asleep in [f"/{update}" * (card == 0)]
    )
    context = f"contexts of {_gib(CONTEXT)} for each process included"
    return f"{_HEADER}{table}\n\nUsed of {layout.gib} GiB, {context}: {used}."


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
