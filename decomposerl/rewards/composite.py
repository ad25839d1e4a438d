"""The weighted sum of the ensemble, and the effect of a missing ruling on it (paper, section 3.2).

    R = sum over rewards k of w_k * R_k

Rollouts of one prompt are compared with each other, so by default a reward that failed for one of
them is left out for all of them, and the other rewards still count. An absent reward (no label,
no n*) is absent for the whole group and counts nowhere.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from decomposerl.errors import ConfigError, RewardError
from decomposerl.judge.plan import Role
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.own import bound, check_own
from decomposerl.rewards.reward import Reward, RewardCase, RewardResult
from decomposerl.rewards.settings import FailurePolicy, RewardSettings
from decomposerl.traces.rollout import Rollout

RewardValue = float | None
"""What one reward adds to one rollout's total before its weight; None adds nothing."""
_Results = Mapping[str, Sequence[RewardResult]]
_PROMPT = attrgetter("claim", "evidence", "label", "n_star")


@dataclass(frozen=True, slots=True)
class RewardedBatch:
    """A batch with its rewards. Sequences have one entry per case, in the order of the cases.

    ``counted`` is, for each reward, what enters the total: the value, or None where the
    reward is absent or left out, and for all rewards of a rollout that the failure policy
    drops. ``totals`` is None where no reward counts.
    """

    rollouts: tuple[Rollout, ...]
    weights: Mapping[str, float]
    results: Mapping[str, tuple[RewardResult, ...]]
    counted: Mapping[str, tuple[RewardValue, ...]]
    totals: tuple[float | None, ...]

    def failure_rate(self, name: str) -> float:
        """The share of failed results among those of a reward that are not absent, 0..1."""
        states = [result.state for result in self.results[name] if result.state != "absent"]
        return states.count("failed") / len(states) if states else 0.0


def active_rewards(settings: RewardSettings, rewards: Sequence[Reward] = REWARDS) -> list[Reward]:
    """The rewards whose weight is not 0, with that weight, in the catalogue's order.

    Raises:
        ConfigError: as ``weights_of``.
    """
    weights = weights_of(settings, rewards)
    chosen = (bound(reward, settings) for reward in rewards if weights[reward.name])
    return [replace(reward, weight=weights[reward.name]) for reward in chosen]


def judge_roles(
    active: Sequence[Reward], settings: RewardSettings, *, three_way: bool = False
) -> set[Role]:
    """The roles of the judge calls whose rulings the rewards ``active`` read.

    Coverage and necessity may read the rulings on each question, too; so they do, ``three_way``,
    where a trace may end with the third verdict, which is paid by what its answers show.
    """
    roles = {role for reward in active for role in reward.judge_roles}
    by_answers = three_way or (settings.grounding, settings.silence) != ("literal", "literal")
    return roles | {"question"} if "full" in roles and by_answers else roles


def weights_of(settings: RewardSettings, rewards: Sequence[Reward] = REWARDS) -> dict[str, float]:
    """Each reward's weight, in the catalogue's order.

    Raises:
        ConfigError: a weight names no reward, or is not a finite number.
    """
    names = [reward.name for reward in rewards]
    unknown = sorted(set(settings.weights) - set(names))
    if unknown:
        raise ConfigError(f"there is no reward '{unknown[0]}'; the names are {', '.join(names)}")
    weights = {
        reward.name: float(settings.weights.get(reward.name, bound(reward, settings).weight))
        for reward in rewards
    }
    if weights.get("own") and not settings.own:
        raise ConfigError("the weight of 'own' needs rewards.own = MODULE:FUNCTION")
    for name, weight in weights.items():
        if not abs(weight) < float("inf"):
            raise ConfigError(f"the weight of '{name}' is {weight}; it must be a finite number")
    return weights


def check_rewards(settings: RewardSettings) -> None:
    """Refuse before a run what would end it later.

    Raises:
        ConfigError: as ``weights_of``, or a reward of one's own does not work.
    """
    if weights_of(settings)["own"]:
        check_own(settings)


def reward_batch(
    cases: Sequence[RewardCase], settings: RewardSettings, rewards: Sequence[Reward] = REWARDS
) -> RewardedBatch:
    """Compute every active reward of a batch, and the totals.

    Raises:
        ConfigError: as ``weights_of``.
        RewardError: a judge call failed and ``failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, evidence, label or n*, or a
            case's vectors are not of its trace.
    """
    groups = _groups(cases)
    active = active_rewards(settings, rewards)
    weights = {reward.name: reward.weight for reward in active}
    results: dict[str, tuple[RewardResult, ...]] = {}
    for reward in active:
        found = [reward.compute([cases[place] for place in group], settings) for group in groups]
        placed = dict(zip(chain(*groups), chain(*found), strict=True))
        results[reward.name] = tuple(placed[place] for place in range(len(cases)))
    counted = _counted(results, groups, cases, settings.failures)
    totals = []
    for values in zip(*counted.values(), strict=True):
        terms = [w * v for w, v in zip(weights.values(), values, strict=True) if v is not None]
        totals.append(sum(terms) if terms else None)
    rollouts = tuple(case.rollout for case in cases)
    return RewardedBatch(rollouts, weights, results, counted, tuple(totals) or (None,) * len(cases))


def _groups(cases: Sequence[RewardCase]) -> list[list[int]]:
    """The indices of each group's cases, groups in order of first appearance."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, rollout in enumerate(case.rollout for case in cases):
        group = groups[rollout.group]
        group.append(index)
        if _PROMPT(rollout) != _PROMPT(cases[group[0]].rollout):
            raise ValueError(
                f"the rollouts of group '{rollout.group}' differ in claim, evidence, label or n*"
            )
    return list(groups.values())


def _counted(
    results: _Results,
    groups: Sequence[Sequence[int]],
    cases: Sequence[RewardCase],
    failures: FailurePolicy,
) -> dict[str, tuple[RewardValue, ...]]:
    """What each reward adds for each case under the failure policy."""
    left_out = {
        name: {index for index, result in enumerate(column) if result.state == "failed"}
        for name, column in results.items()
    }
    for name, failed in left_out.items():
        if failures == "raise" and failed:
            rollout = cases[min(failed)].rollout
            where = f"rollout {rollout.number} of '{rollout.group}'"
            raise RewardError(f"reward '{name}' lacks a ruling for {where}")
        if failures == "drop_group":
            failed.update(*(members for members in groups if not failed.isdisjoint(members)))
    if failures == "drop_rollout":
        left_out = dict.fromkeys(left_out, set().union(*left_out.values()))
    instead = 0.0 if failures == "zero" else None
    return {
        name: tuple(
            instead if index in left_out[name] else result.value
            for index, result in enumerate(column)
        )
        for name, column in results.items()
    }
