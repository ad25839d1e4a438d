"""Question count: is the trace as long as the claim needs (paper, section 3.2, (3))?

    R_qc = max(0, 1 - |n / n* - 1|)

n is the number of complete question-answer pairs, n* that of silver sub-questions. The
kernel peaks at n = n* and is 0 from n = 2 n* on. Where a claim has no n* the reward is absent
for the whole group.
"""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings


def question_count(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:  # noqa: ARG001 - every reward takes settings
    """0..1 where n* is known, else absent.

    Raises:
        ValueError: an n* is below 1.
    """
    return [_result(len(case.rollout.trace.cycles), case.rollout.n_star) for case in cases]


def _result(asked: int, wanted: int | None) -> RewardResult:
    if wanted is None:
        return RewardResult(None, "absent")
    if wanted < 1:
        raise ValueError(f"n* is {wanted}; a claim has at least one silver sub-question")
    return RewardResult(max(0.0, 1.0 - abs(asked / wanted - 1.0)))
