"""Decomposed Prompting: a decomposer names one step at a time, handlers run it (Khot et al. 2023).

The decomposer continues a list of steps, seeing the claim, the steps and their answers, but no
evidence. A step names its handler: ``[lookup]`` looks something up in the evidence, ``[check]``
says whether a statement holds by it, ``[compare]`` compares or counts earlier answers. ``#1`` in a
step stands for the answer of step 1 and is replaced before the step runs; a ``#n`` without an
answer is kept and counted. After the end marker a closing check on the claim itself gives the
result: the publication takes the last step's answer, which has to be about the claim.

Calls per claim: 2k + 1 + e, for k steps run: the decomposer's call and the handler's for each, and
the closing check; and the repeated calls. e is 1 for the call that brought the end (NONE, a step
that repeats another, or one that cannot be read, also when repeated) and 0 at the cap of 9 steps.

Replies: of the decomposer, ``[handler] text`` on one line, or NONE; what follows its first step is
not read (``replies.steps``). Of lookup and compare, plain text, or unknown. Of a check, Yes, No or
Unknown; another answer, also when repeated, is kept as it is. Of the closing check, the verdict.

Not implemented: operators that map a handler over a list (a list of answers is one answer), and a
decomposer for each kind of step.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Steps,
    Verification,
    ask_read,
    ask_verdict,
)
from decomposerl.baselines.pairs import Pair, Transcript, cycles_of, qa_lines, repeats
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, read_truth
from decomposerl.replies.lines import one_line
from decomposerl.replies.steps import read_handled_step

MOST_STEPS = 9
"""With the closing check ten, the public code's cap."""
OPENING = "The claim is settled step by step, each step by the handler that suits it."
_REFERENCE = re.compile(r"#(\d{1,2})\b")
_WORDS = {"true": "yes", "false": "no", "unknown": "unknown"}

Stop = Literal["end", "repeat", "cap", "unread"]


@dataclass(slots=True)
class _StepTranscript(Transcript):
    """The steps so far: as they were written (``text``), and as they were run (``pairs``)."""

    dangling: int = 0
    unread_checks: int = 0

    def next_step(self) -> ModelCall:
        variables = {"claim": self.given.claim, "qa": qa_lines(self.pairs)}
        number = len(self.pairs) + 1
        continues, slot = f"{self.text}Step {number}:", f"\n#{number}:"
        return ModelCall("next_question", "next_step", variables, continues, (slot,), 256)

    def step(self, handler: str, step: str) -> ModelCall:
        evidence = self.given.evidence
        if handler == "check":
            return ModelCall("verify", "check", {"statement": step, "evidence": evidence})
        known = {"question": step, "evidence": evidence}
        if handler == "lookup":
            return ModelCall("answer", "lookup", known)
        return ModelCall("answer", "compare", {**known, "qa": qa_lines(self.pairs)})

    def add(self, handler: str, step: str, answer: str) -> None:
        if handler == "check":
            self.unread_checks += answer not in _WORDS
            answer = _WORDS.get(answer, answer)
        self.pairs.append((step, answer))
        number = len(self.pairs)
        self.text += f"Step {number}: [{handler}] {step}\n#{number}: {answer}\n"

    def filled(self, step: str) -> str:
        """The step with each ``#n`` replaced by the answer of step n, where there is one."""

        def answer(reference: re.Match[str]) -> str:
            number = int(reference[1])
            if 1 <= number <= len(self.pairs):
                return self.pairs[number - 1][1]
            self.dangling += 1
            return reference[0]

        return one_line(_REFERENCE.sub(answer, step))


def decomposed_prompting(given: ClaimInput) -> Steps:
    """Steps until the end marker, then the closing check."""
    steps = _StepTranscript(given)
    stopped: Stop = "cap"
    while len(steps.pairs) < MOST_STEPS:
        read = partial(read_handled_step, expected=len(steps.pairs) + 1)
        ((_, written),) = yield from ask_read(read, "step", steps.next_step())
        handler, step = written or ("", "")
        step = steps.filled(step)
        stopped = _stop(handler, step, steps.pairs)
        if stopped != "cap":
            break
        read_answer = read_truth if handler == "check" else answer_text
        ((found, answer),) = yield from ask_read(read_answer, "truth", steps.step(handler, step))
        steps.add(handler, step, answer_text(found.text) if answer is None else answer)
    reply, verdict = yield from ask_verdict(ModelCall("verify", "verdict", steps.variables))
    return Verification.of_reply(
        verdict,
        reply,
        cycles_of(steps.pairs),
        OPENING,
        text=steps.text + reply.text,
        notes={
            "stopped": stopped,
            "dangling": steps.dangling,
            "unread_checks": steps.unread_checks,
        },
    )


def _stop(handler: str, step: str, pairs: list[Pair]) -> Stop:
    """Why the steps end; "cap" where they do not yet."""
    if handler == "end":
        return "end"
    if not step:
        return "unread"
    return "repeat" if repeats(step, pairs) else "cap"


METHOD = decomposing(
    decomposed_prompting,
    OPENING,
    name="decomposed_prompting",
    title="Decomposed Prompting",
    publication="Khot et al. 2023",
    calls="2k + 1 + e: k steps (at most 9), e = 1 for the call that ends",
    formula=lambda ended: 2 * len(ended.cycles) + 1 + (ended.notes["stopped"] != "cap"),
    revision=2,
    three_way=True,
)
