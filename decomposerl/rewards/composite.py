"""The sum of the ensemble, and what a missing ruling does to it (paper, section 3.2).

    R = sum over rewards k of w_k * R_k

Takes the cases of a batch (rollouts of several prompts), gives every reward's scores and
each rollout's total. Rollouts of one prompt are compared with each other, so by default a
reward that failed for one of them is left out for all of them, and the others still count.
An absent reward (no label, no n*) is absent for the whole group and counts nowhere.

Left out deliberately: advantages and normalisation, which are the trainer's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decomposerl.errors import ConfigError, RewardError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.reward import Case, Reward, Score
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.rollout import Rollout

Amount = float | None
"""What one reward adds to one rollout's total before its weight; None adds nothing."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored batch. Sequences have one entry a case, in the order of the cases.

    ``counted`` is, for each reward, what enters the total: the value, or None where the
    reward is absent or left out. ``totals`` is None where no reward counts or the failure
    policy drops the rollout.
    """

    rollouts: tuple[Rollout, ...]
    weights: Mapping[str, float]
    scores: Mapping[str, tuple[Score, ...]]
    counted: Mapping[str, tuple[Amount, ...]]
    totals: tuple[float | None, ...]

    def failure_rate(self, name: str) -> float:
        """The share of scores that failed among those of a reward that is not absent, 0..1."""
        states = [score.state for score in self.scores[name] if score.state != "absent"]
        return states.count("failed") / len(states) if states else 0.0


def weights_of(settings: RewardSettings) -> dict[str, float]:
    """Each reward's weight, in the catalogue's order.

    Raises:
        ConfigError: a weight names no reward, or is not a finite number.
    """
    names = [reward.name for reward in REWARDS]
    unknown = sorted(set(settings.weights) - set(names))
    if unknown:
        raise ConfigError(f"there is no reward '{unknown[0]}'; the names are {', '.join(names)}")
    weights = {r.name: float(settings.weights.get(r.name, r.weight)) for r in REWARDS}
    for name, weight in weights.items():
        if not abs(weight) < float("inf"):
            raise ConfigError(f"the weight of '{name}' is {weight}; it must be a finite number")
    return weights


def score(cases: Sequence[Case], settings: RewardSettings) -> Scored:
    """Score a batch; rewards of weight 0 are switched off and not computed.

    Raises:
        ConfigError: as ``weights_of``.
        RewardError: a judge call failed and ``failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, label or n*, or a case lacks
            the vectors that diversity needs.
    """
    groups = _groups(cases)
    weights = {name: weight for name, weight in weights_of(settings).items() if weight}
    active = [reward for reward in REWARDS if reward.name in weights]
    scores = {reward.name: _scores(reward, cases, groups, settings) for reward in active}
    if settings.failures == "raise":
        _refuse_failures(scores, cases)
    counted = {name: _counted(found, groups, settings) for name, found in scores.items()}
    totals = _totals(scores, counted, weights, settings)
    return Scored(
        rollouts=tuple(case.rollout for case in cases),
        weights=weights,
        scores=scores,
        counted=counted,
        totals=totals or (None,) * len(cases),
    )


def _groups(cases: Sequence[Case]) -> list[list[int]]:
    """The indices of each group's cases, groups in order of first appearance."""
    groups: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        groups.setdefault(case.rollout.group, []).append(index)
    for name, members in groups.items():
        asked = {(r.claim, r.label, r.n_star) for r in (cases[i].rollout for i in members)}
        if len(asked) > 1:
            raise ValueError(f"the rollouts of group '{name}' differ in claim, label or n*")
    return list(groups.values())


def _scores(
    reward: Reward, cases: Sequence[Case], groups: Sequence[list[int]], settings: RewardSettings
) -> tuple[Score, ...]:
    found: dict[int, Score] = {}
    for members in groups:
        scored = reward.score([cases[index] for index in members], settings)
        found.update(zip(members, scored, strict=True))
    return tuple(found[index] for index in range(len(cases)))


def _counted(
    scores: Sequence[Score], groups: Sequence[list[int]], settings: RewardSettings
) -> tuple[Amount, ...]:
    """What one reward adds for each case, by the failure policy."""
    if settings.failures == "zero":
        return tuple(0.0 if score.state == "failed" else score.value for score in scores)
    values = [score.value for score in scores]
    if settings.failures == "drop_group":
        for members in groups:
            if any(scores[index].state == "failed" for index in members):
                for index in members:
                    values[index] = None
    return tuple(values)


def _refuse_failures(scores: Mapping[str, Sequence[Score]], cases: Sequence[Case]) -> None:
    for name, found in scores.items():
        for score, case in zip(found, cases, strict=True):
            if score.state == "failed":
                rollout = case.rollout
                raise RewardError(
                    f"reward '{name}' lacks a ruling for rollout {rollout.number} of "
                    f"'{rollout.group}'"
                )


def _totals(
    scores: Mapping[str, Sequence[Score]],
    counted: Mapping[str, Sequence[Amount]],
    weights: Mapping[str, float],
    settings: RewardSettings,
) -> tuple[float | None, ...]:
    """The weighted sum of what counts; None where nothing does, or the rollout is dropped."""
    dropping = settings.failures == "drop_rollout"
    totals: list[float | None] = []
    for found, amounts in zip(
        zip(*scores.values(), strict=True), zip(*counted.values(), strict=True), strict=True
    ):
        terms = [w * a for w, a in zip(weights.values(), amounts, strict=True) if a is not None]
        dropped = dropping and any(score.state == "failed" for score in found)
        totals.append(None if dropped or not terms else sum(terms))
    return tuple(totals)
