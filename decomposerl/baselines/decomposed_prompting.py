"""Decomposed Prompting: a decomposer names one step at a time, handlers run it (Khot et al. 2023).

The decomposer goes on with a list of steps, seeing the claim, the steps and their answers, but no
evidence. A step names its handler: ``[lookup]`` finds something in the evidence, ``[check]`` says
whether a statement holds by it, ``[compare]`` compares or counts what is known. ``#1`` in a step
stands for the answer of step 1 and is replaced before the step runs. After the end marker the
router puts the claim itself to a closing check, whose answer is the result: the publication takes
the last step's answer, so that the last step has to be about the claim.

Calls per claim: 2k + 1 + e, for k steps run: the decomposer's call and the handler's for each, and
the closing check. e is 1 for the call that brought the end (NONE, or a step that repeats another)
and 0 at the cap of 9 steps. A step that cannot be read, or names a handler that is not there, ends
the claim as unparsed after 2k + 1 calls, without the closing check.

Replies: of the decomposer, ``[handler] text`` on one line, or NONE; a first line without a handler
that is a question goes to lookup. Of lookup and compare, plain text, or unknown. Of a check, Yes,
No or Unknown. Of the closing check, Supported or Refuted.

Left out deliberately: operators that map a handler over a list (a list of answers is one answer),
and a decomposer for each kind of step. A ``#n`` without an answer stays as it is, and is counted.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.pairs import Pair, cycles_of, one_line, qa_lines, repeats
from decomposerl.baselines.replies import (
    lines_of,
    read_question,
    read_verdict,
    read_yes_no,
    says_none,
    whole_text,
)
from decomposerl.baselines.single_call import written_out

MOST_STEPS = 9
"""With the closing check ten, the public code's cap."""
OPENING = "The claim is settled step by step, each step by the handler that suits it."
_LABEL = re.compile(r"step\s?\d{0,2}\s?[:.]\s*", re.IGNORECASE)
_STEP = re.compile(r"\[([a-z_ ]{1,20})\]\s*(\S.*)", re.IGNORECASE)
_REFERENCE = re.compile(r"#(\d{1,2})\b")
_WORDS = {"true": "yes", "false": "no", "unknown": "unknown"}

Stop = Literal["end", "repeat", "cap", "unread", "unknown handler"]


@dataclass(slots=True)
class _Run:
    """The steps so far: as they were written (``text``), and as they were run (``pairs``)."""

    question: ClaimInput
    text: str = ""
    pairs: list[Pair] = field(default_factory=list)
    dangling: int = 0
    unread_checks: int = 0

    def next_step(self) -> ModelCall:
        variables = {"claim": self.question.claim, "qa": qa_lines(self.pairs)}
        continues = f"{self.text}Step {len(self.pairs) + 1}:"
        return ModelCall("next_question", "next_step", variables, continues, ("\n#", "\nStep"), 256)

    def step(self, handler: str, step: str) -> ModelCall:
        evidence = self.question.evidence
        if handler == "check":
            return ModelCall("verify", "check", {"statement": step, "evidence": evidence})
        if handler == "lookup":
            return ModelCall("answer", "lookup", {"question": step, "evidence": evidence})
        known = {"evidence": evidence, "qa": qa_lines(self.pairs)}
        return ModelCall("answer", "compare", {"question": step, **known})

    def closing(self) -> ModelCall:
        known = {"claim": self.question.claim, "evidence": self.question.evidence}
        return ModelCall("verify", "verdict", {**known, "qa": qa_lines(self.pairs)})

    def add(self, handler: str, step: str, reply: ModelReply) -> None:
        answer = one_line(reply.text)
        if handler == "check":
            truth = read_yes_no(reply)
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


def decomposed_prompting(question: ClaimInput) -> Steps:
    """Steps until the end marker, then the closing check.

    Raises:
        CallFailedError: a call got no answer.
    """
    run = _Run(question)
    stopped: Stop = "cap"
    while len(run.pairs) < MOST_STEPS:
        (reply,) = yield from ask(run.next_step())
        handler, step = _read_step(reply)
        step = run.filled(step)
        stopped = _stop(handler, step, run.pairs)
        if stopped != "cap":
            break
        (answer,) = yield from ask(run.step(handler, step))
        run.add(handler, step, answer)
    if stopped not in {"unread", "unknown handler"}:
        (reply,) = yield from ask(run.closing())
    return _verification(run, reply, stopped)


def _read_step(reply: ModelReply) -> tuple[str, str]:
    """The handler and the text of a reply's first step; ``end`` without text, or twice nothing.

    One step a call is the publication's rule, so further steps of a reply are not looked at.
    """
    text = _LABEL.sub("", whole_text(reply).strip(), count=1)
    first = next(iter(lines_of(text)), "")
    step = _STEP.fullmatch(_LABEL.sub("", first, count=1))
    if step is not None:
        return step[1].strip().lower(), step[2]
    if says_none(first):
        return "end", ""
    asked = read_question(first)
    return ("lookup", asked) if asked else ("", "")


def _stop(handler: str, step: str, pairs: list[Pair]) -> Stop:
    """Why the steps end; "cap" where they do not yet."""
    if handler == "end":
        return "end"
    if not step:
        return "unread"
    if handler not in {"lookup", "check", "compare"}:
        return "unknown handler"
    return "repeat" if repeats(step, pairs) else "cap"


def _verification(run: _Run, reply: ModelReply, stopped: Stop) -> Verification:
    closed = stopped not in {"unread", "unknown handler"}
    verdict = read_verdict(reply) if closed else None
    notes = {"stopped": stopped, "dangling": run.dangling, "unread_checks": run.unread_checks}
    return Verification(
        verdict,
        status_of(verdict, reply),
        run.text + reply.text,
        cycles_of(run.pairs),
        OPENING,
        spoken=reply,
        notes=notes,
    )


def expected_calls(ended: Verification) -> int:
    """2k + 1 + e, as the module says."""
    return 2 * len(ended.cycles) + 1 + (ended.notes["stopped"] in {"end", "repeat"})


METHOD = Method(
    name="decomposed_prompting",
    title="Decomposed Prompting",
    publication="Khot et al. 2023",
    calls="2k + 1 + e: k steps (at most 9), e = 1 for the call that brought the end",
    procedures={"faithful": decomposed_prompting, "single_call": written_out(OPENING)},
    expected_calls=expected_calls,
    prompt="decomposed_prompting",
)
