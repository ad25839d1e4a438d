"""The device memory of a training run, from the model's configuration.

For decoders of the Qwen2 and Llama kind with a LoRA adapter in float32, as TRL 1.16, transformers
5.17, peft 0.21 and torch 2.11 run them. No factor is fitted: each term is a tensor of these
libraries, named where it is counted. Bytes of a token, with H, Q, K and I for the widths of the
hidden state, queries, keys and the MLP, n for the bytes of the base's numbers (2 in bf16):

- prefill of ``generate``: 2nK a layer (cache) + 4nH + 3nI, for all rollouts at once; + 4H + 8I
  in place of one nI where peft's own forward samples;
- update: nH a layer (checkpoints) + n(5H + Q + I) (inputs of the adapter) + 2n(Q + K) + 3nI + 8H
  (saved of one layer) + 5nH + (n + 4)I (live in it), for one micro-batch.

Sharding over devices is not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decomposerl.training.experiment import Experiment, Lora

GIB = 2**30
_BYTES = {"bfloat16": 2, "float32": 4}
_FLOAT = 4
_LORA_COPIES = 4  # the adapter in float32, its gradient, and two moments of AdamW
SCORE_BYTES = 12  # a word's logit, its sorted copy and its probability, in float32
_UNUSABLE = 2 * GIB
"""Free blocks of torch's CUDA allocator that fit no tensor, assumed. What CUDA itself takes is
``CONTEXT``.
"""
GRAPHS, CONTEXT = 1.5 * GIB, 0.6 * GIB
"""Assumed: CUDA graphs and libraries of a vLLM engine; the CUDA context of a process."""
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
        scores=rollouts * shape.vocabulary * SCORE_BYTES,
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
