"""Joint quality: answerable, atomic and correct at once (paper, section 3.2, (7)).

    R_joint = (1/n) * sum over i of answerable_i * atomic_i * correct_i

atomic_i is k/5 for k criteria met, or 1 only for all five where ``atomicity = strict``; the
other two are 0 or 1. An abstention ("I don't know") has no correct_i. There the paper's
text and its formula differ: ``abstention = honest`` gives (1 - answerable_i) * atomic_i, which
rewards honesty about what the document does not say and not dodging; ``literal`` gives
answerable_i * atomic_i as printed; ``part`` pays as honest does, but only where the question asks
about a part of the claim. ``restating = marked`` pays 0 for a question that restates it. No
question: 0. A missing ruling makes the whole reward null.
"""

from collections.abc import Sequence

from decomposerl.prompts.judge import CRITERIA
from decomposerl.rewards.readings import asks_about_part, marked
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings

_FAILED = QuestionResult(None, "failed")


def joint(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """0..1; null where a ruling is missing."""
    return [_result(case, settings) for case in cases]


def _result(case: RewardCase, settings: RewardSettings) -> RewardResult:
    marks = marked(case, settings)
    questions = tuple(
        _question(case, place, settings, restates=mark) for place, mark in enumerate(marks)
    )
    values = [question.value for question in questions if question.value is not None]
    if len(values) < len(questions):
        return RewardResult(None, "failed", questions)
    return RewardResult(sum(values) / len(values) if values else 0.0, questions=questions)


def _question(
    case: RewardCase, place: int, settings: RewardSettings, *, restates: bool
) -> QuestionResult:
    """What the question at ``place`` earns; nothing for a restated claim."""
    rollout, signals = case.rollout, case.signals
    answerable, criteria = signals.answerable[place], signals.atomic[place]
    correct, abstained = signals.correct[place], signals.abstained[place]
    if answerable is None or criteria is None or (correct is None and not abstained):
        return _FAILED
    met, all_ = sum(criteria), len(CRITERIA)
    atomic = float(met == all_) if settings.atomicity == "strict" else met / all_
    if abstained:
        detail = f"answerable {answerable:d}, atomic {met}/{all_}"
        pays, state = (
            answerable if settings.abstention == "literal" else not answerable,
            "abstained",
        )
        question = rollout.trace.cycles[place].question
        if settings.abstention == "part" and not asks_about_part(rollout.claim, question):
            pays, state = False, "beside_the_claim"
    else:
        detail = f"answerable {answerable:d} x atomic {met}/{all_} x correct {correct:d}"
        pays, state = answerable and bool(correct), "answered"
    if restates:
        return QuestionResult(0.0, "restates", detail)
    return QuestionResult(float(pays) * atomic, state, detail)
