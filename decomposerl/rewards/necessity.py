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

from decomposerl.rewards.readings import grounded, left_open, matches, others, verdicts
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult, by_case, mean
from decomposerl.rewards.settings import RewardSettings

_FAILED = QuestionResult(None, "failed")
_UNGROUNDED = QuestionResult(0.0, "ungrounded")
_CHANGED, _UNCHANGED = QuestionResult(1.0, "changed"), QuestionResult(0.0, "unchanged")
_CELLS: dict[tuple[bool | None, bool | None], QuestionResult] = {
    (True, False): QuestionResult(1.0, "necessary"),
    (True, True): QuestionResult(0.5, "redundant"),
    (False, False): QuestionResult(0.0, "neutral"),
    (False, True): QuestionResult(-1.0, "harmful"),
}
"""By whether the verdict is right with the answer, and without it."""


@by_case
def necessity(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """-1..1 with a label, 0..1 without; null where a ruling is missing."""
    label, (full, left) = case.rollout.label, verdicts(case, settings)
    if label is None:
        found = [
            _FAILED if None in {full, without} else _UNCHANGED if full == without else _CHANGED
            for without in left
        ]
    else:
        open_ = left_open(case, claim=True)
        right = matches(full, label, open_)
        found = [
            _CELLS.get((right, matches(without, label, others(open_, place))), _FAILED)
            for place, without in enumerate(left)
        ]
    questions = tuple(map(_paid, found, grounded(case, settings)))
    return RewardResult.of(questions, min if settings.necessity == "min" else mean)


def _paid(question: QuestionResult, pays: bool | None) -> QuestionResult:  # noqa: FBT001 - a ruling
    """``question``, or nothing where it would earn by an answer that is not grounded."""
    if pays is None:
        return _FAILED
    earns = question.value is not None and question.value > 0
    return _UNGROUNDED if earns and not pays else question
