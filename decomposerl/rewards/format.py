"""Format: the share of structural conditions that a trace meets (paper, section 3.2, (1)).

    R_fmt = (conditions met) / (number of conditions)

The paper names three conditions; the list below spells them out in eight. All count alike.
``format = literal`` counts the three: well-formed XML, questions and answers in turn, a valid final
verdict.
"""

from collections.abc import Mapping

from decomposerl.rewards.reward import RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Trace

_UNANSWERED = {"no_question", "unanswered", "answer_without_question"}
_NOT_ONE_VERDICT = {"no_verdict", "several_verdicts", "not_last"}
_MALFORMED = {"no_block", "unclosed", "stray_close", "malformed_tag"}
CONDITIONS: Mapping[str, set[str]] = {
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
PRINTED: Mapping[str, set[str]] = {
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


def conditions_met(
    trace: Trace, conditions: Mapping[str, set[str]] = CONDITIONS
) -> tuple[str, ...]:
    """The names of the conditions that a trace meets."""
    wrong = {"undecided"} if trace.verdict is None else set[str]()
    wrong |= set() if trace.blocks else {"no_block"}
    for fault in trace.faults:
        wrong |= {fault.kind, f"{fault.kind} {fault.detail}"}
    return tuple(name for name, excluded in conditions.items() if wrong.isdisjoint(excluded))
