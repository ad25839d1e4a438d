"""Coverage: do the answers alone lead to the verdict (paper, section 3.2, (5))?

    R_cov = 1 if the judge's verdict from claim and answers is the label, else 0

Without a label the group's majority replaces it (section 3.3, ``rewards.votes``); a tie gives 0.
The judge may also rule that the answers do not suffice, which matches no label. No answer: 0,
without a call.
"""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.votes import pseudo_label
from decomposerl.traces.trace import Verdict


def coverage(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """1 or 0; null where the judge gave no verdict."""
    majority = pseudo_label(cases, settings)
    return [_result(case, majority) for case in cases]


def _result(case: RewardCase, majority: Verdict | None) -> RewardResult:
    if case.signals.full is None:
        return RewardResult(None, "failed")
    label = case.rollout.label if case.rollout.label is not None else majority
    return RewardResult(float(case.signals.full == label))
