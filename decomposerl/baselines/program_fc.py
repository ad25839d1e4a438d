"""ProgramFC: a program of questions and checks, written by the model and run (Pan et al. 2023).

A program is written for the claim; its ``Question`` steps are answered from the evidence, its
``Verify`` steps are checked against it, each with the results of earlier steps filled in, and
``Predict`` combines the checks.

Calls per claim: N + s, for N programs with s steps in all those that parse, that is N(1 + k) for
programs of k steps each, and the repeated calls. By default N is 1, written greedily; with
``ProgramSampling(5, 0.7)`` five are sampled, and more of them have to say Supported than Refuted.
All steps of all programs that depend on no open step run concurrently; no step has a side effect,
so order does not matter.

Replies. Program: the language of ``program``, alone, fenced, or between other lines
(``baselines.program``). Question: plain text. Verify: ``True``, ``False`` or ``Unknown``.

A program that does not parse, also when repeated, is rejected, counted, and has no vote. Unknown
facts are neither true nor false; a prediction that they leave open is Refuted, as in the
publication. A check that cannot be read, also when repeated, is unknown, and if the prediction
depends on it the program has no vote. Without any vote the claim is unparsed. Unlike the published
code, nothing is run by ``exec`` or ``eval``, no verdict is drawn at random, and an undefined name
rejects the program.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from decomposerl.baselines.method import (
    ClaimInput,
    Exchange,
    ModelCall,
    ModelReply,
    Procedure,
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
_SPOKEN: dict[Value, str] = {True: "Yes", False: "No", None: "unknown"}


@dataclass(frozen=True, slots=True)
class ProgramSampling:
    """How many programs are written, and at which temperature."""

    programs: int = 1
    temperature: float = 0.0


GREEDY, MAJORITY = ProgramSampling(), ProgramSampling(5, 0.7)


@dataclass(slots=True)
class _ProgramRun:
    """One reply: its program or the reason for its rejection, and the results of the steps."""

    written: ModelReply
    program: Program | None = None
    rejection: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    unread: list[ModelReply] = field(default_factory=list)

    @property
    def ready(self) -> tuple[ProgramStep, ...]:
        return ready_steps(self.program, self.values) if self.program else ()

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

    @property
    def vote(self) -> Verdict | None:
        """None: no program, or an unreadable reply leaves its prediction open."""
        if self.program is None:
            return None
        value = conclusion(self.program.expression, self.values)
        if value is None and self.unread:
            return None
        return "Supported" if value else "Refuted"


def program_fc(sampling: ProgramSampling = GREEDY) -> Procedure:
    """The faithful procedure with this many programs."""

    def procedure(given: ClaimInput) -> Steps:
        runs = yield from _programs(given.claim, sampling)
        yield from _run(given.evidence, runs)
        return _verification(runs)

    return procedure


def _programs(claim: str, sampling: ProgramSampling) -> Exchange[tuple[_ProgramRun, ...]]:
    variables, temperature = {"claim": claim}, sampling.temperature
    calls = (
        ModelCall("program", "program", variables, temperature=temperature, sample=sample)
        for sample in range(sampling.programs)
    )
    answered = yield from ask_each("program", *((call, _readable) for call in calls))
    return tuple(run or _parsed(reply) for reply, run in answered)


def _readable(reply: ModelReply) -> _ProgramRun | None:
    run = _parsed(reply)
    return run if run.program else None


def _parsed(reply: ModelReply) -> _ProgramRun:
    """A cut reply is no program, even where the rest of it would parse."""
    if reply.truncated:
        return _ProgramRun(reply, rejection="truncated")
    try:
        return _ProgramRun(reply, read_program(reply.text))
    except ProgramRejectedError as rejected:
        return _ProgramRun(reply, rejection=rejected.reason)


def _run(evidence: str, runs: Sequence[_ProgramRun]) -> Exchange[None]:
    """Run all steps of all programs, each as soon as the steps it refers to are done."""
    while ready := [(run, step) for run in runs for step in run.ready]:
        calls = ((_call(evidence, step), _READERS[step.function]) for _, step in ready)
        answered = yield from ask_each("truth", *calls)
        for (run, step), (reply, read) in zip(ready, answered, strict=True):
            run.add(step, reply, read)


def _call(evidence: str, step: ProgramStep) -> ModelCall:
    if step.function == "Question":
        variables = {"evidence": evidence, "question": step.text}
        return ModelCall("answer", "answer", variables, max_tokens=128)
    variables = {"evidence": evidence, "statement": step.text}
    return ModelCall("verify", "check", variables, max_tokens=128)


def _verification(runs: Sequence[_ProgramRun]) -> Verification:
    votes = [run.vote for run in runs]
    supported, refuted = votes.count("Supported"), votes.count("Refuted")
    verdict: Verdict | None = None
    if supported or refuted:
        verdict = "Supported" if supported > refuted else "Refuted"
    first = next((run for run in runs if run.program), runs[0])
    shown = next((run for run in runs if verdict and run.vote == verdict), first)
    program = shown.program
    pairs = [shown.pairs[step.name] for step in program.steps] if program else []
    opening = f"{OPENING} It holds if this does: {program.expression}." if program else OPENING
    return Verification(
        verdict,
        status_of(verdict, *(answer for run in runs for answer in (run.unread or [run.written]))),
        _transcript(program, pairs, shown.vote) if program else shown.written.text,
        cycles_of(pairs),
        thought(opening),
        notes={
            "programs": len(runs),
            "steps": sum(len(run.program.steps) for run in runs if run.program),
            "rejected": sum(run.program is None for run in runs),
            "rejections": " ".join(run.rejection for run in runs if run.rejection),
            "supported": supported,
            "refuted": refuted,
            "unread": sum(len(run.unread) for run in runs),
        },
    )


def _transcript(program: Program, pairs: Sequence[Pair], vote: Verdict | None) -> str:
    """The program with each line's result as a comment."""
    values = [*(one_line(answer) for _, answer in pairs), vote or "open"]
    lines = zip(write_program(program).split("\n"), values, strict=True)
    return "\n".join(f"{line}  # {value}" for line, value in lines)


METHOD = decomposing(
    program_fc(),
    OPENING,
    name="program_fc",
    title="ProgramFC",
    publication="Pan et al. 2023",
    calls="N + s: N programs (1), s steps in all",
    formula=lambda ended: int(ended.notes["programs"]) + int(ended.notes["steps"]),
    revision=2,
)
