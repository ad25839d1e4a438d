"""Verification: does the trace reach the label (paper, section 3.2, (2))?

    R_ver = 1 if the trace's verdict is the label, else 0

A trace without a verdict, or with two different ones, gets 0. Without a label the reward is
absent (null, not 0) for the whole group (paper, section 3.3).
"""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings


def verification(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:  # noqa: ARG001 - every reward takes settings
    """1 or 0 where the claim has a label, else absent."""
    return [_result(case) for case in cases]


def _result(case: RewardCase) -> RewardResult:
    rollout = case.rollout
    if rollout.label is None:
        return RewardResult(None, "absent")
    return RewardResult(float(rollout.trace.verdict == rollout.label))
