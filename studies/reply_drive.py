"""A baseline driven by written replies: the reply under test among plain ones that read.

The reply under test goes to the calls of its template, cut at the call's stop strings as an
endpoint cuts it; every other call gets a plain reply. What was read shows in the calls that follow,
in the cycles, the notes and the verdict, so a reading is that of the method's own code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply, Verification
from studies.reply_rows import Row

Script = Mapping[str, tuple[str, ...]]
"""Replies to the calls of each template, in order; the last one is repeated."""

CLAIM, EVIDENCE = "Ada Holm built the mill.", "Ada Holm built the mill in 1840."
QUESTION, PAIR = "Who built the mill?", "Q1: Who built the mill?\nSure: no\nA1: Ada Holm."
PREDICATE = "Built(Ada Holm, mill) | Ada Holm built the mill. | Who built the mill?"
PROGRAM = (
    f'answer_1 = Question("{QUESTION}")\nfact_1 = Verify("{{answer_1}} built the mill.")\n'
    "label = Predict(fact_1)"
)
_METHODS = {method.name: method for method in ENTRY_METHODS}
_MOST_CALLS = 1_000
_COMMON: Script = {
    "answer": ("Ada Holm",),
    "lookup": ("Ada Holm",),
    "compare": ("Ada Holm",),
    "check": ("True",),
    "summary": (EVIDENCE,),
    "verdict": ("Supported",),
}
_PLAIN: Mapping[str, Script] = {
    "self_ask": {"transcript": (f"Follow up: {QUESTION}", "NONE")},
    "decomposed_prompting": {"next_step": (f"[lookup] {QUESTION}", "NONE")},
    "hiss": {"split": ("NONE",), "work_through": (PAIR,)},
    "folk": {"predicates": (f"1. {PREDICATE}",), "verdict": ("1: True - it says so\n[Supported]",)},
    "program_fc": {"program": (PROGRAM,)},
    "chen_2024": {"questions": ("1. Did Ada Holm build the mill?", "NONE"), "select": ("1",)},
    "claimdecomp": {"questions": ("1. Did Ada Holm build the mill? | yes",), "answer": ("Yes",)},
    "qacheck": {
        "first_question": (QUESTION,),
        "sufficient": ("Yes",),
        "next_question": ("NONE",),
        "statement": (EVIDENCE,),
    },
}


@dataclass(frozen=True, slots=True)
class MethodRun:
    """All calls of a method in order, and how the claim ended."""

    calls: tuple[ModelCall, ...]
    ended: Verification

    def sent(self, template: str) -> list[ModelCall]:
        """The calls of a template, in order."""
        return [call for call in self.calls if call.template == template]

    def after(self, template: str) -> ModelCall | None:
        """The call that follows the first calls of a template, repeated ones skipped."""
        first = [call.template for call in self.calls].index(template)
        return next((call for call in self.calls[first:] if call.template != template), None)


def drive(row: Row, given: ClaimInput | None = None, **changed: tuple[str, ...]) -> MethodRun:
    """Run the method and protocol of ``row.operation`` with the reply under test.

    ``changed`` replaces the plain replies to a template.

    Raises:
        LookupError: the method calls a template that has no plain reply, never calls the one under
            test, or does not end.
    """
    name, protocol, target = row.operation.split("/")
    script = {**_COMMON, **_PLAIN.get(name, {}), target: (row.reply,), **changed}
    model = _ScriptedModel(script, target, truncated=row.truncated)
    procedures: Mapping[Any, Any] = _METHODS[name].procedures
    steps = procedures[protocol](given or ClaimInput(row.claim or CLAIM, EVIDENCE))
    try:
        group = next(steps)
        while True:
            group = steps.send(tuple(map(model.reply, group)))
    except StopIteration as end:
        run = MethodRun(tuple(model.calls), end.value)
    if not run.sent(target):
        raise LookupError(f"{row.operation}: the method makes no call of this template")
    return run


@dataclass(slots=True)
class _ScriptedModel:
    """Replies from a script; ``truncated`` is that of the replies to ``target``."""

    script: Script
    target: str
    truncated: bool
    calls: list[ModelCall] = field(default_factory=list)

    def reply(self, call: ModelCall) -> ModelReply:
        if call.template not in self.script or len(self.calls) == _MOST_CALLS:
            raise LookupError(f"no reply for call {len(self.calls)}, template {call.template!r}")
        replies = self.script[call.template]
        before = sum(earlier.template == call.template for earlier in self.calls)
        self.calls.append(call)
        whole = replies[min(before, len(replies) - 1)]
        text = _until(call.stop, whole)
        cut = self.truncated and call.template == self.target and text == whole
        return ModelReply(text, truncated=cut)


def _until(stops: tuple[str, ...], text: str) -> str:
    """The text before the first of the stop strings."""
    places = [text.find(stop) for stop in stops if stop in text]
    return text[: min(places)] if places else text
