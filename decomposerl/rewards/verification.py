"""Verification: does the trace reach the label (paper, section 3.2, (2))?

    R_ver = 1 if the trace's verdict is the label, else 0

A trace without a verdict, or with two different ones, gets 0. Without a label the reward is
absent (null, not 0) for the whole group (paper, section 3.3).
"""

from decomposerl.rewards.reward import RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings


@by_case
def verification(case: RewardCase, _settings: RewardSettings) -> RewardResult:
    """1 or 0 where the claim has a label, else absent."""
    rollout = case.rollout
    if rollout.label is None:
        return RewardResult(None, "absent")
    return RewardResult(float(rollout.trace.verdict == rollout.label))
