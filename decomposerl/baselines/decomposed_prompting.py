"""Decomposed Prompting: a decomposer names one step at a time, handlers run it (Khot et al. 2023).

The decomposer continues a list of steps, seeing the claim, the steps and their answers, but no
evidence. A step names its handler: ``[lookup]`` looks something up in the evidence, ``[check]``
says whether a statement holds by it, ``[compare]`` compares or counts earlier answers. ``#1`` in a
step stands for the answer of step 1 and is replaced before the step runs; a ``#n`` without an
answer is kept and counted. After the end marker a closing check on the claim itself gives the
result: the publication takes the last step's answer, which has to be about the claim.

Calls per claim: 2k + 1 + e, for k steps run: the decomposer's call and the handler's for each, and
the closing check. e is 1 for the call that brought the end (NONE, or a step that repeats another)
and 0 at the cap of 9 steps. A step that cannot be read, or names an unknown handler, ends the
claim as unparsed after 2k + 1 calls, without the closing check.

Replies: of the decomposer, ``[handler] text`` on one line, or NONE; a first line without a handler
that is a question goes to lookup. Of lookup and compare, plain text, or unknown. Of a check, Yes,
No or Unknown. Of the closing check, Supported or Refuted.

Not implemented: operators that map a handler over a list (a list of answers is one answer), and a
decomposer for each kind of step.
"""

import re
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply, Steps, Verification, ask
from decomposerl.baselines.pairs import Pair, Transcript, cycles_of, qa_lines, repeats
from decomposerl.baselines.replies import (
    read_question,
    read_truth,
    read_verdict,
    says_none,
    whole_text,
)
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.lines import lines_of, one_line

MOST_STEPS = 9
"""With the closing check ten, the public code's cap."""
OPENING = "The claim is settled step by step, each step by the handler that suits it."
_LABEL = re.compile(r"step\s?\d{0,2}\s?[:.]\s*", re.IGNORECASE)
_STEP = re.compile(r"\[([a-z_ ]{1,20})\]\s*(\S.*)", re.IGNORECASE)
_REFERENCE = re.compile(r"#(\d{1,2})\b")
_WORDS = {"true": "yes", "false": "no", "unknown": "unknown"}

Stop = Literal["end", "repeat", "cap", "unread", "unknown handler"]


@dataclass(slots=True)
class _StepTranscript(Transcript):
    """The steps so far: as they were written (``text``), and as they were run (``pairs``)."""

    dangling: int = 0
    unread_checks: int = 0

    def next_step(self) -> ModelCall:
        variables = {"claim": self.given.claim, "qa": qa_lines(self.pairs)}
        continues = f"{self.text}Step {len(self.pairs) + 1}:"
        return ModelCall("next_question", "next_step", variables, continues, ("\n#", "\nStep"), 256)

    def step(self, handler: str, step: str) -> ModelCall:
        evidence = self.given.evidence
        if handler == "check":
            return ModelCall("verify", "check", {"statement": step, "evidence": evidence})
        known = {"question": step, "evidence": evidence}
        if handler == "lookup":
            return ModelCall("answer", "lookup", known)
        return ModelCall("answer", "compare", {**known, "qa": qa_lines(self.pairs)})

    def add(self, handler: str, step: str, reply: ModelReply) -> None:
        answer = one_line(reply.text)
        if handler == "check":
            truth = read_truth(reply)
            self.unread_checks += truth is None
            answer = answer if truth is None else _WORDS[truth]
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
    """Steps until the end marker, then the closing check.

    Raises:
        CallFailedError: a call got no reply.
    """
    steps = _StepTranscript(given)
    stopped: Stop = "cap"
    while len(steps.pairs) < MOST_STEPS:
        (reply,) = yield from ask(steps.next_step())
        handler, step = _read_step(reply)
        step = steps.filled(step)
        stopped = _stop(handler, step, steps.pairs)
        if stopped != "cap":
            break
        (answer,) = yield from ask(steps.step(handler, step))
        steps.add(handler, step, answer)
    closed = stopped not in {"unread", "unknown handler"}
    if closed:
        (reply,) = yield from ask(ModelCall("verify", "verdict", steps.variables))
    return Verification.of_reply(
        read_verdict(reply) if closed else None,
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


def _read_step(reply: ModelReply) -> tuple[str, str]:
    """The handler and the text of a reply's first step; ``end`` without text, or two empty texts.

    One step a call is the publication's rule: further steps of a reply are ignored.
    """
    text = _LABEL.sub("", whole_text(reply).strip(), count=1)
    first = next(iter(lines_of(text)), "")
    step = _STEP.fullmatch(_LABEL.sub("", first, count=1))
    if step is not None:
        return step[1].strip().lower(), step[2]
    if says_none(first):
        return "end", ""
    question = read_question(first)
    return ("lookup", question) if question else ("", "")


def _stop(handler: str, step: str, pairs: list[Pair]) -> Stop:
    """Why the steps end; "cap" where they do not yet."""
    if handler == "end":
        return "end"
    if not step:
        return "unread"
    if handler not in {"lookup", "check", "compare"}:
        return "unknown handler"
    return "repeat" if repeats(step, pairs) else "cap"


METHOD = decomposing(
    decomposed_prompting,
    OPENING,
    name="decomposed_prompting",
    title="Decomposed Prompting",
    publication="Khot et al. 2023",
    calls="2k + 1 + e: k steps (at most 9), e = 1 for the call that brought the end",
    formula=lambda ended: 2 * len(ended.cycles) + 1 + (ended.notes["stopped"] in {"end", "repeat"}),
)
