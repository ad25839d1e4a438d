"""Rewards of one's own, most of them faulty."""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, Role
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


class Counting:
    """The share of the answerability signals that are there: it reads what it is made with."""

    def __init__(self, *roles: Role, reads_vectors: bool = False) -> None:
        self.judge_roles, self.reads_vectors = roles, reads_vectors

    def __call__(self, cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
        """One value a case."""
        signals = [case.signals.answerable for case in cases]
        return [sum(one is not None for one in own) / len(own) for own in signals]


nothing, vectors = Counting(), Counting(reads_vectors=True)
full, left, question = Counting("full"), Counting("leave_one_out"), Counting("question")
both = Counting("full", "question")
