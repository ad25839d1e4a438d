"""Question count: is the trace as long as the claim needs (paper, section 3.2, (3))?

    R_qc = max(0, 1 - |n / n* - 1|)

n is the number of complete question-answer pairs, n* that of silver sub-questions. The
kernel peaks at n = n* and is 0 from n = 2 n* on. Where a claim has no n* the reward is absent
for the whole group.
"""

from decomposerl.rewards.reward import RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings


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
