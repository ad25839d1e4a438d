"""Coverage: do the answers alone lead to the verdict (paper, section 3.2, (5))?

    R_cov = 1 if the judge's verdict from claim and answers is the label, else 0

Without a label the group's majority stands in for it (section 3.3, ``rewards.votes``); a
tie pays nobody. The judge may also say that the answers do not suffice; that is no label,
so it never matches. No answer: 0, without a call.

Left out deliberately: the document and the questions, which the judge does not see here.
"""

from collections.abc import Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.votes import pseudo_label
from decomposerl.traces.trace import Verdict


def coverage(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """1 or 0; null where the judge gave no verdict."""
    majority = pseudo_label(cases, settings)
    return [_score(case, majority) for case in cases]


def _score(case: RewardCase, majority: Verdict | None) -> RewardResult:
    if case.signals.full is None:
        return RewardResult(None, "failed")
    label = case.rollout.label if case.rollout.label is not None else majority
    return RewardResult(float(case.signals.full == label))
