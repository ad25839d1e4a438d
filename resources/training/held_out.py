"""Held-out claims, sampled between steps: how a run is told to learn.

Takes the trainer and held-out prompts, gives completions sampled at the training temperature
and greedy ones. The training's random state and data order stay as they are. Every process
samples all of them from one seed, so that sharded models stay in step; the first one logs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.curves import CurvePoint, Split
from resources.training.batch import CLAIM_COLUMNS, Reader, Sampled
from resources.training.data import Row
from resources.training.distributed import from_first
from resources.training.library_types import Trainer
from resources.training.measures import batch_points, second_points
from resources.training.random_state import seeded_aside
from resources.training.reward_scoring import Evaluation

_GREEDY = ("do_sample", "temperature", "top_p", "top_k", "min_p")


def sample_held_out(
    trainer: Trainer,
    reader: Reader,
    rows: Sequence[Row],
    *,
    samples: int,
    greedy: bool,
) -> list[Sampled]:
    """``samples`` completions a row, those of a row next to each other, in order."""
    asked = [row for row in rows for _ in range(samples)]
    size = trainer.args.per_device_train_batch_size * trainer.args.steps_per_generation
    tokens: list[Sequence[int]] = []
    seed = trainer.args.seed + trainer.state.global_step
    with seeded_aside(seed), _evaluating(trainer), _decoding(trainer, greedy=greedy):
        for first in range(0, len(asked), size):
            prompts = [row["prompt_ids"] for row in asked[first : first + size]]
            completions, _ = trainer._generate_single_turn(prompts, None, {}, 1)  # noqa: SLF001 - TRL's one way to sample with every engine
            tokens += completions
    columns = {name: [row[name] for row in asked] for name in CLAIM_COLUMNS}
    return reader.read(columns, tokens)


@contextmanager
def _evaluating(trainer: Trainer) -> Iterator[None]:
    """No dropout; the mode is the earlier one afterwards."""
    before = trainer.model.training
    trainer.model.eval()
    try:
        yield
    finally:
        trainer.model.train(before)


@contextmanager
def _decoding(trainer: Trainer, *, greedy: bool) -> Iterator[None]:
    """Sampling as in training, or the likeliest token each time."""
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
    plain = {k: v for k, v in trainer.generation_kwargs.items() if k not in _GREEDY}
    trainer.generation_kwargs = plain | {"do_sample": False}
    kind = type(trainer.generation_config)
    trainer.generation_config = kind(**trainer.generation_kwargs, disable_compile=True)
    try:
        yield
    finally:
        trainer.generation_config, trainer.generation_kwargs = sampling


@dataclass(frozen=True, slots=True)
class HeldOutClaims:
    """The held-out claims of a run, and how they are sampled."""

    rows: tuple[Row, ...]
    samples: int
    reader: Reader
    settings: RewardSettings

    def points(
        self,
        trainer: Trainer,
        evaluation: Evaluation,
        step: int,
        split: Split,
    ) -> dict[str, CurvePoint]:
        """Sample them with the present weights, score and log them; their measures.

        Raises:
            EngineError: judge or embedder cannot be asked.
        """
        greedy = split == "held_out_greedy"
        samples = 1 if greedy else self.samples
        started = perf_counter()
        sampled = sample_held_out(trainer, self.reader, self.rows, samples=samples, greedy=greedy)
        generated = perf_counter()

        def measured() -> dict[str, CurvePoint]:
            batch = evaluation.held_out(step, split, sampled, samples)
            found = batch_points(batch, self.settings)
            spent = {"generation": generated - started, "judging": perf_counter() - generated}
            return found | second_points(spent)

        return from_first(trainer.accelerator, measured)
