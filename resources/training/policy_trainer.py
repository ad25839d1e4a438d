"""TRL's ``GRPOTrainer`` with the few points at which ours differs.

Takes what ``GRPOTrainer`` takes, and a ``Wiring``: the order of claims, the shared rewards, the
clock of phases and the folder of checkpoints. Loss, advantages, clipping, masking and optimizer
are TRL's, untouched.
"""

import atexit
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from decomposerl.rewards.composite import RewardValue
from resources.training.batch import Reader, Sampled
from resources.training.checkpoints import (
    Checkpoints,
    empty_folder,
    folder_aside,
    publish_folder,
)
from resources.training.distributed import amounts_across
from resources.training.library_types import Model, Tokenizer, Trainer, Whatever
from resources.training.order import StepOrder
from resources.training.rewards import Evaluate, SharedEvaluation


@dataclass(slots=True)
class Phases:
    """Wall time of the present step by phase, in seconds."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time inside towards ``phase``."""
        started = perf_counter()
        try:
            yield
        finally:
            self.spent[phase] = self.spent.get(phase, 0.0) + perf_counter() - started


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the trainer needs of ours."""

    order: StepOrder
    reader: Reader
    evaluate: Evaluate
    shared: SharedEvaluation
    phases: Phases
    checkpoints: Checkpoints


_Grpo: Any = object  # mixed in before GRPOTrainer, whose import takes seconds


class PolicyHooks(_Grpo):  # type: ignore[misc] # the checker sees Any
    """The methods of ``GRPOTrainer`` that differ; mixed in before it.

    ``wiring`` is set before training starts.
    """

    wiring: Wiring

    def _get_train_sampler(self, *_: Whatever) -> StepOrder:
        """A resumed run reads on where the first one stopped."""
        return self.wiring.order

    def _generate(self, prompts: list[Any]) -> Whatever:
        with self.wiring.phases.timed("generation"):
            return super()._generate(prompts)

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: Whatever,
        completions: Whatever,
        completion_ids_list: Sequence[Sequence[int]],
    ) -> Whatever:
        """TRL's own sum of our reward functions; several processes score as one first."""
        with self.wiring.phases.timed("judging"):
            if self.accelerator.num_processes > 1:
                self._score_across(inputs, completion_ids_list)
            return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _score_across(self, inputs: list[dict[str, Any]], tokens: Sequence[Sequence[int]]) -> None:
        step = self.state.global_step
        columns = {name: [row[name] for row in inputs] for name in inputs[0]}
        mine = self.wiring.reader.read(columns, tokens)

        def evaluate(batch: Sequence[Sampled]) -> dict[str, list[RewardValue]]:
            return {name: list(each) for name, each in self.wiring.evaluate(step, batch).items()}

        found = amounts_across(self.accelerator, evaluate, mine)
        self.wiring.shared.put(step, mine, found)

    def _get_output_dir(self, *_: Whatever, **__: Whatever) -> str:
        """Checkpoints are written aside."""
        return str(self.wiring.checkpoints.aside)

    def _save_checkpoint(self, model: Model, trial: Whatever) -> None:
        """Write a checkpoint aside, then put it in its place."""
        step, checkpoints = self.state.global_step, self.wiring.checkpoints
        if checkpoints.has(step):
            return
        first = self.accelerator.is_main_process
        if first:
            empty_folder(checkpoints.aside)
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if first:
            checkpoints.publish(step, checkpoints.aside / f"checkpoint-{step}")
        self.accelerator.wait_for_everyone()

    def create_model_card(self, *_: Whatever, **__: Whatever) -> None:
        """None: ``config.json`` says what a card would."""

    def _send_telemetry(self) -> None:
        """None: nothing is sent anywhere."""


def policy_trainer(wiring: Wiring, **arguments: Whatever) -> Trainer:
    """A ``GRPOTrainer`` with our hooks."""
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    kind = type("PolicyTrainer", (PolicyHooks, GRPOTrainer), {"wiring": wiring})
    # peft and TRL ask transformers for this flag by its former name, at every generation.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    trainer: Trainer = kind(**arguments)
    trainer.remove_callback(PrinterCallback)  # steps are reported, not printed
    return trainer


def end_tokens(model: Model, tokenizer: Tokenizer) -> list[int]:
    """The ids that end a completion: the tokenizer's, and all that the model declares."""
    declared = model.generation_config.eos_token_id
    listed = declared if isinstance(declared, list) else [declared]
    return [number for number in (tokenizer.eos_token_id, *listed) if number is not None]


@contextmanager
def closing_trainer(trainer: Trainer) -> Iterator[None]:
    """End the thread in which TRL runs reward functions; it would live as long as the process."""
    from trl.trainer.utils import shutdown_event_loop_in_daemon

    try:
        yield
    finally:
        atexit.unregister(shutdown_event_loop_in_daemon)
        shutdown_event_loop_in_daemon(trainer.async_loop_thread, trainer.async_loop)
        trainer.async_loop.close()


def write_adapter(trainer: Trainer, target: Path) -> None:
    """The adapter as safetensors with its tokenizer, as a folder that is complete or absent."""
    aside = folder_aside(target)
    if trainer.accelerator.is_main_process:
        empty_folder(aside)
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(aside))
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        (aside / "training_args.bin").unlink(missing_ok=True)  # a pickle; config.json has it all
        publish_folder(aside, target)
