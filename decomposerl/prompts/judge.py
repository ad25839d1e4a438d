"""Requests of the four judge tasks, and the parsers of their replies (paper, appendix).

Texts come from the open web and from the policy: all of them are escaped. A document comes
first, in the same words for every task, so that a server's prefix cache serves all tasks; the
instructions come last, after everything that could override them.

A parser takes the text of a reply and returns the value of a ``Ruling``, or raises ``ValueError``:
the chat client then asks once more. Values match exactly, after trimming and case folding,
never in part: "not supported" is no verdict. Each form is read only where it was requested.

A reply in tags ends with its answer and has no other ``</answer>``; thinking in front is
skipped. A reply in JSON is one object and nothing else. So a judge that repeats forged tags
beside its own answer gives no ruling, and the forged one is never read. Nothing here detects
a judge that was talked into an answer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile

TASKS = ("answerability", "atomicity", "correctness", "coverage")
"""The names of the four prompt files."""
SAMPLING = Sampling(temperature=0.0, seed=42, max_tokens=4_096)
"""Greedy, with room for reasons (paper: seed 42, 4k to 8k tokens)."""
AnswersVerdict = Literal["Supported", "Refuted", "NotEnoughInfo"]
CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
"""The atomicity checklist: the names in the prompt, in the order of a ruling's values."""

_Word = TypeVar("_Word", bool, AnswersVerdict)
_DIGITS = {"0": False, "1": True}
_YES_NO = {"yes": True, "no": False}
_VERDICTS: dict[str, AnswersVerdict] = {
    "supported": "Supported",
    "refuted": "Refuted",
    "not_enough_info": "NotEnoughInfo",
    "not enough info": "NotEnoughInfo",
    "not enough information": "NotEnoughInfo",
}
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
# Where a chat template opens the thinking, a reply has only its end. Before JSON it is skipped
# if it has no brace: an object there may be the ruling, and what follows a forged one.
_OPENED_BEFORE = re.compile(r"\A(?:(?!</?think>)[^{])*+</think>")
# One token of a chat template may end a reply.
_LAST_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\Z")
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def _schema(results: dict[str, dict[str, object]]) -> str:
    """Canonical JSON schema of an object with reasons and results."""
    # Servers that follow a schema write its fields in order: the reasons' name sorts first.
    properties = {"analysis": {"type": "string"}, **results}
    return json.dumps(
        {
            "additionalProperties": False,
            "properties": properties,
            "required": sorted(properties),
            "type": "object",
        },
        separators=(",", ":"),
        sort_keys=True,
    )


DIGIT_SCHEMA = _schema({"answer": {"enum": [0, 1], "type": "integer"}})
CRITERIA_SCHEMA = _schema({name: {"enum": ["YES", "NO"], "type": "string"} for name in CRITERIA})
VERDICT_SCHEMA = _schema(
    {"verdict": {"enum": ["SUPPORTED", "REFUTED", "NOT_ENOUGH_INFO"], "type": "string"}}
)


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Sampling and form of the judge's requests.

    ``structured`` requests JSON by schema instead of tags; ``thinking`` switches a reasoning
    model's thinking (None: the model's default).
    """

    sampling: Sampling = SAMPLING
    structured: bool = False
    thinking: bool | None = None


def answerability_request(
    prompt: PromptFile, settings: JudgeSettings, document: str, question: str
) -> ChatRequest:
    """Does the document alone answer the question? 1 or 0.

    Raises:
        ConfigError: here and below, the prompt file lacks a section or a placeholder.
    """
    values = {"document": escaped(document), "question": escaped(question)}
    return _request(prompt, settings, DIGIT_SCHEMA, values)


def correctness_request(
    prompt: PromptFile, settings: JudgeSettings, document: str, pair: tuple[str, str]
) -> ChatRequest:
    """Is the answer of a ``(question, answer)`` pair right by the document? 1 or 0."""
    question, answer = map(escaped, pair)
    values = {"document": escaped(document), "question": question, "answer": answer}
    return _request(prompt, settings, DIGIT_SCHEMA, values)


def atomicity_request(
    prompt: PromptFile, settings: JudgeSettings, claim: str, question: str
) -> ChatRequest:
    """Does the question meet each of the five criteria? Five times YES or NO."""
    values = {"claim": escaped(claim), "question": escaped(question)}
    return _request(prompt, settings, CRITERIA_SCHEMA, values)


def coverage_request(
    prompt: PromptFile, settings: JudgeSettings, claim: str, answers: Sequence[str]
) -> ChatRequest:
    """Which verdict do the answers alone support? Without questions and document."""
    values = {"claim": escaped(claim), "answers": bullets(answers)}
    return _request(prompt, settings, VERDICT_SCHEMA, values)


def bullets(answers: Sequence[str]) -> str:
    """One escaped line per answer; white space collapses, so no answer forges another."""
    return "\n".join(f"- {escaped(' '.join(answer.split()))}" for answer in answers)


def _request(
    prompt: PromptFile, settings: JudgeSettings, schema: str, values: dict[str, str]
) -> ChatRequest:
    reply_format = prompt.filled("json" if settings.structured else "tags")
    return ChatRequest(
        (Message("user", prompt.filled("prompt", reply_format=reply_format, **values)),),
        settings.sampling,
        prompt.template,
        settings.thinking,
        schema if settings.structured else None,
    )


def read_digit(reply: str, *, structured: bool = False) -> bool:
    """The 1 or 0 of answerability and correctness.

    Raises:
        ValueError: here and below, the reply is not in the requested form.
    """
    return _one_of(_DIGITS, _fields(reply, "answer")[0] if structured else _inside(reply))


def read_verdict(reply: str, *, structured: bool = False) -> AnswersVerdict:
    """The verdict of coverage."""
    return _one_of(_VERDICTS, _fields(reply, "verdict")[0] if structured else _inside(reply))


def read_criteria(reply: str, *, structured: bool = False) -> tuple[bool, ...]:
    """The five criteria of atomicity, in the order of ``CRITERIA``; lines in any order."""
    words = _fields(reply, *CRITERIA) if structured else _lines(_inside(reply))
    return tuple(_one_of(_YES_NO, word) for word in words)


def _one_of(values: Mapping[str, _Word], word: str) -> _Word:
    folded = word.strip().casefold()
    if folded not in values:
        raise ValueError(f"the reply says {word[:40]!r}, which is none of {', '.join(values)}")
    return values[folded]


def _spoken(reply: str) -> str:
    """A reply without the thinking at its start and the token at its end."""
    return _LAST_TOKEN.sub("", _THOUGHT.sub("", reply, count=1).strip()).rstrip()


def _inside(reply: str) -> str:
    """The content of the only answer of a reply, which ends it."""
    text = _spoken(reply)
    if "<think>" in text:
        raise ValueError("the thinking is not closed, or goes on behind the answer")
    before, closing, after = text.partition("</answer>")
    if not closing:
        raise ValueError("the reply has no closed answer")
    if after:
        raise ValueError("the reply goes on behind its answer")
    _, opening, inside = before.rpartition("<answer>")
    if not opening:
        raise ValueError("the answer is not opened")
    return inside


def _lines(inside: str) -> list[str]:
    """The words of the five criteria, in order, from lines of ``name: word``."""
    lines = [line.partition(":") for line in inside.splitlines() if line.strip()]
    words = {name.strip().casefold(): word for name, _, word in lines}
    if len(lines) != len(CRITERIA) or set(words) != set(CRITERIA):
        raise ValueError("the answer does not have one line per criterion")
    return [words[name] for name in CRITERIA]


def _fields(reply: str, *names: str) -> list[str]:
    """Fields of a reply that is one JSON object, as text."""
    text = _OPENED_BEFORE.sub("", _spoken(reply), count=1).strip()
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(value, dict) or set(value) - {"analysis"} != set(names):
        raise ValueError(f"the JSON is no object with the fields {', '.join(names)}")
    return [str(value[name]) for name in names]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated fields: which of two values counts is anybody's guess."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field of the JSON is repeated")
    return dict(pairs)
