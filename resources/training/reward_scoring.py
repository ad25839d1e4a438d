"""The ensemble as TRL reward functions, whose values are computed together for each batch.

A value that does not count (no label, a missing ruling) is None, so that TRL's weighted sum equals
ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import RewardValue
from decomposerl.training.curves import Split
from decomposerl.training.experiment import Experiment
from resources.judge.scoring import reward_rollouts
from resources.training.data import Completion, rollouts_of
from resources.training.rollout_log import RolloutLog, StepBatch

RewardColumns = Mapping[str, Sequence[RewardValue]]


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


def reward_functions(
    names: Sequence[str], rewards: RewardColumns
) -> list[Callable[..., list[RewardValue]]]:
    """One function per reward, which TRL logs under its ``__name__``.

    Each gives the column of its name in ``rewards``, where the trainer puts those of a batch.
    """
    return [_reward_function(name, rewards) for name in names]


def _reward_function(name: str, rewards: RewardColumns) -> Callable[..., list[RewardValue]]:
    def reward(**_: object) -> list[RewardValue]:
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
