"""Rewards of rollouts: ask the judge, embed the questions, sum the ensemble.

What no active reward reads (``judge_roles``, ``reads_vectors``) is not computed.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.judge.call import Judge
from decomposerl.judge.plan import SKIPPED, Plan, Role, Signals, plan
from decomposerl.ports import Embedder
from decomposerl.prompts.judge import CRITERIA, AnswersVerdict
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
    signals = [
        read if len(read.without) == len(rollout.trace.cycles) else _zero_signals(rollout)
        for read, rollout in zip(planned.signals(rulings), rollouts, strict=True)
    ]
    compare = any(reward.reads_vectors for reward in active)
    vectors = _vectors(within, embedder) if compare else [None] * len(rollouts)
    too_long = map(operator.is_not, within, rollouts)
    cases = [RewardCase(*parts) for parts in zip(rollouts, signals, vectors, too_long, strict=True)]
    calls = planned.frame(rulings, judge.engine)
    rewarded = reward_batch(cases, settings, rewards)
    made = sum(ruling is not SKIPPED for ruling in rulings)
    return JudgedBatch(rewarded, calls, made, tuple(cases))


def planned_calls(
    rollouts: Sequence[Rollout],
    settings: RewardSettings,
    most_cycles: int | None,
    active: Sequence[Reward],
) -> tuple[Plan, set[Role]]:
    """The calls of rollouts as the judge sees them, and the roles that the active rewards read."""
    within = [_within(rollout, most_cycles) for rollout in rollouts]
    three_way = any("NotEnoughInfo" in rollout.trace.labels for rollout in rollouts)
    roles = judge_roles(active, settings, three_way=three_way)
    return plan(within, sentences=settings.correctness == "literal"), roles


def _within(rollout: Rollout, most_cycles: int | None) -> Rollout:
    """The rollout as the judge sees it."""
    if most_cycles is None or len(rollout.trace.cycles) <= most_cycles:
        return rollout
    return replace(rollout, trace=replace(rollout.trace, cycles=()))


def _zero_signals(rollout: Rollout) -> Signals:
    """Rulings under which every judged reward is 0, with and without a label."""
    no = (False,) * len(rollout.trace.cycles)
    unmet = (False,) * len(CRITERIA)
    nei: AnswersVerdict = "NotEnoughInfo"
    return Signals(nei, (nei,) * len(no), no, (unmet,) * len(no), no, no)


def _vectors(rollouts: Sequence[Rollout], embedder: Embedder) -> list[NDArray[np.float32] | None]:
    """The unit vectors of each rollout's questions; every distinct question is embedded once."""
    questions = [[cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts]
    rows = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(questions)))}
    if not rows:
        return [None] * len(rollouts)
    vectors = embedder.embed(list(rows))
    return [vectors[[rows[text] for text in texts]] if texts else None for texts in questions]
