"""The warm start of the tiny policy: supervised training on invented lessons.

``python -m studies.warm_start`` makes with it the checkpoints of ``resources.policy_tiny``.
"""

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from decomposerl.extras import require
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
    SMALL_POLICY,
    THREE_WAY_POLICY,
)
from resources.policy_tiny.folder import CHECKPOINTS, PROMPT, SETTINGS_FILE, VIEW
from resources.store.temporary import empty_folder, folder_aside, publish_folder
from sample.policy_lessons import HELD, MISSING, lessons
from studies.tiny_policy.circuit import wire_copying, words_of
from studies.tiny_policy.examples import Example, batches, encoded
from studies.tiny_policy.tokenizer import train_tokenizer

Progress = Callable[[int, float], None]
"""Called with the step and the running mean of the loss."""
_TOKENIZED = 8_000
"""Lessons that the tokenizer is trained on."""
_DECAY = 0.01
"""Weight decay."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The model's shape and how it is warm-started; the defaults made the checkpoint.

    The last ``flawed_share`` of the steps uses lessons of which the share ``flaws`` has a flaw; 0
    trains only on clean traces. ``prompt_weight`` is the loss weight of a prompt's token,
    ``decision_weight`` that of a yes or no, a mark, and a verdict; other tokens of a trace have 1.
    """

    vocabulary: int = 1536
    hidden: int = 96
    layers: int = 3
    heads: int = 3
    intermediate: int = 192
    initializer_range: float = 0.1  # 1 / sqrt(hidden); 0.02 leaves attention flat at this size
    pool: int = 20_000
    steps: int = 1_600
    batch: int = 16
    learning_rate: float = 3e-3
    warmup: int = 100
    flawed_share: float = 0.15
    flaws: float = 0.8
    prompt_weight: float = 0.15
    decision_weight: float = 6.0
    seed: int = 20


@dataclass(frozen=True, slots=True)
class ThirdVerdict(WarmStart):
    """Goes on from the project's checkpoint of ``start``, which cannot write the third verdict.

    Of its lessons the share ``unknown`` ends with it; the others keep what was learned before.
    """

    start: str = CLEAN_POLICY
    unknown: float = 1 / 3


SETTINGS: Mapping[str, WarmStart] = {
    BASE_POLICY: WarmStart(),
    CLEAN_POLICY: WarmStart(flawed_share=0.0),
    SMALL_POLICY: WarmStart(hidden=72, intermediate=144, flawed_share=0.0),
    THREE_WAY_POLICY: ThirdVerdict(
        pool=6_000, steps=300, learning_rate=1e-3, warmup=30, flawed_share=0.0
    ),
}
"""How each base is made. The project's clean one is the control of ``BASE_POLICY``'s warm start,
which draws its last batches in another order."""


def warm_start(
    settings: WarmStart, folder: Path, progress: Progress, control: Path | None = None
) -> Path:
    """Train tokenizer and model, and save both in ``folder`` in 16 bits.

    ``control`` receives the model whose last steps use clean traces too. On one machine the same
    settings give the same bytes. Torch's threads and random state are restored.

    Raises:
        ConfigError: the vocabulary is too small to hold the marks.
    """
    with _deterministic_torch():
        if isinstance(settings, ThirdVerdict):
            return _continue(settings, folder, progress)
        return _train(settings, folder, progress, control)


@contextmanager
def _deterministic_torch() -> Iterator[None]:
    """One thread and a separate random state; both are restored."""
    require("torch", "transformers")
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _train(settings: WarmStart, folder: Path, progress: Progress, control: Path | None) -> Path:
    clean = list(islice(lessons(settings.seed, VIEW), settings.pool))
    flawed = list(islice(lessons(settings.seed + 1, VIEW, settings.flaws), settings.pool // 4))
    texts = (f"{lesson.view}\n{lesson.claim}\n{lesson.trace}" for lesson in clean[:_TOKENIZED])
    tokenizer = train_tokenizer(texts, settings.vocabulary)
    first = round(settings.steps * (1 - settings.flawed_share))
    clean_pool = encoded(clean, tokenizer)
    model = _model(settings, tokenizer)
    trainer = _Trainer(settings, model, tokenizer, progress)
    trainer.train(clean_pool, first)
    middle = trainer.state()
    if control is not None:
        trainer.train(clean_pool, settings.steps - first)
        _save(trainer.model, tokenizer, settings, control)
    trainer.restore(middle)
    trainer.train(encoded(flawed, tokenizer), settings.steps - first)
    return _save(trainer.model, tokenizer, settings, folder)


def _continue(settings: ThirdVerdict, folder: Path, progress: Progress) -> Path:
    from transformers import AutoTokenizer, Qwen2ForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer: Any = AutoTokenizer.from_pretrained(CHECKPOINTS[settings.start])
    model: Any = Qwen2ForCausalLM.from_pretrained(CHECKPOINTS[settings.start])
    model = model.float()
    pool = list(islice(lessons(settings.seed, VIEW, unknown=settings.unknown), settings.pool))
    trainer = _Trainer(settings, model, tokenizer, progress)
    trainer.train(encoded(pool, tokenizer), settings.steps)
    return _save(trainer.model, tokenizer, settings, folder)


def _save(model: Any, tokenizer: Any, settings: WarmStart, folder: Path) -> Path:  # noqa: ANN401 - transformers' types
    """Write ``folder`` atomically in 16 bits; the model in memory stays in 32."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    aside = folder_aside(folder)
    empty_folder(aside)
    copy.deepcopy(model).half().save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    shutil.copyfile(PROMPT, aside / "policy.md")
    (aside / SETTINGS_FILE).write_text(json.dumps(asdict(settings), indent=2) + "\n", "utf-8")
    publish_folder(aside, folder)
    return folder


def _model(settings: WarmStart, tokenizer: Any) -> Any:  # noqa: ANN401 - transformers' types
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.default_generator.manual_seed(settings.seed)  # weights are drawn there on every device
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=settings.hidden,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            intermediate_size=settings.intermediate,
            max_position_embeddings=2048,
            initializer_range=settings.initializer_range,
            rope_parameters={"rope_type": "default", "rope_theta": 1e8},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    wire_copying(model, words_of(tokenizer))
    return model


class _Trainer:
    """A model in training; its learning rate rises, is constant up to half, then falls."""

    def __init__(self, settings: WarmStart, model: Any, tokenizer: Any, progress: Progress) -> None:  # noqa: ANN401 - transformers' types
        self.settings, self.model, self.progress = settings, model, progress
        self.pad = tokenizer.pad_token_id
        self.decisions = tokenizer.convert_tokens_to_ids(["<answer>", "<verification>"])
        self.marks = [tokenizer.encode(f" {mark}")[0] for mark in (HELD, MISSING)]
        self.optimizers = _optimizers(model, settings.learning_rate)
        self.step, self.mean = 0, 0.0

    def state(self) -> dict[str, Any]:
        """A copy of everything that ``restore`` needs."""
        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizers": [one.state_dict() for one in self.optimizers],
                "position": (self.step, self.mean),
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a state."""
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.mean = state["position"]

    def train(self, pool: list[Example], steps: int) -> None:
        """Train on this many batches; their order depends only on the current step."""
        rng = random.Random(self.settings.seed + self.step)  # noqa: S311 - an order needs no secrets
        for batch in islice(batches(pool, self.settings.batch, rng), steps):
            self._step(batch)

    def _step(self, batch: list[Example]) -> None:
        import torch

        rate = self.settings.learning_rate * _factor(self.step, self.settings)
        loss = self._loss(batch)
        self.model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self.step += 1
        self.mean = 0.95 * self.mean + 0.05 * loss.item() if self.step > 1 else loss.item()
        self.progress(self.step, self.mean)

    def _loss(self, batch: list[Example]) -> Any:  # noqa: ANN401 - a torch tensor
        """The weighted mean of the next-token loss."""
        import torch

        longest = max(len(head) + len(tail) for head, tail in batch)
        tokens = torch.full((len(batch), longest), self.pad)
        weights = torch.zeros(len(batch), longest)
        for row, (head, tail) in enumerate(batch):
            tokens[row, : len(head) + len(tail)] = torch.tensor(head + tail)
            weights[row, 1 : len(head)] = self.settings.prompt_weight
            weights[row, len(head) : len(head) + len(tail)] = 1.0
        decided = torch.isin(tokens[:, :-1], torch.tensor(self.decisions))
        decided |= torch.isin(tokens[:, 1:], torch.tensor(self.marks)) & (weights[:, 1:] == 1)
        weights[:, 1:][decided] = self.settings.decision_weight
        counted = weights[:, 1:] > 0
        # No attention mask: padding is at the end, and a token attends only to earlier ones.
        states = self.model.model(input_ids=tokens).last_hidden_state[:, :-1]
        losses = torch.nn.functional.cross_entropy(
            self.model.lm_head(states[counted]), tokens[:, 1:][counted], reduction="none"
        )
        weight = weights[:, 1:][counted]
        return (losses * weight).sum() / weight.sum()


def _optimizers(model: Any, rate: float) -> tuple[Any, Any]:  # noqa: ANN401 - torch's types
    """Muon for the layers' matrices (a third fewer steps than AdamW here), AdamW for the rest."""
    import torch

    layers = [each for each in model.model.layers.parameters() if each.ndim > 1]
    known = {id(each) for each in layers}
    rest = [each for each in model.parameters() if id(each) not in known]
    return (
        torch.optim.Muon(layers, lr=rate, weight_decay=_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=_DECAY),
    )


def _factor(step: int, settings: WarmStart) -> float:
    """The factor of the learning rate: warm-up, constant up to half, then down to a fiftieth."""
    half = settings.steps / 2
    fall = 1.0 if step < half else max(0.02, (settings.steps - step) / half)
    return min(1.0, (step + 1) / settings.warmup) * fall
