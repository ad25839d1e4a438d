"""Rewards of rollouts: ask the judge, embed the questions, sum the ensemble.

What no active reward reads (``judge_roles``, ``reads_vectors``) is not computed.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.judge.call import Judge
from decomposerl.judge.plan import SKIPPED, Plan, Role, plan
from decomposerl.ports import Embedder
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import (
    RewardedBatch,
    active_rewards,
    judge_roles,
    reward_batch,
)
from decomposerl.rewards.reward import Reward, RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.rollout import Rollout

_EMBEDDING = Lock()  # an embedder's store of results is not for several threads


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """A rewarded batch, its ``JUDGE_CALLS`` table and the number of distinct calls made.

    ``cases`` are its rollouts with their rulings.
    """

    rewards: RewardedBatch
    judge_calls: pl.DataFrame
    distinct_calls: int
    cases: tuple[RewardCase, ...]


def reward_rollouts(
    rollouts: Sequence[Rollout],
    judge: Judge,
    embedder: Embedder,
    settings: RewardSettings,
    most_cycles: int | None = None,
    rewards: Sequence[Reward] = REWARDS,
) -> JudgedBatch:
    """Rewards for a batch of rollouts of any number of prompts.

    A trace of more than ``most_cycles`` cycles is neither judged nor embedded: its judged rewards
    are 0, its diversity is -1 and it has no vote, as for a trace without questions.

    Raises:
        ConfigError: a weight names no reward.
        RewardError: a ruling is missing and ``settings.failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, evidence, label or n*.
        EngineError: an engine failed as a whole.
    """
    active = active_rewards(settings, rewards)
    planned, roles = planned_calls(rollouts, settings, most_cycles, active)
    within, rulings = planned.rollouts, planned.rulings(judge, roles)
    compare = any(reward.reads_vectors for reward in active)
    vectors = _vectors(within, embedder) if compare else [None] * len(rollouts)
    too_long = map(operator.is_not, within, rollouts)
    read = zip(rollouts, planned.signals(rulings), vectors, too_long, strict=True)
    cases = tuple(RewardCase(*parts) for parts in read)
    calls = planned.frame(rulings, judge.engine)
    made = sum(ruling is not SKIPPED for ruling in rulings)
    return JudgedBatch(reward_batch(cases, settings, rewards), calls, made, cases)


def planned_calls(
    rollouts: Sequence[Rollout],
    settings: RewardSettings,
    most_cycles: int | None,
    active: Sequence[Reward],
) -> tuple[Plan, set[Role]]:
    """The calls of rollouts as the judge sees them, and the roles that the active rewards read."""
    most = float("inf") if most_cycles is None else most_cycles
    within = [
        one if len(one.trace.cycles) <= most else replace(one, trace=replace(one.trace, cycles=()))
        for one in rollouts
    ]
    three_way = any("NotEnoughInfo" in rollout.trace.labels for rollout in rollouts)
    roles = judge_roles(active, settings, three_way=three_way)
    return plan(within, sentences=settings.correctness == "literal"), roles


def _vectors(rollouts: Sequence[Rollout], embedder: Embedder) -> list[NDArray[np.float32] | None]:
    """The unit vectors of each rollout's questions; every distinct question is embedded once."""
    questions = [[cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts]
    rows = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(questions)))}
    with _EMBEDDING:
        vectors = embedder.embed(list(rows)) if rows else np.empty((0, 0), np.float32)
    return [vectors[[rows[text] for text in texts]] if texts else None for texts in questions]
