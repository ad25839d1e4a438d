"""The ensemble as reward functions of TRL: seven names, one evaluation of the batch.

Takes a batch of completions, gives each reward function its column. Whichever of them is
called first starts the evaluation in a thread, the others wait for it; a batch is known by its
step, claims and tokens. What does not count (no label, a ruling missing) is None, so that TRL's
weighted sum is our composite.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import RewardValue
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.rollout import Rollout
from resources.judge.scoring import JudgedBatch, reward_rollouts
from resources.training.batch import Reader, Sampled, rollouts_of
from resources.training.library_types import TrainerState, Whatever

Amounts = Mapping[str, Sequence[RewardValue]]
RewardFunction = Callable[..., Awaitable[list[RewardValue]]]


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """What one evaluation found. ``step`` is the number of optimizer steps done before it."""

    step: int
    sampled: Sequence[Sampled]
    scoring: JudgedBatch


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores whole batches. ``group_size`` members make a group."""

    judge: Judge
    embedder: Embedder
    settings: RewardSettings
    most_cycles: int

    def score(self, step: int, sampled: Sequence[Sampled], group_size: int) -> ScoredBatch:
        """Ask judge and embedder about every rollout of the batch.

        Raises:
            TrainingError: a group is not whole.
            RewardError: a ruling is missing and the settings allow none to be.
            EngineError: judge or embedder cannot be asked.
        """
        rollouts: list[Rollout] = rollouts_of(sampled, group_size)
        scoring = reward_rollouts(
            rollouts, self.judge, self.embedder, self.settings, self.most_cycles
        )
        return ScoredBatch(step, sampled, scoring)


Evaluate = Callable[[int, Sequence[Sampled]], Amounts]


class SharedEvaluation:
    """One evaluation a batch, for however many reward functions. For one event loop."""

    def __init__(self, evaluate: Evaluate) -> None:
        """``evaluate`` gives each reward's amounts in the order of the batch."""
        self._evaluate = evaluate
        self._key = ""
        self._running: asyncio.Future[Amounts] | None = None
        self._known: Amounts | None = None

    async def of(self, step: int, sampled: Sequence[Sampled]) -> Amounts:
        """The amounts of the batch; evaluated once, in a thread, so that the loop goes on."""
        key = _key(step, sampled)
        if key == self._key and self._known is not None:
            return self._known
        if key != self._key or self._running is None:
            self._key, self._known = key, None
            task = asyncio.to_thread(self._evaluate, step, sampled)
            self._running = asyncio.ensure_future(task)
        return await self._running

    def put(self, step: int, sampled: Sequence[Sampled], amounts: Amounts) -> None:
        """Amounts that were found elsewhere: by the first of several processes."""
        self._key, self._running, self._known = _key(step, sampled), None, amounts


def _key(step: int, sampled: Sequence[Sampled]) -> str:
    parts = [step, [(one.claim_id, one.tokens) for one in sampled]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def reward_functions(
    names: Sequence[str], shared: SharedEvaluation, reader: Reader
) -> list[RewardFunction]:
    """One coroutine function a reward; TRL logs it under its ``__name__``."""
    return [_reward_function(name, shared, reader) for name in names]


def _reward_function(name: str, shared: SharedEvaluation, reader: Reader) -> RewardFunction:
    async def reward(
        *,
        completion_ids: Sequence[Sequence[int]],
        trainer_state: TrainerState,
        **columns: Whatever,
    ) -> list[RewardValue]:
        sampled = reader.read(columns, completion_ids)
        amounts = await shared.of(trainer_state.global_step, sampled)
        return list(amounts[name])

    reward.__name__ = reward.__qualname__ = name
    return reward


def shuffled_in_groups(
    amounts: Amounts, sampled: Sequence[Sampled], seed: int, step: int
) -> dict[str, list[RewardValue]]:
    """Each rollout gets the whole reward vector of another of its group, or its own.

    A control: the same rewards, tied to nothing that the policy did. Equal seeds and steps
    give equal permutations.
    """
    draw = np.random.default_rng([seed, step])
    members: dict[str, list[int]] = {}
    for place, one in enumerate(sampled):
        members.setdefault(one.claim_id, []).append(place)
    taken = list(range(len(sampled)))
    for places in members.values():
        for place, source in zip(places, draw.permutation(places), strict=True):
            taken[place] = int(source)
    return {name: [column[source] for source in taken] for name, column in amounts.items()}
