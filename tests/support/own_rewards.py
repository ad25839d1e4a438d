"""Rewards of one's own, most of them faulty."""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings

NO_FUNCTION = 3


def short(cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
    """One value too few."""
    return [0.5] * (len(cases) - 1)


def nan(cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
    """No number."""
    return [float("nan")] * len(cases)


def large(cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
    """Outside the range."""
    return [1.5] * len(cases)


def raising(cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
    """A fault of its own."""
    raise KeyError(cases[0].rollout.claim)


def judged(cases: Sequence[RewardCase], _: RewardSettings) -> list[float | None]:
    """The share of answerable questions; nothing of an unlabelled claim."""
    shares = [sum(map(bool, c.signals.answerable)) / len(c.signals.answerable) for c in cases]
    return [share if c.rollout.label else None for c, share in zip(cases, shares, strict=True)]


judged.judge_roles = ("question",)  # type: ignore[attr-defined]
