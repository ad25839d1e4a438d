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

Replies: of the decomposer, ``[handler] text`` on one line, also without brackets
(``check: text``), or NONE; verify counts as check and calculate as compare. Under another handler
a question is looked up and a statement checked; a question without a handler is looked up. A reply
may open with other lines, and what follows its first step is not read. Of lookup and compare,
plain text, or unknown. Of a check, Yes, No or Unknown; another answer, also when repeated, is kept
as it is. Of the closing check, Supported or Refuted.

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
from decomposerl.replies.lines import bare, lines_of, one_line, plain_text, without_marks
from decomposerl.replies.lists import read_question, says_no_more, says_none

MOST_STEPS = 9
"""With the closing check ten, the public code's cap."""
OPENING = "The claim is settled step by step, each step by the handler that suits it."
_HANDLERS = ("lookup", "check", "compare")
_KNOWN = "|".join(_HANDLERS)
_LABEL = re.compile(
    r"(?:(?:sure|okay|certainly)[,.!]\s)?(?:[-*•]\s+)?(?:(?:the\s)?next\sstep(?:\sis)?\s?:\s*(?=step\s?\d))?"
    r"(?:(?:the\s)?next\sstep(?:\sis)?|step)\s?#?(?P<number>\d{0,2})\s?(?:[.:：)–-]|(?=[\[<*]))\s*"
    r"|\(?\d{1,2}[.)]\s+|[-*•]\s+",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?:handler\s?:\s*)?\[(?P<bracketed>[a-z_ ]{1,20})\]\s*:?\s*(?P<after>\S.*)"
    rf"|\[(?P<inner>{_KNOWN})\s?:\s*(?P<inside>[^\[\]]+)\]"
    r"|(?=[a-z]+\s?[:–—-]|\(|[a-z]+\s.*\?\Z)"
    rf"\(?(?P<plain>{_KNOWN})\b\)?\s*[:–—-]?\s*(?P<behind>\S.*)"
    rf"|(?P<called>{_KNOWN})\(\s*(?P<given>\S.*?)\s*\)",
    re.IGNORECASE,
)
_SYNONYMS = {
    **dict.fromkeys(("verify", "confirm", "validate", "fact check", "fact_check"), "check"),
    **dict.fromkeys(("calculate", "compute", "count", "order", "sort"), "compare"),
}
_NAMES = "|".join((*_HANDLERS, *_SYNONYMS))
_MARKED = re.compile(
    rf"(?:<({_NAMES})>|\*{{1,2}}({_NAMES})\s?:?\*{{1,2}})(?=\s*:?\s*\S)", re.IGNORECASE
)
_NAMED = re.compile(  # a handler's name on the line before its text
    rf"^(?:handler|operation|action|tool|type)\s?:\s*\[?({_NAMES})\]?\s*\n(?:[\w ]{{1,20}}:\s*)?",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(rf"</(?:{_NAMES})>", re.IGNORECASE)
_ENDS = {"none", "end", "done", "stop", "finish", "finished"}
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
    """Steps until the end marker, then the closing check.

    Raises:
        CallFailedError: a call got no reply.
    """
    steps = _StepTranscript(given)
    stopped: Stop = "cap"
    while len(steps.pairs) < MOST_STEPS:
        read = partial(_read_step, expected=len(steps.pairs) + 1)
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


def _read_step(text: str, expected: int) -> tuple[str, str] | None:
    """Handler and text of a reply's step; ``end`` without text where there is none left.

    One step a call is the publication's rule: of several, the one with the ``expected`` number is
    taken, else the first.
    """
    named = _NAMED.sub(r"[\1] ", plain_text(text))
    text = _MARKED.sub(lambda name: f"[{name[1] or name[2]}]", _CLOSING.sub("", named))
    steps: list[tuple[str, str, str]] = []
    for line in lines_of(text):
        step = _labelled_step(line)
        if step is not None:
            steps.append(step)
        elif says_none(line) and not steps:
            return "end", ""
    if steps:
        numbers = [number for number, _, _ in steps]
        place = numbers.index(str(expected)) if str(expected) in numbers else 0
        return steps[place][1:]
    question = read_question("\n".join(_LABEL.sub("", line, count=1) for line in lines_of(text)))
    if question is not None:
        return "lookup", question
    return ("end", "") if says_no_more(text) else None


def _labelled_step(line: str) -> tuple[str, str, str] | None:
    """Number, empty where there is none, handler and text of a line that is a step."""
    label = _LABEL.match(line.replace("`", ""))
    number = (label["number"] or "") if label else ""
    rest = line.replace("`", "")[label.end() if label else 0 :].strip()
    if bare(rest) in _ENDS:
        return number, "end", ""
    step = _STEP.fullmatch(rest)
    if step is None:
        return None
    handler = step["bracketed"] or step["inner"] or step["plain"] or step["called"]
    text = step["after"] or step["inside"] or step["behind"] or step["given"]
    known = handler.strip().lower()
    if known in _ENDS or bare(text) in _ENDS:
        return number, "end", ""
    return number, _known_handler(known, text), without_marks(text)


def _known_handler(name: str, text: str) -> str:
    """The handler of that name or a synonym; else a question is looked up, a statement checked."""
    handler = _SYNONYMS.get(name, name)
    if handler in _HANDLERS:
        return handler
    return "lookup" if without_marks(text).rstrip("\"'”*_ ").endswith("?") else "check"


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
