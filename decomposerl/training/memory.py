"""The device memory of a training run, estimated from the model's configuration.

For decoders of the Qwen2 and Llama kind. Weights, adapter, optimizer and cache are exact;
activations are a bound on the peak without what libraries allocate besides, so leave a reserve.
TRL computes the log probabilities of an update in tiles, so its logits are never held as a whole.
Sharding over devices is not counted; a vLLM engine on the same card is ``serving_bytes`` and its
weights and cache (``training.layout``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decomposerl.training.experiment import Experiment, Lora

_BYTES = {"bfloat16": 2, "float32": 4}
_FLOAT = 4
_LORA_COPIES = 4  # the adapter in float32, its gradient, and two moments of AdamW
_SCORE_COPIES = 3  # logits, their sorted copy and probabilities of the next token, in float32


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

    Sampling takes ``cache`` and, at different times, ``prefill`` and ``scores``; ``update`` holds
    the activations of forward and backward pass.
    """

    weights: int
    adapter: int
    cache: int
    prefill: int
    scores: int
    update: int

    @property
    def total(self) -> int:
        """The peak: what sampling needs is free again when the update begins."""
        sampling = self.cache + max(self.prefill, self.scores)
        return self.weights + self.adapter + max(sampling, self.update)

    @property
    def updating(self) -> int:
        """The peak where another engine samples: no cache and no prompts here."""
        return self.weights + self.adapter + self.update


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
    return tokens * _passing(shape) * 2 + sequences * shape.vocabulary * _FLOAT * _SCORE_COPIES


def _passing(shape: ModelShape) -> int:
    """Numbers that a token has at once in a layer without gradients."""
    return 2 * shape.hidden + shape.queries + 2 * shape.keys + 2 * shape.intermediate


def estimate_memory(
    shape: ModelShape, experiment: Experiment, processes: int = 1, *, checkpointing: bool = True
) -> MemoryEstimate:
    """Bytes on each of ``processes`` devices at the recipe's longest prompts and completions."""
    number, sampling, grpo = _BYTES[experiment.lora.dtype], experiment.sampling, experiment.grpo
    length = sampling.max_prompt_tokens + sampling.max_completion_tokens
    rollouts = grpo.global_batch // processes
    trained = grpo.per_device_batch * length
    wide = shape.queries + 2 * shape.keys
    layer = trained * 2 * (4 * shape.hidden + wide + 2 * shape.intermediate)
    kept = trained * shape.hidden * shape.layers if checkpointing else layer * (shape.layers - 1)
    return MemoryEstimate(
        weights=shape.parameters * number,
        adapter=shape.adapter(experiment.lora) * _FLOAT * _LORA_COPIES,
        cache=2 * rollouts * length * shape.keys * shape.layers * number,
        prefill=rollouts * sampling.max_prompt_tokens * _passing(shape) * number,
        scores=rollouts * shape.vocabulary * _FLOAT * _SCORE_COPIES,
        update=(layer + kept) * number,
    )
