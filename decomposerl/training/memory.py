"""The device memory of a training run, from the model's configuration; and the layouts of a run.

For decoders of the Qwen2 and Llama kind with a LoRA adapter in float32, as TRL 1.16, transformers
5.17, peft 0.21 and torch 2.11 run them. No factor is fitted: each term is a tensor of these
libraries, named where it is counted. Bytes of a token, with H, Q, K and I for the widths of the
hidden state, queries, keys and the MLP, n for the bytes of the base's numbers (2 in bf16):

- prefill of ``generate``: 2nK a layer (cache) + 4nH + 3nI, for all rollouts at once; + 4H + 8I
  in place of one nI where peft's own forward samples;
- update: nH a layer (checkpoints) + n(5H + Q + I) (inputs of the adapter) + 2n(Q + K) + 3nI + 8H
  (saved of one layer) + 5nH + (n + 4)I (live in it), for one micro-batch.

Sharding over devices is not counted; a vLLM engine on the same card is ``Server``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decomposerl.training.experiment import Experiment, Lora
from decomposerl.training.experiments import PAPER_7B

GIB = 2**30
_BYTES = {"bfloat16": 2, "float32": 4}
_FLOAT = 4
_LORA_COPIES = 4  # the adapter in float32, its gradient, and two moments of AdamW
_SCORE_COPIES = 3  # logits, their sorted copy and probabilities of the next token, in float32
_UNUSABLE = 2 * GIB
"""Free blocks of torch's CUDA allocator that fit no tensor, assumed. Its rules (segments of 20 MiB
or whole 2 MiB, best fit, no block moved), played over all allocations of two steps, left 1.5 GiB
at prompts of 1,024 tokens and 1.8 at 4,096; what CUDA itself takes is ``CONTEXT``.
"""
_TILE = 4_096, 32_768  # tokens and words whose logits TRL has at once (``ChunkedLogProbFunction``)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's sizes; ``keys`` is the width of keys and of values over all their heads."""

    hidden: int
    layers: int
    queries: int
    keys: int
    intermediate: int
    vocabulary: int
    tied: bool
    biases: bool

    @property
    def parameters(self) -> int:
        """Number of weights."""
        attention = 2 * self.hidden * (self.queries + self.keys)
        attention += (self.queries + 2 * self.keys) * self.biases
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.embeddings + self.hidden

    @property
    def embeddings(self) -> int:
        """Number of weights of the embeddings of input and output tokens."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    def adapter(self, lora: Lora) -> int:
        """Number of weights of an adapter."""
        sizes = {
            "q_proj": self.hidden + self.queries,
            "k_proj": self.hidden + self.keys,
            "v_proj": self.hidden + self.keys,
            "o_proj": self.queries + self.hidden,
            "gate_proj": self.hidden + self.intermediate,
            "up_proj": self.hidden + self.intermediate,
            "down_proj": self.intermediate + self.hidden,
        }
        return self.layers * lora.rank * sum(sizes[name] for name in lora.projections)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes on one device, by use.

    Sampling takes at different times ``prefill``, which has the prompts' cache, and ``cache`` with
    ``scores``; ``update`` holds the activations of forward and backward pass.
    """

    weights: int
    adapter: int
    cache: int
    prefill: int
    scores: int
    update: int
    unusable: int

    @property
    def total(self) -> int:
        """The peak: what sampling needs is free again when the update begins."""
        sampling = max(self.prefill, self.cache + self.scores)
        return self.waiting + max(sampling, self.update)

    @property
    def updating(self) -> int:
        """The peak where another engine samples: no cache and no prompts here."""
        return self.waiting + self.update

    @property
    def waiting(self) -> int:
        """What the trainer keeps between updates."""
        return self.weights + self.adapter + self.unusable


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape from the values of a model's ``config.json``.

    Raises:
        KeyError: the configuration is not that of such a decoder.
    """
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    return ModelShape(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        queries=heads * width,
        keys=(config.get("num_key_value_heads") or heads) * width,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        biases=config.get("model_type") == "qwen2" or bool(config.get("attention_bias", False)),
    )


def weight_bytes(shape: ModelShape, *, fp8: bool = False) -> int:
    """Bytes of the weights in bf16; with ``fp8`` all but the embeddings have one byte each."""
    wide = shape.embeddings if fp8 else shape.parameters
    return shape.parameters + wide


def serving_bytes(shape: ModelShape, tokens: int, sequences: int) -> int:
    """Bytes of a forward pass in bf16 over ``tokens`` that samples for ``sequences``."""
    wide = 2 * shape.hidden + shape.queries + 2 * shape.keys + 2 * shape.intermediate
    return tokens * wide * 2 + sequences * shape.vocabulary * _FLOAT * _SCORE_COPIES


def estimate_memory(
    shape: ModelShape,
    experiment: Experiment,
    processes: int = 1,
    *,
    on_gpu: bool = True,
    liger: bool = False,
    padded: bool = True,
    peft_samples: bool = False,
) -> MemoryEstimate:
    """Bytes on each of ``processes`` devices at the recipe's longest prompts and completions.

    ``on_gpu``: a layer's activations are computed again (gradient checkpointing), and torch keeps
    blocks that it cannot use. ``liger``: with the layer kernels of liger-kernel. ``padded``:
    sequences of a batch differ in length, so that attention needs a mask (transformers'
    ``_ignore_causal_mask_sdpa``). ``peft_samples``: without ``sampler.lean_adapter``, as several
    processes do.
    """
    number, sampling, grpo = _BYTES[experiment.lora.dtype], experiment.sampling, experiment.grpo
    prompt = sampling.max_prompt_tokens
    length = prompt + sampling.max_completion_tokens
    rollouts = grpo.global_batch // processes
    cached = 2 * rollouts * shape.keys * shape.layers * number
    update = _update_bytes(shape, experiment, checkpointing=on_gpu, liger=liger, padded=padded)
    return MemoryEstimate(
        weights=shape.parameters * number,
        adapter=shape.adapter(experiment.lora) * _FLOAT * _LORA_COPIES,
        cache=cached * length,
        prefill=rollouts
        * prompt
        * (_prefilling(shape, number, peft=peft_samples or processes > 1) + padded * prompt)
        + cached * prompt,
        scores=rollouts * shape.vocabulary * _FLOAT * _SCORE_COPIES,
        update=update,
        unusable=_UNUSABLE * on_gpu,
    )


def _prefilling(shape: ModelShape, number: int, *, peft: bool) -> int:
    """Bytes of a prompt's token in the last layer's MLP, the peak of a prefill.

    The activated gate is multiplied by what ``up_proj`` gives. ``generate`` calls the base without
    autocast, so ``peft``'s ``lora.Linear`` computes in the adapter's float32: a copy of its input,
    the product with ``lora_B`` and that product scaled.
    """
    states = 4 * number  # embeddings, input of the layer, of its MLP, and the latter normalized
    if peft:  # within ``up_proj``
        return (states + _FLOAT) * shape.hidden + (2 * number + 2 * _FLOAT) * shape.intermediate
    return states * shape.hidden + 3 * number * shape.intermediate


def _update_bytes(
    shape: ModelShape, experiment: Experiment, *, checkpointing: bool, liger: bool, padded: bool
) -> int:
    """Bytes of a micro-batch in ``down_proj`` of the layer that is computed again, the peak.

    Autocast casts peft's float32 copy of an adapted module's input to bf16, and ``lora_A`` saves
    that: each module has its own. ``Qwen2RMSNorm`` saves its input in float32.
    """
    number, sampling, grpo = _BYTES[experiment.lora.dtype], experiment.sampling, experiment.grpo
    length = sampling.max_prompt_tokens + sampling.max_completion_tokens
    into = {"o_proj": shape.queries, "down_proj": shape.intermediate}
    inputs = sum(into.get(name, shape.hidden) for name in experiment.lora.projections)
    attention = 2 * shape.queries + 2 * shape.keys  # queries, keys, values and output
    if padded:  # ``repeat_kv``: without a mask the kernel groups the heads itself
        attention += 2 * (shape.queries - shape.keys)
    # gate, activated gate and up; liger's SwiGLU recomputes the activated gate
    gated = (2 if liger else 3) * shape.intermediate
    norms = shape.hidden * (number if liger else 2 * _FLOAT)
    saved = number * (inputs + attention + gated) + norms
    # residual, input and output of the MLP, gradient of its output before and after the scaling
    live = 5 * number * shape.hidden
    live += (number + _FLOAT) * shape.intermediate  # the input of ``down_proj``, and in float32
    kept = number * shape.hidden * shape.layers if checkpointing else saved * (shape.layers - 1)
    # the mask as truth values, and as the bf16 numbers that torch adds to the scores
    mask = (1 + number) * length * padded
    layer = grpo.per_device_batch * length * (kept + saved + live + mask)
    scored = grpo.per_device_batch * sampling.max_completion_tokens
    tile = min(scored, _TILE[0]) * min(shape.vocabulary, _TILE[1]) * number
    return max(layer, grpo.per_device_batch * length * kept + tile)


QWEN25_7B = ModelShape(3_584, 28, 3_584, 512, 18_944, 152_064, tied=False, biases=True)
QWEN3_32B = ModelShape(5_120, 64, 8_192, 1_024, 25_600, 151_936, tied=False, biases=False)
EMBEDDING_8B = ModelShape(4_096, 36, 4_096, 1_024, 12_288, 151_665, tied=True, biases=False)
GRAPHS, CONTEXT = 1.5 * GIB, 0.6 * GIB
"""Assumed: CUDA graphs and libraries of a vLLM engine; the CUDA context of a process."""
_COLOCATED_TOKENS, _SERVED_TOKENS, _SERVED_SEQUENCES = 4_096, 8_192, 1_024
"""Tokens a forward pass: TRL's for vLLM beside the trainer, vLLM's on such cards; its sequences."""


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
