"""The silver request and the parser of its reply.

Paper: "Silver-Decomposition Question Generator". The document comes first, so claims about one
document share a prefix; evidence and claim are escaped.
"""

import json
import re
from typing import Any

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile

NAME = "silver"
MOST_QUESTIONS = 20
MOST_CHARACTERS = 2_000
"""Of one question; the longest of the paper's kind have a few hundred."""
SCHEMA = json.dumps(
    {
        "additionalProperties": False,
        "properties": {
            "questions": {
                "items": {"type": "string"},
                "maxItems": MOST_QUESTIONS,
                "minItems": 1,
                "type": "array",
            }
        },
        "required": ["questions"],
        "type": "object",
    },
    separators=(",", ":"),
    sort_keys=True,
)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)
_QUESTION = re.compile(r"<question>(.*?)</question>", re.DOTALL)


def silver_request(
    prompt: PromptFile,
    pair: tuple[str, str],
    sampling: Sampling,
    *,
    structured: bool,
    thinking: bool | None,
) -> ChatRequest:
    """The request for one ``(evidence, claim)`` pair; ``structured`` requests JSON."""
    evidence, claim = pair
    content = prompt.filled(
        "prompt",
        document=escaped(evidence),
        claim=escaped(claim),
        reply_format=prompt.filled("json" if structured else "tags"),
    )
    return ChatRequest(
        (Message("user", content),),
        sampling,
        prompt.template,
        thinking,
        SCHEMA if structured else None,
    )


def read_questions(reply: str) -> list[str]:
    """The questions of a reply, trimmed, in order: from JSON, from tags, or from JSON in prose.

    Thinking before the answer is skipped, also where the prompt opened it. An empty list is an
    answer.

    Raises:
        ValueError: the reply is in no such form, a question is not text or has more than
            ``MOST_CHARACTERS``, or there are more than ``MOST_QUESTIONS``.
    """
    text = reply.rpartition("</think>")[2].strip()
    if "<think>" in text:
        raise ValueError("the thinking is not closed")
    fenced = _FENCE.match(text)
    try:
        listed = _from_json(fenced[1] if fenced else text)
        if listed is None and "<questions>" not in text:
            listed = _from_prose(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if listed is None:
        listed = _from_tags(text)
    questions = [" ".join(question.split()) for question in listed]
    if not all(questions):
        raise ValueError("a question is empty")
    if len(questions) > MOST_QUESTIONS:
        raise ValueError(f"the reply holds {len(questions):,} questions, not 1 to {MOST_QUESTIONS}")
    if (longest := max(map(len, questions), default=0)) > MOST_CHARACTERS:
        raise ValueError(
            f"a question has {longest:,} characters, more than the {MOST_CHARACTERS:,} allowed"
        )
    return questions


def _from_json(text: str) -> list[str] | None:
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict):
        value = value.get("questions")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("the JSON holds no list of questions")
    return value


def _from_prose(text: str) -> list[str] | None:
    """The list in the one JSON object within a text; None where there is none."""
    start = text.find("{")
    try:
        value, end = json.JSONDecoder().raw_decode(text, max(start, 0))
    except json.JSONDecodeError:
        return None
    if not isinstance(value, dict) or "questions" not in value:
        return None
    if '"questions"' in text[:start] + text[end:]:
        raise ValueError("the reply holds two lists of questions")
    return _from_json(json.dumps(value))


def _from_tags(text: str) -> list[str]:
    """Questions inside the last list; each tag must be closed."""
    before, closing, _ = text.rpartition("</questions>")
    _, opening, inside = before.rpartition("<questions>")
    if not closing or not opening:
        raise ValueError("the reply has neither JSON nor a closed list of <question> tags")
    opened = inside.count("<question>")
    if opened != inside.count("</question>"):
        raise ValueError("a <question> tag is not closed")
    if opened > MOST_QUESTIONS:  # checked first: tags in the wrong order take quadratic time
        raise ValueError(f"the reply holds {opened:,} questions, not 1 to {MOST_QUESTIONS}")
    questions = _QUESTION.findall(inside)
    if opened != len(questions):
        raise ValueError("a <question> tag is not closed")
    if any("<question>" in question for question in questions):
        raise ValueError("a <question> is inside another")
    if not questions and inside.strip():
        raise ValueError("the list holds text but no <question>")
    return [str(question) for question in questions]
