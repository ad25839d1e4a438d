"""Necessity: does the verdict change without a question (paper, section 3.2, (6))?

With a label, by the judge's verdict from all answers and from all but the i-th:

    full right,  without wrong     +1    necessary
    full right,  without right     +1/2  redundant
    full wrong,  without wrong      0    neutral
    full wrong,  without right     -1    harmful

Right is as in coverage: where the label is "not enough information", an answer left in must show
what the document leaves open, so the one answer that shows it is necessary.

Without a label (section 3.3): 1 if the two verdicts differ (changed), else 0 (unchanged).
R_nec is the minimum over the questions, so no good question hides a harmful one; the mean
is a setting. No question: 0. A single question: without it there is no answer, which counts as
"not enough information" and takes no call. A missing ruling makes the whole reward null: a
minimum over the rest could hide the harmful question. ``grounding = required`` pays nothing for
a question whose answer the document does not bear out (ungrounded, 0); ``silence = refutes``
reads an abstention about a part as a refutation (``rewards.readings``).
"""

from decomposerl.rewards.readings import grounded, left_open, matches, verdicts
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult, by_case, mean
from decomposerl.rewards.settings import RewardSettings

_CELLS = {
    (True, False): "necessary",
    (True, True): "redundant",
    (False, False): "neutral",
    (False, True): "harmful",
}
"""By whether the verdict is right with the answer, and without it."""
_PAID = {"necessary": 1.0, "redundant": 0.5, "harmful": -1.0, "changed": 1.0}
"""What a question earns; nothing where it is neutral, unchanged or ungrounded."""


@by_case
def necessity(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """-1..1 with a label, 0..1 without; null where a ruling is missing."""
    label, open_ = case.rollout.label, left_open(case, claim=True)
    full, left = verdicts(case, settings)
    right = matches(full, label, open_)
    questions = []
    for place, (without, pays) in enumerate(zip(left, grounded(case, settings), strict=True)):
        still = matches(without, label, open_[:place] + open_[place + 1 :])
        if None in {full, without, pays, right, still}:
            questions.append(QuestionResult(None, "failed"))
            continue
        state = _CELLS[bool(right), bool(still)]
        if label is None:
            state = "unchanged" if full == without else "changed"
        if _PAID.get(state, 0.0) > 0 and not pays:
            state = "ungrounded"
        questions.append(QuestionResult(_PAID.get(state, 0.0), state))
    return RewardResult.of(tuple(questions), min if settings.necessity == "min" else mean)
