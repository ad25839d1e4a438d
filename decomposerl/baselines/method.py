"""What a baseline is: a generator of calls to a model that ends with a verdict.

A procedure takes a claim with its evidence, yields groups of ``ModelCall`` values that may run
concurrently, is sent their ``ModelReply`` values in order, and returns a ``Verification``::

    def steps(given: ClaimInput) -> Steps:
        (reply,) = yield from ask(ModelCall("verify", "verdict", given.variables))
        return Verification.of_reply(reply.verdict, reply)

A call names its operation beside the template and its variables, so that a chat model answers
from the filled template and rules answer from the variables. A call without a reply ends the claim:
``ask``, and all that asks through it, raises ``CallFailedError``, which the runner records.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from decomposerl.chat import Token
from decomposerl.replies.answers import read_verdict
from decomposerl.schemas import LABELS
from decomposerl.traces.trace import Cycle, Verdict

Operation = Literal[
    "decompose",  # write questions, sub-claims or predicates of a claim
    "next_question",  # write the next question, given those answered so far
    "answer",  # answer one question from evidence alone
    "verify",  # say whether a statement holds, by evidence or by what was answered
    "judge_sufficient",  # say whether the known answers suffice
    "program",  # write a program over questions and checks
    "select",  # pick the passages that bear on a question
    "summarise",  # condense evidence with respect to a claim
    "state",  # turn a question and its answer into one statement
    "procedure",  # the whole method written out in one completion
]
Protocol = Literal["faithful", "single_call"]
ParseStatus = Literal[
    "parsed",  # a verdict was read
    "unparsed",  # the outputs hold none; counted as wrong, never guessed
    "truncated",  # the token limit cut the output that would have held it
    "failed",  # a call got no reply
]
Notes = Mapping[str, str | int | float | bool]
AGAIN = "asked_again"
"""The note with the number of repeated calls."""


@dataclass(frozen=True, slots=True)
class ClaimInput:
    """A claim to verify. ``passages`` are the evidence's units, in order."""

    claim: str
    evidence: str
    passages: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """Claim and evidence by the names that templates give them."""
        return {"claim": self.claim, "evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model.

    ``template`` is a section of the method's prompt file and ``variables`` fill all of its
    placeholders. ``continues`` is text of the assistant's own turn that the reply continues (a
    running transcript), ``stop`` ends it, ``temperature`` 0 is greedy, ``sample`` distinguishes
    equal calls of a sampled method. ``concludes``: the reply may hold the verdict although the
    operation does not say so. ``form`` is empty, or the section of ``again.md`` that is added where
    the reply to this call could not be read: it names the form that is missing.
    """

    operation: Operation
    template: str
    variables: Mapping[str, str]
    continues: str = ""
    stop: tuple[str, ...] = ()
    max_tokens: int = 1_024
    temperature: float = 0.0
    sample: int = 0
    concludes: bool = False
    form: str = ""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The model's reply. ``text`` continues where ``ModelCall.continues`` ended.

    ``truncated``: the token limit ended it. ``failure`` gives the reason where there is no reply,
    else it is empty. ``tokens`` is filled where the engine gives log-probabilities. ``labels`` are
    the verdicts that its prompt offered (``offering``).
    """

    text: str
    truncated: bool = False
    failure: str = ""
    tokens: tuple[Token, ...] = ()
    labels: tuple[Verdict, ...] = LABELS

    @property
    def whole(self) -> str:
        """The text without the half line that a token limit leaves at its end."""
        return self.text.rpartition("\n")[0] if self.truncated else self.text

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, among those that the prompt offered."""
        return read_verdict(self.text, truncated=self.truncated, labels=self.labels)


@dataclass(frozen=True, slots=True)
class Verification:
    """How a claim ended.

    ``opening``, ``cycles`` and the verdict make a trace that the rewards can score (cycles with an
    empty thought get the method's own words). ``reply`` is for people to read: the output that
    holds the verdict, or the transcript. ``spoken`` is the reply whose tokens spell the verdict,
    where there is one. ``notes`` are a method's own findings (programs rejected, a bracket that
    disagrees with its predicates, questions repeated), short names to values.
    """

    verdict: Verdict | None
    status: ParseStatus
    reply: str
    cycles: tuple[Cycle, ...] = ()
    opening: str = ""
    spoken: ModelReply | None = None
    notes: Notes = field(default_factory=dict)

    @classmethod
    def of_reply(
        cls,
        verdict: Verdict | None,
        reply: ModelReply,
        cycles: tuple[Cycle, ...] = (),
        opening: str = "",
        *,
        text: str | None = None,
        notes: Notes | None = None,
    ) -> "Verification":
        """The end of a claim whose last reply was read; ``text`` replaces the reply's own."""
        text = reply.text if text is None else text
        status = status_of(verdict, reply)
        return cls(verdict, status, text, cycles, opening, spoken=reply, notes=notes or {})

    @classmethod
    def unread(cls, *replies: ModelReply, notes: Notes) -> "Verification":
        """The end of a claim where nothing could be read in ``replies`` to go on with."""
        return cls(None, status_of(None, *replies), replies[-1].text, notes=notes)


Result = TypeVar("Result")
Exchange = Generator[tuple[ModelCall, ...], tuple[ModelReply, ...], Result]
"""Yields groups of calls, is sent their replies, returns a result."""
Answers = Exchange[tuple[tuple[ModelReply, Result | None], ...]]
"""An exchange that gives each reply with what was read in it."""
Steps = Exchange[Verification]
Procedure = Callable[[ClaimInput], Steps]


class CallFailedError(Exception):
    """A call got no reply; ``str`` is the reason. Ends the claim as ``failed``."""


@dataclass(frozen=True, slots=True)
class Method:
    """One published method. ``name`` is its file, ``prompt`` its prompt file's name.

    ``procedures`` are its protocols: ``faithful`` calls the model as often as the publication
    does, ``single_call`` has the same procedure written out in one completion. ``calls`` states
    the faithful number of calls per claim as a formula, without the calls that were repeated
    because a reply could not be read; ``formula`` computes it from how a claim ended faithfully,
    without counting calls. ``engine`` is the port behind it: a chat model, or a verifier
    (MiniCheck). ``three_way``: its model may end with the third verdict where the prompt offers it;
    a method whose rules decide has two. ``revision`` is raised whenever a change of the method's
    code may change a verdict, its trace or its calls, so that earlier results are not reused.
    """

    name: str
    title: str
    publication: str
    calls: str
    procedures: Mapping[Protocol, Procedure]
    formula: Callable[[Verification], int]
    prompt: str = ""
    decomposes: bool = True
    engine: Literal["chat", "verifier"] = "chat"
    revision: int = 1
    three_way: bool = False

    def expected_calls(self, ended: Verification, protocol: Protocol = "faithful") -> int:
        """How many calls a claim that ended this way has cost, the repeated ones included."""
        calls = self.formula(ended) if protocol == "faithful" else 1
        return calls + int(ended.notes.get(AGAIN, 0))


def ask(*calls: ModelCall) -> Exchange[tuple[ModelReply, ...]]:
    """Send calls to the model concurrently, from inside a method; their replies in order.

    Raises:
        CallFailedError: one of them got no reply.
    """
    replies = yield calls
    for reply in replies:
        if reply.failure:
            raise CallFailedError(reply.failure)
    return replies


def ask_read(read: Callable[[str], Result | None], form: str, *calls: ModelCall) -> Answers[Result]:
    """Send calls concurrently; those whose reply cannot be read are sent once more.

    The repeated call has another seed and one more line, the section ``form`` of ``again.md``.
    Gives each call's last reply with what was read in its text, None where that is nothing.
    """
    readers = ((call, lambda reply: read(reply.whole)) for call in calls)
    answered = yield from ask_each(form, *readers)
    return answered


def ask_verdict(
    call: ModelCall, form: str = "verdict"
) -> Exchange[tuple[ModelReply, Verdict | None]]:
    """The reply to a call and its verdict; the call is repeated once where there is none."""
    asking: Answers[Verdict] = ask_each(form, (call, lambda reply: reply.verdict))
    (answered,) = yield from asking
    return answered


def ask_each(
    form: str, *calls: tuple[ModelCall, Callable[[ModelReply], Result | None]]
) -> Answers[Result]:
    """``ask_read`` for calls that are each read by a reader of their own, of the whole reply."""
    replies = yield from ask(*(call for call, _ in calls))
    results = [(reply, read(reply)) for reply, (_, read) in zip(replies, calls, strict=True)]
    unread = [index for index, (_, result) in enumerate(results) if result is None]
    if unread:
        repeated = yield from ask(*(replace(calls[index][0], form=form) for index in unread))
        for index, reply in zip(unread, repeated, strict=True):
            results[index] = (reply, calls[index][1](reply))
    return tuple(results)


def noting_repeats(procedure: Procedure) -> Procedure:
    """The procedure; the verification it returns notes how many calls were repeated."""

    def noting(given: ClaimInput) -> Steps:
        sent: list[ModelCall] = []
        ended = yield from through(procedure(given), sent.extend)
        return replace(ended, notes={**ended.notes, AGAIN: sum(bool(call.form) for call in sent)})

    return noting


def offering(labels: tuple[Verdict, ...], procedure: Procedure) -> Procedure:
    """The procedure, whose replies are read as answers to prompts that offer ``labels``."""
    return lambda given: through(
        procedure(given), replies=lambda reply: replace(reply, labels=labels)
    )


def through(
    steps: Steps,
    calls: Callable[[tuple[ModelCall, ...]], tuple[ModelCall, ...] | None] = lambda same: same,
    replies: Callable[[ModelReply], ModelReply] = lambda same: same,
) -> Steps:
    """The steps; each group of calls is seen and may be changed, each reply is changed."""
    asked = next(steps)
    while True:
        answers = yield calls(asked) or asked
        try:
            asked = steps.send(tuple(map(replies, answers)))
        except StopIteration as end:
            ended: Verification = end.value
            return ended


def status_of(verdict: Verdict | None, *replies: ModelReply) -> ParseStatus:
    """How reading a verdict from these replies ended, none of which failed."""
    if verdict is not None:
        return "parsed"
    return "truncated" if any(reply.truncated for reply in replies) else "unparsed"
