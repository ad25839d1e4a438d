"""TRL's ``GRPOTrainer`` with the few methods that differ, and the use of its internals.

Loss, advantages, clipping, masking and optimizer are TRL's, unchanged.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from decomposerl.errors import TrainingError
from resources.chat.engine import ChatEngine
from resources.store.temporary import empty_folder, folder_aside, publish_folder
from resources.training.data import CompletionReader
from resources.training.reward_scoring import RewardScorer, broadcast_from_main
from resources.training.run_store import Checkpoints
from resources.training.sampler import SamplerCheck, lean_adapter, noting_ends

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl import GRPOTrainer


class StepOrder:
    """A run's claims in the order in which the data loader reads them, all steps as one epoch.

    A function of seed and step, so that a resumed run agrees: TRL's own sampler draws a new order
    each epoch from a generator that a resumed run restarts, and drops an incomplete last batch.
    A batch of claims makes ``iterations`` steps, and a step reads it ``reads`` times (once per
    micro-batch; TRL samples at the first and skips the others). Within a batch each claim is
    repeated ``group_size`` times in a row.
    """

    def __init__(
        self,
        *,
        claims: int,
        claims_a_step: int,
        group_size: int,
        steps: int,
        seed: int,
        iterations: int = 1,
        reads: int = 1,
    ) -> None:
        """``steps`` optimizer steps.

        Raises:
            TrainingError: there are fewer claims than one step takes.
        """
        if claims < claims_a_step:
            raise TrainingError(
                f"{claims} training claims can be used, one step takes {claims_a_step}"
            )
        self._claims, self._per_step, self._seed = claims, claims_a_step, seed
        self._group_size, self._steps = group_size, steps
        self._iterations, self._reads = iterations, reads

    def claims_of(self, step: int) -> list[int]:
        """The rows of a step's claims, from 0; all different.

        Each epoch is a new order of all claims. Where its last batch is incomplete, the first
        claims of the same order fill it.
        """
        batches = -(-self._claims // self._per_step)
        epoch, batch = divmod(step // self._iterations, batches)
        order = np.random.default_rng([self._seed, epoch]).permutation(self._claims)
        first = batch * self._per_step
        return [int(order[i % self._claims]) for i in range(first, first + self._per_step)]

    def __iter__(self) -> Iterator[int]:
        """Every row that the loader reads, in order."""
        for step in range(self._steps):
            rows = [row for row in self.claims_of(step) for _ in range(self._group_size)]
            for _ in range(self._reads):
                yield from rows

    def __len__(self) -> int:
        """The number of rows that the loader reads."""
        return self._steps * self._reads * self._per_step * self._group_size


@dataclass(slots=True)
class PhaseTimer:
    """Wall time of the current step by phase, in seconds."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of the block to ``phase``."""
        started = perf_counter()
        try:
            yield
        finally:
            self.spent[phase] = self.spent.get(phase, 0.0) + perf_counter() - started


@dataclass(frozen=True, slots=True)
class TrainerParts:
    """The project's parts that the trainer uses; ``rewards`` are the latest batch's, by name."""

    order: StepOrder
    reader: CompletionReader
    scorer: RewardScorer
    rewards: dict[str, Sequence[float | None]]
    phases: PhaseTimer
    checkpoints: Checkpoints
    sampler: SamplerCheck


_Grpo: Any = object  # mixed in before GRPOTrainer, whose import takes seconds


class PolicyHooks(_Grpo):  # type: ignore[misc] # the checker sees Any
    """The methods of ``GRPOTrainer`` that differ; ``parts`` is set before training starts."""

    parts: TrainerParts
    _rows: Sequence[dict[str, Any]] = ()

    def _get_train_sampler(self, *_: object) -> StepOrder:
        """A resumed run continues reading where the first one stopped."""
        return self.parts.order

    def _generate(self, prompts: list[Any]) -> Any:  # noqa: ANN401 - TRL's
        """TRL's rollouts; those of vLLM have log-probabilities, which are checked now and then."""
        with self.parts.phases.timed("generation"):
            generated = super()._generate(prompts)
        prompt_ids, completion_ids, _, _, sampled, *_ = generated
        if sampled is not None:
            self.parts.sampler.check(self, prompt_ids, completion_ids, sampled)
        return generated

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - TRL's
        """TRL's; ``_rows`` are those that are being sampled, in the order of their prompts."""
        self._rows = inputs
        scored = super()._generate_and_score_completions(inputs)
        self._rows = ()
        return scored

    def _generate_single_turn(
        self, prompts: Sequence[Sequence[int]], *args: object, **named: object
    ) -> Any:  # noqa: ANN401 - TRL's
        """TRL's, without peft's dispatch where transformers samples in one process.

        A judge that can begins with a rollout of a training step when it ends.
        """
        alone = self.accelerator.num_processes == 1 and not self.use_vllm
        model = self.accelerator.unwrap_model(self.model)
        with lean_adapter(model) if alone else nullcontext(), self._judging(prompts):
            return super()._generate_single_turn(prompts, *args, **named)

    def _judging(self, prompts: Sequence[Sequence[int]]) -> AbstractContextManager[None]:
        """Judge what ends; only in the process that asks the judge, of what it samples itself."""
        parts, asks = self.parts, self.accelerator.is_main_process
        seen = self._rows and not (self.use_vllm and self.vllm_mode == "server")
        if not (asks and seen and isinstance(parts.scorer.judge, ChatEngine)):
            return nullcontext()

        def ended(place: int, tokens: Sequence[int]) -> None:
            row = {name: [value] for name, value in self._rows[place].items()}
            parts.scorer.begin(*parts.reader.read(row, [tokens]))

        return noting_ends(self, prompts, ended)

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: object,
        completions: object,
        completion_ids_list: Sequence[Sequence[int]],
    ) -> Any:  # noqa: ANN401 - TRL's
        """TRL's own sum of our reward functions, whose values are computed here.

        In this thread, which a signal can interrupt; several processes compute them together.
        """
        from accelerate.utils import gather_object

        step, parts = self.state.global_step, self.parts
        columns = {name: [row[name] for row in inputs] for name in inputs[0]}
        with parts.phases.timed("judging"):
            own = parts.reader.read(columns, completion_ids_list)
            whole = gather_object(own)
            compute = partial(parts.scorer.training, step, whole)
            rewards = broadcast_from_main(self.accelerator, compute)
            first = self.accelerator.process_index * len(own)
            parts.rewards.update({k: v[first : first + len(own)] for k, v in rewards.items()})
            return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _get_output_dir(self, *_: object, **__: object) -> str:
        """Checkpoints are written under a temporary name."""
        return str(self.parts.checkpoints.aside)

    def _save_checkpoint(self, model: object, trial: object) -> None:
        """Write a checkpoint under a temporary name, then publish it."""
        step, checkpoints = self.state.global_step, self.parts.checkpoints
        if checkpoints.has(step):
            return
        if self.accelerator.is_main_process:
            empty_folder(checkpoints.aside)
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            checkpoints.publish(step, checkpoints.aside / f"checkpoint-{step}")
        self.accelerator.wait_for_everyone()

    def create_model_card(self, *_: object, **__: object) -> None:
        """None: ``config.json`` has what a card would say."""

    def _send_telemetry(self) -> None:
        """None: nothing is sent anywhere."""


def policy_trainer(parts: TrainerParts, **arguments: Any) -> "GRPOTrainer":  # noqa: ANN401 - TRL's
    """A ``GRPOTrainer`` with our hooks, from its own keyword arguments."""
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    kind = type("PolicyTrainer", (PolicyHooks, GRPOTrainer), {"parts": parts})
    # peft and TRL read this flag of transformers by its former name, at every generation.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    trainer = kind(**arguments)
    trainer.remove_callback(PrinterCallback)  # steps are reported, not printed
    return trainer


def end_tokens(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """The ids that end a completion: the tokenizer's, and all that the model declares."""
    config: Any = model.generation_config
    declared = config.eos_token_id
    listed = declared if isinstance(declared, list) else [declared]
    return [number for number in (tokenizer.eos_token_id, *listed) if number is not None]


def write_adapter(trainer: "GRPOTrainer", target: Path) -> None:
    """Write the adapter (safetensors) and its tokenizer as a folder that is complete or absent."""
    aside = folder_aside(target)
    if trainer.accelerator.is_main_process:
        empty_folder(aside)
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(aside))
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        (aside / "training_args.bin").unlink(missing_ok=True)  # a pickle; config.json has it all
        publish_folder(aside, target)
