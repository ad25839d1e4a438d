"""Verification: does the trace reach the label (paper, section 3.2, (2))?

    R_ver = 1 if the trace's verdict is the label, else 0

A trace without a verdict, or with two different ones, scores 0. Without a label the reward
is absent: null, not 0, and so for the whole group (paper, section 3.3).

Left out deliberately: how sure the policy is.
"""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings


def verification(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:  # noqa: ARG001 - every reward takes settings
    """1 or 0 where the claim has a label, else absent."""
    return [_score(case) for case in cases]


def _score(case: RewardCase) -> RewardResult:
    rollout = case.rollout
    if rollout.label is None:
        return RewardResult(None, "absent")
    return RewardResult(float(rollout.trace.verdict == rollout.label))
