"""The ensemble as TRL reward functions that share one computation per batch.

The first reward function that is called starts the computation in a thread, the others wait for
it; a batch is identified by its step, claims and tokens. A value that does not count (no label, a
missing ruling) is None, so that TRL's weighted sum equals ours.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import RewardValue
from decomposerl.training.curves import Split
from decomposerl.training.experiment import Experiment
from resources.judge.scoring import reward_rollouts
from resources.training.data import Completion, CompletionReader, rollouts_of
from resources.training.rollout_log import RolloutLog, StepBatch

if TYPE_CHECKING:
    from transformers import TrainerState

RewardColumns = Mapping[str, Sequence[RewardValue]]
ComputeRewards = Callable[[int, Sequence[Completion]], RewardColumns]
RewardFunction = Callable[..., Awaitable[list[RewardValue]]]


@dataclass(slots=True)
class RewardScorer:
    """Computes and logs the rewards of one run. ``last`` is the latest training batch."""

    experiment: Experiment
    judge: Judge
    embedder: Embedder
    log: RolloutLog
    most_cycles: int
    last: StepBatch | None = None

    def training(self, step: int, completions: Sequence[Completion]) -> RewardColumns:
        """Each active reward's values for a training batch.

        The log has the true ones, also where the recipe shuffles them for the trainer.

        Raises:
            TrainingError: a group is incomplete.
            RewardError: a ruling is missing and the settings do not allow it.
            EngineError: judge or embedder is unreachable.
        """
        self.last = self._score(step, "train", completions, self.experiment.grpo.group_size)
        columns: RewardColumns = self.last.judged.rewards.counted
        if self.experiment.shuffle_rewards:
            return shuffled_in_groups(columns, completions, self.experiment.seed, step)
        return columns

    def held_out(
        self, step: int, split: Split, completions: Sequence[Completion], samples: int
    ) -> StepBatch:
        """A batch of held-out claims with ``samples`` completions each.

        Raises:
            RewardError: a ruling is missing and the settings do not allow it.
            EngineError: judge or embedder is unreachable.
        """
        return self._score(step, split, completions, samples)

    def _score(
        self, step: int, split: Split, completions: Sequence[Completion], group_size: int
    ) -> StepBatch:
        judged = reward_rollouts(
            rollouts_of(completions, group_size),
            self.judge,
            self.embedder,
            self.experiment.rewards,
            self.most_cycles,
        )
        batch = StepBatch(step, completions, judged)
        self.log.write(batch, split)
        return batch


class SharedRewards:
    """One computation per batch for all reward functions of one event loop."""

    def __init__(self, compute: ComputeRewards) -> None:
        """``compute`` gives each reward's values in the order of the batch."""
        self._compute = compute
        self._key = ""
        self._running: asyncio.Future[RewardColumns] | None = None
        self._known: RewardColumns | None = None

    async def of(self, step: int, completions: Sequence[Completion]) -> RewardColumns:
        """The values of the batch, computed once and in a thread, which keeps the loop free."""
        key = _batch_key(step, completions)
        if key == self._key and self._known is not None:
            return self._known
        if key != self._key or self._running is None:
            self._key, self._known = key, None
            task = asyncio.to_thread(self._compute, step, completions)
            self._running = asyncio.ensure_future(task)
        return await self._running

    def put(self, step: int, completions: Sequence[Completion], columns: RewardColumns) -> None:
        """Take values that the main one of several processes computed."""
        self._key, self._running, self._known = _batch_key(step, completions), None, columns


def _batch_key(step: int, completions: Sequence[Completion]) -> str:
    parts = [step, [(one.claim_id, one.tokens) for one in completions]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def reward_functions(
    names: Sequence[str], shared: SharedRewards, reader: CompletionReader
) -> list[RewardFunction]:
    """One coroutine function per reward; TRL logs it under its ``__name__``."""
    return [_reward_function(name, shared, reader) for name in names]


def _reward_function(name: str, shared: SharedRewards, reader: CompletionReader) -> RewardFunction:
    async def reward(
        *,
        completion_ids: Sequence[Sequence[int]],
        trainer_state: "TrainerState",
        **columns: Any,  # noqa: ANN401 - the data set's columns
    ) -> list[RewardValue]:
        completions = reader.read(columns, completion_ids)
        rewards = await shared.of(trainer_state.global_step, completions)
        return list(rewards[name])

    reward.__name__ = reward.__qualname__ = name
    return reward


def shuffled_in_groups(
    columns: RewardColumns, completions: Sequence[Completion], seed: int, step: int
) -> dict[str, list[RewardValue]]:
    """Give each rollout the whole reward vector of a random rollout of its group.

    A control: the same rewards, unrelated to the policy's behaviour. Equal seeds and steps give
    equal permutations.
    """
    draw = np.random.default_rng([seed, step])
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(completions):
        groups.setdefault(one.claim_id, []).append(index)
    sources = list(range(len(completions)))
    for members in groups.values():
        for index, source in zip(members, draw.permutation(members), strict=True):
            sources[index] = int(source)
    return {name: [values[source] for source in sources] for name, values in columns.items()}
