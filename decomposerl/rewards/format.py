"""Format: the share of structural conditions that a trace meets (paper, section 3.2, (1)).

    R_fmt = (conditions met) / (number of conditions)

The paper names three conditions; the published list below spells them out. All count alike.
"""

from collections.abc import Callable, Sequence

from decomposerl.rewards.reward import RewardCase, RewardResult
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


def format_reward(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:  # noqa: ARG001 - every reward takes settings
    """The share of ``CONDITIONS`` that each trace meets, 0..1."""
    met = (len(conditions_met(case.rollout.trace)) for case in cases)
    return [RewardResult(number / len(CONDITIONS)) for number in met]


def conditions_met(trace: Trace) -> tuple[str, ...]:
    """The names of the conditions that a trace meets."""
    return tuple(name for name, holds in CONDITIONS if holds(trace))
