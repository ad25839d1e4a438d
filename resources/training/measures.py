"""What a step measures, from its scored batch and from the trainer's own log.

Takes a ``ScoredBatch`` and TRL's numbers, gives points by the names of ``training.curves``.
"""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from decomposerl.judge.signals import Signals
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.composite import RewardedBatch
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.table import TOTAL
from decomposerl.rewards.votes import pseudo_label
from decomposerl.schemas import LABELS
from decomposerl.training.curves import CurvePoint, curve_point
from resources.training.batch import Sampled
from resources.training.rewards import ScoredBatch

LOGGED = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "clip_ratio": "clip_ratio/region_mean",
}
"""Measures that the trainer logs, with its name for each."""
PHASES = ("generation", "judging", "update")
_EQUAL = 1e-9


def batch_points(batch: ScoredBatch, settings: RewardSettings) -> dict[str, CurvePoint]:
    """Every measure that a batch of rollouts has; a reward's over the amounts that count."""
    scored, sampled = batch.scoring.rewards, batch.sampled
    rewards = {name: curve_point(amounts) for name, amounts in scored.counted.items()}
    return rewards | {
        TOTAL: curve_point(scored.totals),
        "completion_tokens": curve_point([float(len(one.tokens)) for one in sampled]),
        "truncated": curve_point([float(one.truncated) for one in sampled]),
        "zero_spread_groups": curve_point([float(_equal(each)) for each in _by_group(scored)]),
        "judge_failures": curve_point(_failures(scored)),
        "pseudo_label_agreement": curve_point(_agreements(batch, settings)),
        "questions": curve_point([float(len(one.trace.cycles)) for one in scored.rollouts]),
        "n_star": curve_point([float(one.n_star) for one in sampled]),
        "balanced_accuracy": _balanced_accuracy(scored, sampled),
    }


def trainer_points(logs: Mapping[str, float | None]) -> dict[str, CurvePoint]:
    """The measures of one of the trainer's logs."""
    return {name: curve_point([logs.get(theirs)]) for name, theirs in LOGGED.items()}


def second_points(seconds: Mapping[str, float]) -> dict[str, CurvePoint]:
    """Wall time by phase."""
    return {f"seconds_{phase}": curve_point([spent]) for phase, spent in seconds.items()}


def failure_share(points: Sequence[CurvePoint]) -> float:
    """The share of judged scores that failed over several steps, 0..1."""
    scores = sum(one.rows for one in points)
    failed = sum((one.mean or 0.0) * one.rows for one in points)
    return failed / scores if scores else 0.0


def _by_group(scored: RewardedBatch) -> Iterable[list[float]]:
    """The totals of each group, without those that do not count."""
    groups: dict[str, list[float]] = {}
    for rollout, total in zip(scored.rollouts, scored.totals, strict=True):
        groups.setdefault(rollout.group, []).extend([] if total is None else [total])
    return groups.values()


def _equal(totals: Sequence[float]) -> bool:
    return not totals or max(totals) - min(totals) <= _EQUAL


def _failures(scored: RewardedBatch) -> list[float]:
    judged = {reward.name for reward in REWARDS if reward.judged}
    return [
        float(score.state == "failed")
        for name, scores in scored.results.items()
        if name in judged
        for score in scores
        if score.state != "absent"
    ]


def _agreements(batch: ScoredBatch, settings: RewardSettings) -> list[float]:
    """For each unlabelled group, whether the vote gives the label that was withheld."""
    calls = batch.scoring.judge_calls.filter(pl.col("role") == "full")
    verdicts = {
        (group, number): value
        for group, number, value in calls.select("group", "rollout", "value").iter_rows()
    }
    cases: dict[str, list[RewardCase]] = {}
    known: dict[str, str] = {}
    for one, rollout in zip(batch.sampled, batch.scoring.rewards.rollouts, strict=True):
        if not one.labelled:
            full = verdicts.get((rollout.group, rollout.number))
            case = RewardCase(rollout, Signals(full, (), (), (), (), ()))
            cases.setdefault(rollout.group, []).append(case)
            known[rollout.group] = one.label
    return [float(pseudo_label(each, settings) == known[group]) for group, each in cases.items()]


def _balanced_accuracy(scored: RewardedBatch, sampled: Sequence[Sampled]) -> CurvePoint:
    """The mean over the labels that occur; a trace without a verdict is wrong."""
    right: dict[str, list[float]] = {label: [] for label in LABELS}
    for one, rollout in zip(sampled, scored.rollouts, strict=True):
        right[one.label].append(float(rollout.trace.verdict == one.label))
    shares = [sum(each) / len(each) for each in right.values() if each]
    return CurvePoint(sum(shares) / len(shares) if shares else None, None, len(sampled))
