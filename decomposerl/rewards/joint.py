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

from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.readings import asks_about_part, marked
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings

_FAILED = QuestionResult(None, "failed")


@by_case
def joint(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """0..1; null where a ruling is missing."""
    places = enumerate(marked(case, settings))
    return RewardResult.of(tuple(_question(case, i, settings, restates=mark) for i, mark in places))


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
        question = rollout.trace.cycles[place].question
        beside = settings.abstention == "part" and not asks_about_part(rollout.claim, question)
        state = "beside_the_claim" if beside else "abstained"
        pays = not beside and answerable == (settings.abstention == "literal")
    else:
        state, pays = "answered", answerable and bool(correct)
    if restates:
        return QuestionResult(0.0, "restates")
    return QuestionResult(float(pays) * atomic, state)
