"""Rollouts in, rewards out: the judge asked, the questions embedded, the ensemble summed.

Takes rollouts and the two ports that rewards need, gives the scored batch and its verdict
table. What no active reward needs is not asked: without necessity no leave-one-out set,
without joint quality no question, without diversity no vector.

Left out deliberately: reading traces (``decomposerl.traces.records``) and showing rewards
(``decomposerl.reports``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.judge.call import CRITERIA, AnswersVerdict, Judge, Ruling
from decomposerl.judge.plan import Plan, Role, plan
from decomposerl.judge.signals import Signals
from decomposerl.ports import Embedder
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import RewardedBatch, active_rewards, reward_batch
from decomposerl.rewards.reward import Reward, RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.rollout import Rollout

NOT_ASKED = "not_asked"
"""``failure`` of a call that no active reward needs; it does not enter the table."""


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """A scored batch with its ``JUDGE_CALLS`` table and the number of distinct calls asked."""

    rewards: RewardedBatch
    judge_calls: pl.DataFrame
    distinct_calls: int


def reward_rollouts(  # noqa: PLR0913, PLR0917 - two ports, two settings, the catalogue
    rollouts: Sequence[Rollout],
    judge: Judge,
    embedder: Embedder,
    settings: RewardSettings,
    most_cycles: int | None = None,
    rewards: Sequence[Reward] = REWARDS,
) -> JudgedBatch:
    """Score a batch of rollouts of any number of prompts.

    A trace of more than ``most_cycles`` cycles is judged on none of them: nothing is asked,
    its judged rewards are 0 and it has no vote, as for a trace without questions.

    Raises:
        ConfigError: a weight names no reward.
        RewardError: a ruling is missing and ``settings.failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, evidence, label or n*.
        EngineError: an engine failed as a whole.
    """
    active = active_rewards(settings, rewards)
    planned = plan([_within(rollout, most_cycles) for rollout in rollouts])
    roles = {role for reward in active for role in reward.judge_roles}
    rulings, asked = _rulings(planned, judge, roles)
    compared = any(reward.reads_vectors for reward in active)
    vectors = _vectors(rollouts, embedder) if compared else [None] * len(rollouts)
    signals = [
        found if len(found.without) == len(rollout.trace.cycles) else _unasked(rollout)
        for found, rollout in zip(planned.signals(rulings), rollouts, strict=True)
    ]
    cases = [RewardCase(*parts) for parts in zip(rollouts, signals, vectors, strict=True)]
    told = planned.frame(rulings, judge.engine).filter(pl.col("failure").ne_missing(NOT_ASKED))
    return JudgedBatch(reward_batch(cases, settings, rewards), told, asked)


def _within(rollout: Rollout, most_cycles: int | None) -> Rollout:
    """The rollout as the judge is asked about it."""
    if most_cycles is None or len(rollout.trace.cycles) <= most_cycles:
        return rollout
    return replace(rollout, trace=replace(rollout.trace, cycles=()))


def _unasked(rollout: Rollout) -> Signals:
    """Rulings under which every judged reward is 0, with and without a label."""
    no = (False,) * len(rollout.trace.cycles)
    nothing = (False,) * len(CRITERIA)
    nei: AnswersVerdict = "NotEnoughInfo"
    return Signals(nei, (nei,) * len(no), no, (nothing,) * len(no), no, no)


def _rulings(planned: Plan, judge: Judge, roles: set[Role]) -> tuple[list[Ruling], int]:
    """One ruling a call, and how many calls the judge got: only those used in one of ``roles``."""
    needed = sorted({use.call for use in planned.uses if use.role in roles})
    rulings = [Ruling(None, NOT_ASKED)] * len(planned.calls)
    answers = judge.judge([planned.calls[place] for place in needed])
    for place, ruling in zip(needed, answers, strict=True):
        rulings[place] = ruling
    return rulings, len(needed)


def _vectors(rollouts: Sequence[Rollout], embedder: Embedder) -> list[NDArray[np.float32] | None]:
    """The unit vectors of each rollout's questions; every distinct question embedded once."""
    asked = [[cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts]
    rows = {text: row for row, text in enumerate(dict.fromkeys(q for each in asked for q in each))}
    if not rows:
        return [None] * len(rollouts)
    vectors = embedder.embed(list(rows))
    return [vectors[[rows[text] for text in each]] if each else None for each in asked]
