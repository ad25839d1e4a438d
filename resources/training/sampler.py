"""The sampler of rollouts: when each ends, held-out samples, and whether it is the policy.

vLLM holds weights of its own, which TRL replaces after every step. Where that fails silently, the
run trains on samples of the base model. ``SamplerCheck`` compares the log-probabilities that the
sampler reports for its tokens with the trainer's for the same tokens, once with the adapter (the
policy) and once without it (the base); ``training.health`` judges both gaps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from decomposerl.progress import bar
from decomposerl.training.curves import CurvePoint
from resources.training.data import CLAIM_COLUMNS, Completion, CompletionReader, Row
from resources.training.safe_point import temporary_seed

if TYPE_CHECKING:
    import torch
    from trl import GRPOTrainer

    Sampled = Sequence[Sequence[float | None]]

Ended = Callable[[int, Sequence[int]], None]
"""Receives the place of a prompt and the tokens of its completion as soon as that is whole."""
_SAMPLING_KEYS = ("do_sample", "temperature", "top_p", "top_k", "min_p")
_NAMES = ("sampler_gap", "sampler_gap_base", "sampler_nll")


@dataclass(slots=True)
class SamplerCheck:
    """The gaps of the last check, at an attempt's first rollouts and every ``every`` steps."""

    every: int
    step: int | None = None
    points: dict[str, CurvePoint] = field(default_factory=dict)

    def check(
        self,
        trainer: "GRPOTrainer",
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        sampled: "Sampled",
    ) -> None:
        """Measure if it is due; every process takes part. ``sampled`` as of ``sampler_gaps``."""
        step = trainer.state.global_step
        if self.step is None or step - self.step >= self.every:
            self.step = step
            self.points = sampler_gaps(trainer, prompts, completions, sampled)

    def points_at(self, step: int) -> dict[str, CurvePoint]:
        """The gaps measured at ``step``; none where no check was due."""
        return self.points if step == self.step else {}


def sampler_gaps(
    trainer: "GRPOTrainer",
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    sampled: "Sampled",
) -> dict[str, CurvePoint]:
    """Means per token over all processes, in nats; truncated completions count.

    ``sampled`` has the sampler's log-probability of each completion token at the training
    temperature; None and NaN are left out. ``sampler_gap`` is its mean absolute difference to the
    policy's, ``sampler_gap_base`` to that of the base without the adapter, and ``sampler_nll``
    the mean of the sampler's own, negated.
    """
    import torch

    policy: Any = trainer.accelerator.unwrap_model(trainer.model)
    ids, attention = _token_batch(trainer, prompts, completions)
    theirs = _padded([_numbers(row) for row in sampled], float("nan"), "right", ids.device)
    size = trainer.args.per_device_train_batch_size

    def gap() -> "torch.Tensor":
        ours, *_ = trainer._get_per_token_logps_and_entropies(  # noqa: SLF001 - what TRL's loss uses
            trainer.model, ids, attention, theirs.size(1), batch_size=size
        )
        far: torch.Tensor = (ours - theirs).abs().nansum()
        return far

    with torch.no_grad(), _eval_mode(trainer):
        to_policy = gap()
        with policy.disable_adapter():
            to_base = gap()
    local = torch.stack([to_policy, to_base, -theirs.nansum(), theirs.isfinite().sum()])
    *sums, tokens = trainer.accelerator.gather(local).view(-1, len(local)).sum(0).tolist()
    points = [CurvePoint(each / tokens if tokens else None, None, int(tokens)) for each in sums]
    return dict(zip(_NAMES, points, strict=True))


def _token_batch(
    trainer: "GRPOTrainer",
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Prompts padded left and completions padded right as one batch, and what is attended.

    The padding behind a completion is attended too; no token before it sees it.
    """
    import torch

    device, mark = trainer.accelerator.device, trainer._tokenizer.pad_token_id  # noqa: SLF001 - as TRL pads
    before = [torch.tensor(row) for row in prompts]
    after = _padded([torch.tensor(row) for row in completions], mark, "right", device)
    seen = _padded([torch.ones_like(row) for row in before], 0, "left", device)
    ids = torch.cat([_padded(before, mark, "left", device), after], dim=1)
    return ids, torch.cat([seen, torch.ones_like(after)], dim=1)


def _numbers(row: Sequence[float | None]) -> "torch.Tensor":
    import torch

    return torch.tensor([float("nan") if each is None else each for each in row])


def _padded(
    rows: Sequence["torch.Tensor"], value: float, side: str, device: "torch.device"
) -> "torch.Tensor":
    from torch.nn.utils.rnn import pad_sequence

    return pad_sequence(list(rows), True, value, side).to(device)


@contextmanager
def lean_adapter(model: Any) -> Iterator[None]:  # noqa: ANN401 - peft carries no types
    """Sample without peft's dispatch: each layer is its base and two small products.

    peft's own forward casts, scales and adds in float32: eight kernel launches a layer, where a
    token of a 7B model has 196 layers and a card waits for launches. Here the adapter has the
    base's type, as autocast gives it in an update. Merging it into a bfloat16 base would be
    quicker still, but most of a young adapter is smaller than half a step of bfloat16 and would
    be rounded away: the samples would be the base's. No weight is changed.
    """
    from peft.tuners.lora import Linear

    layers = [layer for layer in model.modules() if type(layer) is Linear and _is_plain(layer)]
    try:
        for layer in layers:
            layer.forward = _lean_forward(layer)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)  # the class's own again


def _is_plain(layer: Any) -> bool:  # noqa: ANN401 - peft carries no types
    """Whether a layer is a linear one with one LoRA adapter in use, of the plain kind."""
    import torch

    return (
        type(layer.get_base_layer()) is torch.nn.Linear
        and len(layer.active_adapters) == 1
        and not (layer.disable_adapters or layer.merged or layer.lora_variant)
        and layer.lora_B[layer.active_adapters[0]].bias is None
    )


def _lean_forward(layer: Any) -> "Callable[[torch.Tensor], torch.Tensor]":  # noqa: ANN401 - peft carries no types
    base, name = layer.get_base_layer(), layer.active_adapters[0]
    down = layer.lora_A[name].weight.detach().to(base.weight.dtype).T
    up = (layer.lora_B[name].weight.detach() * layer.scaling[name]).to(base.weight.dtype).T

    def forward(states: "torch.Tensor") -> "torch.Tensor":
        out: torch.Tensor = base(states)
        rows = out.view(-1, out.shape[-1])
        rows.addmm_(states.reshape(-1, states.shape[-1]) @ down, up)
        return out

    return forward


@contextmanager
def noting_ends(
    trainer: "GRPOTrainer", prompts: Sequence[Sequence[int]], ended: Ended
) -> Iterator[None]:
    """Tell ``ended`` of completions while others are being sampled; what is sampled is the same.

    Transformers does not tell of those that the limit ends, and a vLLM server of all at once.
    """
    if not trainer.use_vllm:
        place: Any = trainer.accelerator.unwrap_model(trainer.model)
        criteria = [_ends_of_rows(trainer.eos_token_ids, len(prompts), ended)]
        name, noted = "generate", partial(place.generate, stopping_criteria=criteria)
    else:
        place = trainer.vllm_generation.llm.llm_engine
        name, noted = "step", partial(_noted_step, place.step, prompts, ended)
    setattr(place, name, noted)
    try:
        yield
    finally:
        vars(place).pop(name)  # the class's own again


def _noted_step(
    step: Callable[[], list[Any]], prompts: Sequence[Sequence[int]], ended: Ended
) -> list[Any]:
    """A step of vLLM's engine, which gives the requests that it brought on."""
    outputs = step()
    for output in outputs:
        if output.finished:
            # Its completions are one claim's: which of them this is decides nothing.
            ended(prompts.index(output.prompt_token_ids), output.outputs[0].token_ids)
    return outputs


def _ends_of_rows(ends: Sequence[int], rows: int, ended: Ended) -> Callable[..., "torch.Tensor"]:
    """A stopping criterion of transformers that stops nothing: it sees each row's first end."""
    import torch

    going, width = set(range(rows)), 0

    def criterion(ids: "torch.Tensor", *_: object, **__: object) -> "torch.Tensor":
        nonlocal width
        width = width or ids.size(1) - 1  # at the first new token: the prompts with their padding
        done = torch.isin(ids[:, -1], torch.tensor(ends, device=ids.device))
        for row in going.intersection(done.nonzero().flatten().tolist()):
            going.remove(row)
            ended(row, ids[row, width:].tolist())
        return torch.zeros_like(done)

    return criterion


def sample_completions(
    trainer: "GRPOTrainer",
    reader: CompletionReader,
    rows: Sequence[Row],
    *,
    samples: int,
    greedy: bool,
) -> list[Completion]:
    """``samples`` completions per row, at the training temperature or greedy, in the rows' order.

    The training's random state and data order stay unchanged. Every process samples all of them
    from one seed, so that sharded models stay in step.
    """
    repeated = [row for row in rows for _ in range(samples)]
    size = trainer.args.per_device_train_batch_size * trainer.args.steps_per_generation
    tokens: list[Sequence[int]] = []
    seed = trainer.args.seed + trainer.state.global_step
    title = f"held-out claims, {'greedy' if greedy else 'sampled'}"
    with (
        temporary_seed(seed),
        _eval_mode(trainer),
        _decoding(trainer, greedy=greedy),
        bar(title, len(repeated), "traces") as shown,
    ):
        for first in range(0, len(repeated), size):
            prompts = [row["prompt_ids"] for row in repeated[first : first + size]]
            completions, _ = trainer._generate_single_turn(prompts, None, {}, 1)  # noqa: SLF001 - TRL's one way to sample with every engine
            tokens += completions
            shown.advance(len(completions))
    columns = {name: [row[name] for row in repeated] for name in CLAIM_COLUMNS}
    return reader.read(columns, tokens)


@contextmanager
def _eval_mode(trainer: "GRPOTrainer") -> Iterator[None]:
    """No dropout; the earlier mode is restored."""
    before = trainer.model.training
    trainer.model.eval()
    try:
        yield
    finally:
        trainer.model.train(before)


@contextmanager
def _decoding(trainer: "GRPOTrainer", *, greedy: bool) -> Iterator[None]:
    """Sample as in training, or take the most likely token each time."""
    if not greedy:
        yield
        return
    if trainer.use_vllm:
        engine = trainer.vllm_generation
        before = engine.temperature
        engine.temperature = 0.0
        try:
            yield
        finally:
            engine.temperature = before
        return
    sampling = trainer.generation_config, trainer.generation_kwargs
    plain = {k: v for k, v in trainer.generation_kwargs.items() if k not in _SAMPLING_KEYS}
    trainer.generation_kwargs = plain | {"do_sample": False}
    kind = type(trainer.generation_config)
    trainer.generation_config = kind(**trainer.generation_kwargs, disable_compile=True)
    try:
        yield
    finally:
        trainer.generation_config, trainer.generation_kwargs = sampling
