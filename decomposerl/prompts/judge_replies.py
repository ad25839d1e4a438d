"""What the judge replied (paper, the four judge prompts of the appendix).

Takes the text of a reply, gives the ruling as ``judge.call.Ruling`` writes it, or raises
``ValueError``: the chat client then asks once more. Values match exactly, after trimming and
case folding, never in part: "not supported" is no verdict.

A reply in tags ends with its answer, and no other ``</answer>`` stands before it; thinking in
front is passed over. So a judge that repeats forged tags beside its own answer, before or
after it, gives no ruling, and the forged one is never read. A reply in JSON is one object
and nothing else, for the same reason; each form is read only where it was asked for. Where a
chat template opens the thinking, a reply has its end alone: before JSON it is passed over if
no brace stands in it, since an object there may be the ruling and what follows a forged one.
One token of a chat template may end a reply.

Left out deliberately: telling a judge that was talked into an answer from one that was not.
"""

import json
import re
from typing import Any

CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
"""The names under which the atomicity prompt asks, in the order of the digits."""

_DIGITS = {"0": "0", "1": "1"}
_YES_NO = {"yes": "1", "no": "0"}
_VERDICTS = {
    "supported": "Supported",
    "refuted": "Refuted",
    "not_enough_info": "NotEnoughInfo",
    "not enough info": "NotEnoughInfo",
    "not enough information": "NotEnoughInfo",
}
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_OPENED_BEFORE = re.compile(r"\A(?:(?!</?think>)[^{])*+</think>")
_LAST_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\Z")
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def _schema(results: dict[str, dict[str, object]]) -> str:
    """Canonical JSON of an object with reasons and results.

    Servers that follow a schema write its fields in order, so the reasons' name sorts first.
    """
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


def read_digit(reply: str, *, structured: bool = False) -> str:
    """``"0"`` or ``"1"``, of answerability and correctness.

    Raises:
        ValueError: here and below, the reply is not in the form that was asked for.
    """
    return _one_of(_DIGITS, _fields(reply, "answer")[0] if structured else _inside(reply))


def read_verdict(reply: str, *, structured: bool = False) -> str:
    """``"Supported"``, ``"Refuted"`` or ``"NotEnoughInfo"``, of coverage."""
    return _one_of(_VERDICTS, _fields(reply, "verdict")[0] if structured else _inside(reply))


def read_criteria(reply: str, *, structured: bool = False) -> str:
    """Five digits in the order of ``CRITERIA``, of atomicity; the reply's lines in any order."""
    words = _fields(reply, *CRITERIA) if structured else _lines(_inside(reply))
    return "".join(_one_of(_YES_NO, word) for word in words)


def _one_of(values: dict[str, str], word: str) -> str:
    folded = word.strip().casefold()
    if folded not in values:
        raise ValueError(f"the reply says {word[:40]!r}, which is none of {', '.join(values)}")
    return values[folded]


def _spoken(reply: str) -> str:
    """A reply without the thinking that it opens and the token that ends it."""
    return _LAST_TOKEN.sub("", _THOUGHT.sub("", reply, count=1).strip()).rstrip()


def _inside(reply: str) -> str:
    """What stands in the only answer of a reply, which is its end."""
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
    found = {name.strip().casefold(): word for name, _, word in lines}
    if len(lines) != len(CRITERIA) or set(found) != set(CRITERIA):
        raise ValueError("the answer has not one line for each criterion")
    return [found[name] for name in CRITERIA]


def _fields(reply: str, *names: str) -> list[str]:
    """These fields of the JSON object that the reply is, as text."""
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
    """An object; a field that comes twice has no value one could trust."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field of the JSON comes twice")
    return dict(pairs)
