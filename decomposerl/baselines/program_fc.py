"""ProgramFC: a program of questions and checks, written by the model and run (Pan et al. 2023).

A program is written for the claim, greedily; its ``Question`` steps are answered from the evidence,
its ``Verify`` steps are checked against it, each with the results of earlier steps filled in, and
``Predict`` combines the checks.

Calls per claim: 1 + s, for a program with s steps, and the repeated calls. All steps that depend on
no open step run concurrently; no step has a side effect, so order does not matter.

Replies. Program: the language of ``program``, alone, fenced, or between other lines
(``baselines.program``). Question: plain text. Verify: ``True``, ``False`` or ``Unknown``.

A program that does not parse, also when repeated, leaves the claim unparsed. Unknown
facts are neither true nor false; a prediction that they leave open is Refuted, as in the
publication. A check that cannot be read, also when repeated, is unknown, and if the prediction
depends on it the claim is unparsed. Unlike the published code, nothing is run by ``exec`` or
``eval``, no verdict is drawn at random, and an undefined name rejects the program.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask_each,
    status_of,
)
from decomposerl.baselines.pairs import Pair, cycles_of, thought
from decomposerl.baselines.program import (
    Function,
    Program,
    ProgramRejectedError,
    ProgramStep,
    Value,
    conclusion,
    read_program,
    ready_steps,
    write_program,
)
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, read_truth
from decomposerl.replies.lines import one_line
from decomposerl.traces.trace import Verdict

OPENING = "The claim is checked by a program of questions and checks."
_LAST_STOP = re.compile(r"(?<=[^.\s])\.\Z(?<!\.\w\.)")
_TRUTHS: dict[str | None, bool | None] = {"true": True, "false": False}
_READERS: dict[Function, Callable[[ModelReply], str | None]] = {
    "Question": lambda reply: answer_text(reply.text) or "unknown",
    "Verify": lambda reply: read_truth(reply.whole),
}
_VERDICTS: dict[bool, Verdict] = {True: "Supported", False: "Refuted"}
_SPOKEN: dict[Value, str] = {True: "Yes", False: "No", None: "unknown"}


@dataclass(slots=True)
class _ProgramRun:
    """One reply: its program or the reason for its rejection, and the results of the steps."""

    written: ModelReply
    program: Program | None = None
    rejection: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    unread: list[ModelReply] = field(default_factory=list)

    def add(self, step: ProgramStep, reply: ModelReply, read: str | None) -> None:
        """Keep what was read for ``step``, which has its references filled in."""
        if step.function == "Question":
            self.values[step.name] = _LAST_STOP.sub("", read or "")
            self.pairs[step.name] = (step.text, read or "")
            return
        value = _TRUTHS.get(read)
        self.values[step.name] = value
        said = _SPOKEN[value] if value is None else f"{_SPOKEN[value]}. {step.text}"
        self.pairs[step.name] = (f"Is it true that {step.text.rstrip('. ')}?", said)
        self.unread += [reply] if read is None else []


def _procedure(given: ClaimInput) -> Steps:
    call = ModelCall("program", "program", {"claim": given.claim})
    readable = (call, lambda reply: run if (run := _parsed(reply)).program else None)
    ((reply, read_run),) = yield from ask_each("program", readable)
    run = read_run or _parsed(reply)
    # Each step runs as soon as the steps it refers to are done.
    while ready := ready_steps(run.program, run.values) if run.program else ():
        calls = ((_call(given.evidence, step), _READERS[step.function]) for step in ready)
        answered = yield from ask_each("truth", *calls)
        for step, (answer, read) in zip(ready, answered, strict=True):
            run.add(step, answer, read)
    return _verification(run)


def _parsed(reply: ModelReply) -> _ProgramRun:
    """A cut reply is no program, even where the rest of it would parse."""
    if reply.truncated:
        return _ProgramRun(reply, rejection="truncated")
    try:
        return _ProgramRun(reply, read_program(reply.text))
    except ProgramRejectedError as rejected:
        return _ProgramRun(reply, rejection=rejected.reason)


def _call(evidence: str, step: ProgramStep) -> ModelCall:
    asks = step.function == "Question"
    variables = {"evidence": evidence, "question" if asks else "statement": step.text}
    template = "answer" if asks else "check"
    return ModelCall("answer" if asks else "verify", template, variables, max_tokens=128)


def _verification(run: _ProgramRun) -> Verification:
    program, verdict = run.program, None
    value = conclusion(program.expression, run.values) if program else None
    if program and not (value is None and run.unread):  # what cannot be read leaves it open
        verdict = _VERDICTS[bool(value)]
    pairs = [run.pairs[step.name] for step in program.steps] if program else []
    shown, results = run.written.text, [*(one_line(said) for _, said in pairs), verdict or "open"]
    if program:  # each line with its result as a comment
        lines = zip(write_program(program).split("\n"), results, strict=True)
        shown = "\n".join(f"{line}  # {result}" for line, result in lines)
    opening = f"{OPENING} It holds if this does: {program.expression}." if program else OPENING
    return Verification(
        verdict,
        status_of(verdict, *(run.unread or [run.written])),
        shown,
        cycles_of(pairs),
        thought(opening),
        notes={
            "programs": 1,
            "steps": len(pairs),
            "rejected": int(program is None),
            "rejections": run.rejection,
            "supported": int(verdict == "Supported"),
            "refuted": int(verdict == "Refuted"),
            "unread": len(run.unread),
        },
    )


METHOD = decomposing(
    _procedure,
    OPENING,
    name="program_fc",
    title="ProgramFC",
    publication="Pan et al. 2023",
    calls="1 + s, s steps",
    formula=lambda ended: 1 + int(ended.notes["steps"]),
    revision=2,
)
