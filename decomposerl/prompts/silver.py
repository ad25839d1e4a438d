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
from decomposerl.replies.questions import listed_questions, without_numbers

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
_ANY_TAG = re.compile(r"<(/?questions?)>|\\<(/?questions?)\\>", re.IGNORECASE | re.ASCII)
# A comma before the end of a list or an object; strings are passed over whole.
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|,(?=\s*+[\]}])', re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


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
    """The questions of a reply, trimmed, in order: from JSON, also in prose, from tags or a list.

    Thinking before the answer is skipped, also where the prompt opened it. An empty list is an
    answer. Numbers and labels in front of questions are dropped, except in JSON. A comma at the end
    of a JSON list is passed over, and so are the letter case and Markdown escapes of tags. The list
    of a reply may lack its closing tag where each of its questions has one and ends the reply.

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
        text = _ANY_TAG.sub(lambda tag: f"<{(tag[1] or tag[2]).lower()}>", text)
        if listed is None and "<questions>" not in text:
            listed = _from_prose(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if listed is None:
        listed = without_numbers(
            _from_tags(text) if "<question" in text else listed_questions(text)
        )
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
    value: Any
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        try:
            value = json.loads(_LAST_COMMA.sub(r"\1", text))
        except json.JSONDecodeError:
            return None
    if isinstance(value, dict):
        value = value.get("questions")
    listed = value if isinstance(value, list) else [None]
    texts = [item.get("question") if isinstance(item, dict) else item for item in listed]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("the JSON holds no list of questions")
    return list(map(str, texts))


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
    """Questions inside the last list, or in a text without one; one tag may lack its end."""
    inside = text
    if re.search("</?questions>", text):
        before, closing, _ = text.rpartition("</questions>")
        _, opening, inside = (before if closing else text).rpartition("<questions>")
        whole = closing or (text.count("<questions>") == 1 and text.endswith("</question>"))
        if not whole or not opening:
            raise ValueError("the list of <question> tags is not closed")
    _, *pieces = inside.split("<question>")
    if not pieces and not inside.strip() and re.sub("</?questions>", "", text).strip():
        raise ValueError("the list of questions is empty, and text stands beside it")
    if not pieces:
        return listed_questions(inside) if inside.strip() else []
    questions = [_one_question(piece) for piece in pieces]
    if sum("</question>" not in piece for piece in pieces) > 1:
        raise ValueError("two <question> tags are not closed")
    return questions


def _one_question(piece: str) -> str:
    """The question at the start of what stands between two opening tags."""
    question, closing, rest = piece.partition("</question>")
    if "</question>" in rest:
        raise ValueError("a <question> is inside another")
    question = question.strip()
    if not closing and ("\n" in question or not question.endswith("?")):
        raise ValueError("a <question> tag is not closed")
    return question
