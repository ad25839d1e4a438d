"""Format: the share of structural conditions that a trace meets (paper, section 3.2, (1)).

    R_fmt = (conditions met) / (number of conditions)

The paper names three conditions; the list below spells them out in eight. All count alike.
``format = literal`` counts the three: well-formed XML, questions and answers in turn, a valid final
verdict.
"""

from collections.abc import Callable

from decomposerl.rewards.reward import RewardCase, RewardResult, by_case, mean
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import FaultKind, Trace


def _without(*kinds: FaultKind) -> Callable[[Trace], bool]:
    unwanted = frozenset(kinds)
    return lambda trace: unwanted.isdisjoint(fault.kind for fault in trace.faults)


def _has_cycle(trace: Trace) -> bool:
    return all((fault.kind, fault.detail) != ("too_few_cycles", "0") for fault in trace.faults)


_answered = _without("no_question", "unanswered", "answer_without_question")
_thought_over = _without("no_thought_after_answer")
_one_verdict = _without("no_verdict", "several_verdicts", "not_last")
_known_label = _without("unknown_verdict", "no_verdict")
_well_formed = _without("unclosed", "stray_close", "malformed_tag", "empty", "text_outside")
_closed = _without("unclosed", "stray_close", "malformed_tag")
CONDITIONS: tuple[tuple[str, Callable[[Trace], bool]], ...] = (
    ("opens with a thought", _without("no_opening_thought")),
    ("asks at least one question, none twice", _without("no_question", "repeated_question")),
    ("every question is followed by its answer", _answered),
    ("a thought follows each cycle", lambda trace: _has_cycle(trace) and _thought_over(trace)),
    ("two complete cycles or more", _without("too_few_cycles")),
    ("exactly one closed verdict, and it is last", _one_verdict),
    ("the verdict is one of the labels", lambda t: t.verdict is not None and _known_label(t)),
    ("well-formed tags, no text outside", lambda trace: bool(trace.blocks) and _well_formed(trace)),
)
"""Name and test of each condition, by the faults of the exact tags: other tags pay nothing."""
PRINTED: tuple[tuple[str, Callable[[Trace], bool]], ...] = (
    ("well-formed XML", lambda t: bool(t.blocks) and _closed(t)),
    ("questions and answers alternate", lambda t: _has_cycle(t) and _answered(t)),
    ("a valid final verdict", lambda t: t.verdict is not None and _one_verdict(t)),
)
"""The paper's three conditions."""


@by_case
def format_reward(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """The share of the conditions that a trace meets, 0..1."""
    conditions = PRINTED if settings.format == "literal" else CONDITIONS
    return RewardResult(mean([holds(case.rollout.trace) for _, holds in conditions]))


def conditions_met(trace: Trace) -> tuple[str, ...]:
    """The names of the conditions that a trace meets."""
    return tuple(name for name, holds in CONDITIONS if holds(trace))
