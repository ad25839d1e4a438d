"""The pseudo-label of an unlabelled claim: the majority of its rollouts (paper, section 3.3).

Whose verdicts vote is a setting: the judge's reconstructions from the answers (the paper's
symbols), or the policy's own. Truncated rollouts and verdicts of neither label do not vote.
"""

from collections.abc import Sequence

from decomposerl.rewards.readings import verdict
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Verdict


def pseudo_label(cases: Sequence[RewardCase], settings: RewardSettings) -> Verdict | None:
    """The verdict with more votes; None for a tie or without votes."""
    votes = [_vote(case, settings) for case in cases if not case.rollout.truncated]
    supported, refuted = votes.count("Supported"), votes.count("Refuted")
    if supported == refuted:
        return None
    return "Supported" if supported > refuted else "Refuted"


def _vote(case: RewardCase, settings: RewardSettings) -> str | None:
    return case.rollout.trace.verdict if settings.votes == "policy" else verdict(case, settings)
