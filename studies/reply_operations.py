"""The operations of a file of replies: who reads each reply, and what its reading looks like.

Baselines are named ``method/protocol/template``; the other names are those of a prompt and the form
of its reply. A reader gives a JSON value; ``ValueError`` means that the reply cannot be read.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from decomposerl.chat import ChatReply, Token
from decomposerl.judge.call import Ruling
from decomposerl.prompts.judge import PROMPTS
from decomposerl.prompts.silver import read_questions
from decomposerl.prompts.verifier import VerifierForm
from decomposerl.replies.abstention import abstains
from decomposerl.replies.rulings import read_ruling
from decomposerl.traces.grammar import parse_trace
from studies import reply_methods as methods
from studies import reply_shapes as shapes
from studies.reply_rows import Row, RowError
from studies.reply_shapes import Shape

Read = Callable[[Row], Any]
_TOKEN = re.compile(r"(.*?)\s*(\[\[.*\]\])\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Operation:
    """The reader of one kind of reply, and the shape of its readings."""

    read: Read
    shape: Shape


def reading(row: Row) -> Any:  # noqa: ANN401 - any JSON
    """What the project's own reader makes of a row's reply; an error's text where it refuses.

    Raises:
        RowError: the reply is not in the form that the file has for this operation.
    """
    try:
        return OPERATIONS[row.operation].read(row)
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


def _whole(row: Row) -> str:
    """The text of a reply; the chat client refuses one that the token limit ended."""
    if row.truncated:
        raise ValueError("the token limit ended before the reply did")
    return row.reply


def _ruling(task: str, row: Row, *, structured: bool) -> str | None:
    value = read_ruling(_whole(row), PROMPTS[task][0], structured=structured)
    return Ruling(value).text


def _silver(row: Row) -> int:
    return len(read_questions(_whole(row)))


def _minicheck(row: Row) -> list[float]:
    """Probability mass of yes and of no, to three places."""
    text, alternatives = _token(row.reply)
    tokens = (Token(text, alternatives[0][1], alternatives),)
    reply: ChatReply[object] = ChatReply(text, "length", "", 0, 1, 0.0, tokens=tokens)
    return [round(mass, 3) for mass in VerifierForm(None, origin="own").support(reply)]


def _token(reply: str) -> tuple[str, tuple[tuple[str, float], ...]]:
    """A token and its alternatives: ``Yes [["Yes", -0.05], ["No", -3.2]]``."""
    form = 'must be a token and its alternatives: Yes [["Yes", -0.05], ["No", -3.2]]'
    parts = _TOKEN.fullmatch(reply)
    try:
        pairs = json.loads(parts[2]) if parts else None
    except (ValueError, RecursionError):
        pairs = None
    if parts is None or not isinstance(pairs, list) or not all(map(_is_alternative, pairs)):
        raise RowError("reply", form)
    return parts[1], tuple((text, float(logprob)) for text, logprob in pairs)


def _is_alternative(pair: object) -> bool:
    match pair:
        case [str(), int() | float() as logprob] if not isinstance(logprob, bool):
            return logprob <= 0
    return False


def _trace(row: Row) -> list[Any]:
    """Verdict, number of cycles, and the distinct kinds of faults in order."""
    trace = parse_trace(row.reply)
    faults = list(dict.fromkeys(fault.kind for fault in trace.faults))
    return [trace.verdict, len(trace.cycles), faults]


def _abstention(row: Row) -> bool:
    return abstains(row.reply)


def _judge(task: str, shape: Shape) -> dict[str, Operation]:
    """The two forms of a judge task's reply."""
    return {
        f"judge/{task}/tags": Operation(partial(_ruling, task, structured=False), shape),
        f"judge/{task}/json": Operation(partial(_ruling, task, structured=True), shape),
    }


def _faithful(method: str, **operations: tuple[Read, Shape]) -> dict[str, Operation]:
    """The calls of a method's faithful protocol by their templates."""
    return {
        f"{method}/faithful/{template}": Operation(*operation)
        for template, operation in operations.items()
    }


_VERDICT = (methods.verdict, shapes.VERDICT)
_ANSWER = (methods.answer, shapes.ANSWER)
_QUESTION = (methods.qacheck_question, shapes.QUESTION)
_DECOMPOSING = (
    *("self_ask", "decomposed_prompting", "hiss", "folk"),
    *("program_fc", "chen_2024", "claimdecomp", "qacheck"),
)

OPERATIONS: Mapping[str, Operation] = {
    **{
        f"{method}/faithful/verdict": Operation(*_VERDICT)
        for method in ("simple", "cot", "simple_examples", "cot_examples", "few_shot")
    },
    **{
        f"{method}/single_call/single_call": Operation(methods.written_out, shapes.WRITTEN_OUT)
        for method in _DECOMPOSING
    },
    **_faithful(
        "self_ask",
        transcript=(methods.self_ask_transcript, shapes.TURN),
        answer=_ANSWER,
        verdict=_VERDICT,
    ),
    **_faithful(
        "decomposed_prompting",
        next_step=(methods.decomposed_next_step, shapes.STEP),
        lookup=_ANSWER,
        check=(methods.decomposed_check, shapes.TRUTH),
        compare=(methods.decomposed_compare, shapes.ANSWER),
        verdict=_VERDICT,
    ),
    **_faithful(
        "hiss",
        split=(methods.hiss_split, shapes.SUB_CLAIMS),
        work_through=(methods.hiss_work_through, shapes.PAIRS),
        verdict=_VERDICT,
    ),
    **_faithful(
        "folk",
        predicates=(methods.folk_predicates, shapes.ITEMS),
        answer=_ANSWER,
        verdict=(methods.folk_verdict, shapes.CONJUNCTION),
    ),
    **_faithful(
        "program_fc",
        program=(methods.program, shapes.PROGRAM),
        answer=_ANSWER,
        check=(methods.program_check, shapes.TRUTH),
    ),
    **_faithful(
        "chen_2024",
        questions=(methods.chen_questions, shapes.ITEMS),
        select=(methods.chen_select, shapes.NUMBERS),
        summary=(methods.chen_summary, shapes.ANSWER),
        verdict=_VERDICT,
    ),
    **_faithful(
        "claimdecomp",
        questions=(methods.claimdecomp_questions, shapes.YES_NO),
        answer=(methods.claimdecomp_answer, shapes.TRUTH),
    ),
    **_faithful(
        "qacheck",
        first_question=_QUESTION,
        next_question=_QUESTION,
        answer=_ANSWER,
        sufficient=(methods.qacheck_sufficient, shapes.SUFFICIENT),
        statement=(methods.qacheck_statement, shapes.ANSWER),
        verdict=_VERDICT,
    ),
    "silver/tags": Operation(_silver, shapes.QUESTIONS),
    "silver/json": Operation(_silver, shapes.QUESTIONS),
    **_judge("answerability", shapes.DIGIT),
    **_judge("correctness", shapes.DIGIT),
    **_judge("atomicity", shapes.CRITERIA),
    **_judge("coverage", shapes.COVERAGE),
    "minicheck/user": Operation(_minicheck, shapes.YES_AND_NO),
    "policy/trace": Operation(_trace, shapes.TRACE),
    "policy/answer/abstention": Operation(_abstention, shapes.ABSTENTION),
}
"""Every operation that a row can name."""
