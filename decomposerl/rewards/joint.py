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

from decomposerl.judge.call import CRITERIA
from decomposerl.rewards.readings import asks_about_part, marked
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings

_FAILED = QuestionResult(None, "failed")


def joint(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """0..1; null where a ruling is missing."""
    return [_result(case, settings) for case in cases]


def _result(case: RewardCase, settings: RewardSettings) -> RewardResult:
    signals = case.signals
    rulings = zip(
        signals.answerable, signals.atomic, signals.correct, signals.abstained, strict=True
    )
    questions = tuple(_question(*ruling, settings) for ruling in rulings)
    questions = tuple(
        _unpaid(question, mark, cycle.question, case.rollout.claim, settings)
        for question, mark, cycle in zip(
            questions, marked(case, settings), case.rollout.trace.cycles, strict=True
        )
    )
    values = [question.value for question in questions if question.value is not None]
    if len(values) < len(questions):
        return RewardResult(None, "failed", questions)
    return RewardResult(sum(values) / len(values) if values else 0.0, questions=questions)


def _unpaid(
    ruled: QuestionResult,
    mark: bool,  # noqa: FBT001 - a reading
    question: str,
    claim: str,
    settings: RewardSettings,
) -> QuestionResult:
    """``ruled``, or 0 for a restated claim or an abstention about something else."""
    if ruled.value is None:
        return ruled
    if mark:
        return QuestionResult(0.0, "restates", ruled.detail)
    beside = settings.abstention == "part" and ruled.state == "abstained"
    if beside and not asks_about_part(claim, question):
        return QuestionResult(0.0, "beside_the_claim", ruled.detail)
    return ruled


def _question(
    answerable: bool | None,  # noqa: FBT001 - a ruling
    criteria: tuple[bool, ...] | None,
    correct: bool | None,  # noqa: FBT001 - a ruling
    abstained: bool,  # noqa: FBT001 - a reading
    settings: RewardSettings,
) -> QuestionResult:
    if answerable is None or criteria is None or (correct is None and not abstained):
        return _FAILED
    met = sum(criteria)
    atomic = float(met == len(CRITERIA)) if settings.atomicity == "strict" else met / len(CRITERIA)
    if not abstained:
        value = float(answerable) * atomic * float(bool(correct))
        detail = f"answerable {answerable:d} x atomic {met}/{len(CRITERIA)} x correct {correct:d}"
        return QuestionResult(value, "answered", detail)
    pays = answerable if settings.abstention == "literal" else not answerable
    detail = f"answerable {answerable:d}, atomic {met}/{len(CRITERIA)}"
    return QuestionResult(float(pays) * atomic, "abstained", detail)
