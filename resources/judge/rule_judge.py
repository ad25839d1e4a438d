"""A judge made of rules: the four rulings where no model can run (paper, section 3.2).

Takes judge calls, gives a ruling each, the same every time, and none fails. It compares
names, numbers, plain words and polarity and understands nothing; orders and forged tags in
what it reads are passed over, or cost the text that carries them. How well it does stands
in ``docs/explanation/embedded-engines.md``.
"""

from collections.abc import Sequence

from decomposerl.judge.call import JudgeCall, JudgeValue, Ruling
from resources.judge.rule_atomicity import atomicity
from resources.judge.rule_coverage import verdict
from resources.judge.rule_document import answerable, correct

RULES = 3
"""Raised whenever the rules change, so that stored rulings are not mixed."""


class RuleJudge:
    """A ``Judge`` that needs nothing installed and always rules."""

    @property
    def engine(self) -> str:
        """The rule set."""
        return f"rule_judge:{RULES}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; ``failure`` is always None."""
        return [Ruling(_value(call)) for call in calls]


def _value(call: JudgeCall) -> JudgeValue:
    match call.task:
        case "answerability":
            return answerable(call.document, call.question)
        case "atomicity":
            return tuple(atomicity(call.claim, call.question))
        case "correctness":
            return all(correct(call.document, call.question, a) for a in call.answers)
        case "coverage":
            return verdict(call.claim, call.answers)
