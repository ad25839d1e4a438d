"""Format, verification and question count: what a trace earns without a judge.

    R_fmt = (conditions met) / (number of conditions)         (paper, section 3.2, (1))
    R_ver = 1 if the trace's verdict is the label, else 0     (2)
    R_qc = max(0, 1 - |n / n* - 1|)                           (3)

The paper names three conditions of the format; the list below spells them out in eight. All count
alike. ``format = literal`` counts the three: well-formed XML, questions and answers in turn, a
valid final verdict. n is the number of complete question-answer pairs, n* that of silver
sub-questions: the kernel peaks at n = n* and is 0 from n = 2 n* on. A trace without a verdict, or
with two different ones, gets 0. Where label or n* is unknown the reward is absent (null, not 0) for
the whole group.
"""

from collections.abc import Mapping

from decomposerl.rewards.reward import RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Trace

_UNANSWERED = {"no_question", "unanswered", "answer_without_question"}
_NOT_ONE_VERDICT = {"no_verdict", "several_verdicts", "not_last"}
_MALFORMED = {"no_block", "unclosed", "stray_close", "malformed_tag"}
Conditions = Mapping[str, set[str]]
CONDITIONS: Conditions = {
    "opens with a thought": {"no_opening_thought"},
    "asks at least one question, none twice": {"no_question", "repeated_question"},
    "every question is followed by its answer": _UNANSWERED,
    "a thought follows each cycle": {"too_few_cycles 0", "no_thought_after_answer"},
    "two complete cycles or more": {"too_few_cycles"},
    "exactly one closed verdict, and it is last": _NOT_ONE_VERDICT,
    "the verdict is one of the labels": {"undecided", "unknown_verdict", "no_verdict"},
    "well-formed tags, no text outside": {*_MALFORMED, "empty", "text_outside"},
}
"""What each condition excludes: faults of the exact tags (other tags pay nothing), and what a trace
lacks as a whole."""
PRINTED: Conditions = {
    "well-formed XML": _MALFORMED,
    "questions and answers alternate": {"too_few_cycles 0", *_UNANSWERED},
    "a valid final verdict": {"undecided", *_NOT_ONE_VERDICT},
}
"""The paper's three conditions."""


@by_case
def format_reward(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """The share of the conditions that a trace meets, 0..1."""
    conditions = PRINTED if settings.format == "literal" else CONDITIONS
    return RewardResult(len(conditions_met(case.rollout.trace, conditions)) / len(conditions))


def conditions_met(trace: Trace, conditions: Conditions = CONDITIONS) -> tuple[str, ...]:
    """The names of the conditions that a trace meets."""
    wrong = {"undecided"} if trace.verdict is None else set[str]()
    wrong |= set() if trace.blocks else {"no_block"}
    for fault in trace.faults:
        wrong |= {fault.kind, f"{fault.kind} {fault.detail}"}
    return tuple(name for name, excluded in conditions.items() if wrong.isdisjoint(excluded))


@by_case
def verification(case: RewardCase, _settings: RewardSettings) -> RewardResult:
    """1 or 0 where the claim has a label, else absent."""
    rollout = case.rollout
    if rollout.label is None:
        return RewardResult(None, "absent")
    return RewardResult(float(rollout.trace.verdict == rollout.label))


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
