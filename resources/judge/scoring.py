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

from decomposerl.judge.call import Judge, Ruling
from decomposerl.judge.plan import Plan, Role, plan
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

_SKIPPED = "not_asked"
"""``failure`` of a call that no active reward reads; it does not enter the table."""


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
    within = [_within(rollout, most_cycles) for rollout in rollouts]
    planned = plan(within, sentences=settings.correctness == "literal")
    three_way = any("NotEnoughInfo" in rollout.trace.labels for rollout in rollouts)
    roles = judge_roles(active, settings, three_way=three_way)
    rulings, distinct_calls = _rulings(planned, judge, roles)
    compare = any(reward.reads_vectors for reward in active)
    vectors = _vectors(within, embedder) if compare else [None] * len(rollouts)
    too_long = map(operator.is_not, within, rollouts)
    read = zip(rollouts, planned.signals(rulings), vectors, too_long, strict=True)
    cases = tuple(RewardCase(*parts) for parts in read)
    calls = planned.frame(rulings, judge.engine).filter(pl.col("failure").ne_missing(_SKIPPED))
    return JudgedBatch(reward_batch(cases, settings, rewards), calls, distinct_calls, cases)


def _within(rollout: Rollout, most_cycles: int | None) -> Rollout:
    """The rollout as the judge sees it."""
    if most_cycles is None or len(rollout.trace.cycles) <= most_cycles:
        return rollout
    return replace(rollout, trace=replace(rollout.trace, cycles=()))


def _rulings(planned: Plan, judge: Judge, roles: set[Role]) -> tuple[list[Ruling], int]:
    """One ruling per call, and the number of calls made: only those used in one of ``roles``."""
    needed = sorted({use.call for use in planned.uses if use.role in roles})
    rulings = [Ruling(None, _SKIPPED)] * len(planned.calls)
    answers = judge.judge([planned.calls[index] for index in needed])
    for index, ruling in zip(needed, answers, strict=True):
        rulings[index] = ruling
    return rulings, len(needed)


def _vectors(rollouts: Sequence[Rollout], embedder: Embedder) -> list[NDArray[np.float32] | None]:
    """The unit vectors of each rollout's questions; every distinct question is embedded once."""
    questions = [[cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts]
    rows = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(questions)))}
    if not rows:
        return [None] * len(rollouts)
    vectors = embedder.embed(list(rows))
    return [vectors[[rows[text] for text in texts]] if texts else None for texts in questions]
