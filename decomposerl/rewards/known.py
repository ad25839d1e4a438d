"""Verification and question count: is the trace as what is known of its claim says?

    R_ver = 1 if the trace's verdict is the label, else 0    (paper, section 3.2, (2))
    R_qc = max(0, 1 - |n / n* - 1|)                           (3)

n is the number of complete question-answer pairs, n* that of silver sub-questions: the kernel peaks
at n = n* and is 0 from n = 2 n* on. A trace without a verdict, or with two different ones, gets 0.
Where the label, or n*, is unknown the reward is absent (null, not 0) for the whole group.
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


@by_case
def question_count(case: RewardCase, _settings: RewardSettings) -> RewardResult:
    """0..1 where n* is known, else absent.

    Raises:
        ValueError: n* is below 1.
    """
    asked, wanted = len(case.rollout.trace.cycles), case.rollout.n_star
    if wanted is None:
        return RewardResult(None, "absent")
    if wanted < 1:
        raise ValueError(f"n* is {wanted}; a claim has at least one silver sub-question")
    return RewardResult(max(0.0, 1.0 - abs(asked / wanted - 1.0)))
