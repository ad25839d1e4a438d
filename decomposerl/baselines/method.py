"""What a baseline is: a generator of calls to a model that ends with a verdict.

Takes a claim with its evidence, yields groups of ``ModelCall`` values that may be asked at once, is
sent their ``ModelReply`` values in order, and returns a ``Verification``::

    def steps(question: ClaimInput) -> Steps:
        (reply,) = yield (ModelCall("verify", "verdict", {"claim": question.claim, ...}),)
        return Verification(read(reply), ...)

A call names what is to be done (its operation) beside the template and its variables, so that a
chat model answers from the filled template and rules answer from the variables. An answer that
failed ends the claim: ``ask`` raises, whoever runs the generator records ``failed``.

Left out deliberately: prompts' words (``decomposerl/prompts``), models, endpoints and records
(``resources.evaluation``).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from decomposerl.chat import Token
from decomposerl.traces.trace import Cycle, Verdict

Operation = Literal[
    "decompose",  # write questions, sub-claims or predicates of a claim
    "next_question",  # write the next question, given those answered so far
    "answer",  # answer one question from evidence alone
    "verify",  # say whether a statement holds, by evidence or by what was answered
    "judge_sufficient",  # say whether what is known suffices
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
    "failed",  # a call got no answer
]


@dataclass(frozen=True, slots=True)
class ClaimInput:
    """What is to be verified. ``passages`` are the evidence's units, in order."""

    claim: str
    evidence: str
    passages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model.

    ``template`` is a section of the method's prompt file and ``variables`` fill its places, all
    of them. ``continues`` is text of the assistant's own turn that the reply goes on from (a
    running transcript), ``stop`` ends it, ``temperature`` 0 is greedy, ``sample`` tells equal
    calls of a sampled method apart. ``concludes``: its reply may hold the verdict, though its
    operation does not say so.
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


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back. ``text`` goes on where ``ModelCall.continues`` ended.

    ``truncated``: the token limit ended it. ``failure`` says why there is none, empty where
    there is one. ``tokens`` are there where log probabilities were had.
    """

    text: str
    truncated: bool = False
    failure: str = ""
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """How a claim ended.

    ``opening``, ``cycles`` and the verdict make a trace that the rewards can score (cycles with an
    empty thought get the method's own words). ``reply`` is what a person reads: the output that
    holds the verdict, or the transcript. ``spoken`` is the answer whose tokens spell the verdict,
    where one does. ``notes`` are a method's own findings (programs rejected, a bracket that
    disagrees with its predicates, questions repeated), short names to values.
    """

    verdict: Verdict | None
    status: ParseStatus
    reply: str
    cycles: tuple[Cycle, ...] = ()
    opening: str = ""
    spoken: ModelReply | None = None
    notes: Mapping[str, str | int | float | bool] = field(default_factory=dict)


Steps = Generator[tuple[ModelCall, ...], tuple[ModelReply, ...], Verification]
Procedure = Callable[[ClaimInput], Steps]


class CallFailedError(Exception):
    """A call got no answer; ``str`` is the reason. Ends the claim as ``failed``."""


@dataclass(frozen=True, slots=True)
class Method:
    """One published method. ``name`` is its file, ``prompt`` its prompt file's name.

    ``procedures`` are its protocols: ``faithful`` asks as often as the publication does,
    ``single_call`` has the same procedure written out in one completion, one call. ``calls`` says
    the faithful number of calls per claim as a formula; ``expected_calls`` computes it from how
    a claim ended faithfully, without counting calls. ``engine`` is the port behind it: a chat
    model, or a verifier (MiniCheck). ``revision`` is raised whenever a change of the method's code
    may change a verdict, its trace or its calls, so that what was answered before is not taken for
    its own.
    """

    name: str
    title: str
    publication: str
    calls: str
    procedures: Mapping[Protocol, Procedure]
    expected_calls: Callable[[Verification], int]
    prompt: str = ""
    decomposes: bool = True
    engine: Literal["chat", "verifier"] = "chat"
    revision: int = 1


def ask(
    *calls: ModelCall,
) -> Generator[tuple[ModelCall, ...], tuple[ModelReply, ...], tuple[ModelReply, ...]]:
    """Put calls to the model at once, from inside a method; their answers in order.

    Raises:
        CallFailedError: one of them got no answer.
    """
    answers = yield calls
    for answer in answers:
        if answer.failure:
            raise CallFailedError(answer.failure)
    return answers


def truncated(answers: Sequence[ModelReply]) -> bool:
    """Whether the token limit cut one of them."""
    return any(answer.truncated for answer in answers)


def status_of(verdict: Verdict | None, *answers: ModelReply) -> ParseStatus:
    """How reading a verdict from these answers ended, none of which failed."""
    if verdict is not None:
        return "parsed"
    return "truncated" if truncated(answers) else "unparsed"
