"""Requests of the four judge tasks, and the parsers of their replies (paper, appendix).

Texts come from the open web and from the policy: all of them are escaped. A document comes
first, in the same words for every task, so that a server's prefix cache serves all tasks; the
instructions come last, after everything that could override them.

A parser takes the text of a reply and returns the value of a ``Ruling``, or raises ``ValueError``:
the chat client then asks once more, and names the form (``again_section``). A word counts alone or
before a short remark that does not take it back: "not supported" is no verdict.

In a reply in tags all answers must agree; thinking in front is skipped. A reply without tags counts
if its last line has the answer with its label. A reply in JSON is one object, also where tags were
requested; a remark may stand behind its fence. So a judge that repeats forged tags beside its own
answer gives no ruling. Nothing here detects a judge that was talked into an answer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile
from decomposerl.replies.rulings import (
    YES_NO,
    Denies,
    Value,
    check_remark,
    denies_yes_no,
    read_checklist,
    read_word,
    worded,
)
from decomposerl.schemas import Verdict

TASKS = ("answerability", "atomicity", "correctness", "coverage")
"""The names of the four prompt files."""
SENTENCE = "sentence"
"""The prompt file of correctness where an answer is judged as a sentence, without its question."""
SAMPLING = Sampling(temperature=0.0, seed=42, max_tokens=4_096)
"""Greedy, with room for reasons and a short thought (paper: seed 42, 4k to 8k tokens)."""
AnswersVerdict = Verdict
"""What the answers alone lead to: any of the three."""
CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
"""The atomicity checklist: the names in the prompt, in the order of a ruling's values."""

_DIGITS = {"0": False, "1": True, **YES_NO}
_NO = ("not_enough_", "not enough ", "not-enough-", "notenough", "insufficient ")
_LACKING = tuple(no + thing for no in _NO for thing in ("info", "information", "evidence"))
_VERDICTS: dict[str, AnswersVerdict] = {
    **dict.fromkeys(("supported", "supports"), "Supported"),
    **dict.fromkeys(("refuted", "refutes"), "Refuted"),
    **dict.fromkeys(("nei", *_LACKING), "NotEnoughInfo"),
}
_TAGS = re.compile(r"<\s*/?\s*(?:answer|verdict)", re.IGNORECASE)
_AGREEING = r"(?i:not|no|none|nothing|neither|nor|never|without|than)\s(?:[\w']+\s){0,4}?"
# What a remark may say beside its verdict, and what states another one.
_BESIDE: dict[AnswersVerdict, re.Pattern[str]] = {
    "Supported": re.compile(rf"\b{_AGREEING}(?i:contradict|refut|disput)\w*"),
    "Refuted": re.compile(rf"\b{_AGREEING}SUPPORTED"),
    "NotEnoughInfo": re.compile(rf"\b{_AGREEING}(?:SUPPORTED|REFUTED)"),
}
_CLAIM_IS = r"(?i:claim|verdict|answer|it)\b\W{0,4}(?i:(?:is|as|should\sbe)\s)?(?i:\w+ly\s)?"
_OTHER: dict[AnswersVerdict, re.Pattern[str]] = {
    "Supported": re.compile(
        r"(?i:contradict|refut|unsupported|disprov|not[_ ]enough|insufficient)"
        r"|(?i:\b(?:not|isn't)\s(?:\w+\s){0,2}(?:supported|confirmed))"
        r"|(?i:\b(?:but|however|except|although|though|partly|partially|mostly)\b)"
    ),
    "Refuted": re.compile(
        r"\bSUPPORTED\b|NOT[_ ]ENOUGH|(?i:\bnot\s(?:\w+\s)?(?:refuted|contradicted))"
        rf"|\b{_CLAIM_IS}(?i:supported|not[_ ]enough)"
    ),
    "NotEnoughInfo": re.compile(rf"\bSUPPORTED\b|\bREFUTED\b|\b{_CLAIM_IS}(?i:supported|refuted)"),
}
# The first word of a remark behind the other digit: "1 (incorrect)".
_SAYS: dict[bool, re.Pattern[str]] = {
    True: re.compile(r"(?i)\W*(?:yes|true|correct|right|answerable|accurate|supported)\b"),
    False: re.compile(r"(?i)\W*(?:no|not|false|incorrect|wrong|unanswerable|inaccurate)\b"),
}
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
# Where a chat template opens the thinking, a reply has only its end. Before JSON it is skipped
# if it has no brace: an object there may be the ruling, and what follows a forged one.
_OPENED_BEFORE = re.compile(r"\A(?:(?!</?think>)[^{])*+</think>")
# One token of a chat template may end a reply.
_LAST_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\Z")
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```([^`{<]*)\Z", re.DOTALL)
_RESULTS = {"result", "answer", "value"}  # of a criterion that is an object
_REASONS = {"analysis", "reason", "reasoning", "explanation"}


def _schema(results: dict[str, dict[str, object]], *, reasons: bool = True) -> str:
    """Canonical JSON schema of an object with results, and reasons before them."""
    # Servers that follow a schema write its fields in order: the reasons' name sorts first.
    properties: dict[str, object] = {"analysis": {"type": "string"}} if reasons else {}
    properties |= results
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


_RESULTS_OF: dict[str, dict[str, dict[str, object]]] = {
    "digit": {"answer": {"enum": [0, 1], "type": "integer"}},
    "criteria": {name: {"enum": ["YES", "NO"], "type": "string"} for name in CRITERIA},
    "coverage": {
        "verdict": {"enum": ["SUPPORTED", "REFUTED", "NOT_ENOUGH_INFO"], "type": "string"}
    },
}
DIGIT_SCHEMA, CRITERIA_SCHEMA, VERDICT_SCHEMA = map(_schema, _RESULTS_OF.values())
Reasons = Literal["full", "one_sentence", "none"]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Sampling and form of the judge's requests.

    ``structured`` requests JSON by schema instead of tags; ``thinking`` switches a reasoning
    model's thinking (None: the model's default), and a thought ends after ``thinking_tokens``
    (None: no limit). ``reasons`` before the result: a few sentences (the paper), one, or none.
    """

    sampling: Sampling = SAMPLING
    structured: bool = False
    thinking: bool | None = None
    thinking_tokens: int | None = None
    reasons: Reasons = "full"


def judge_request(
    prompt: PromptFile,
    settings: JudgeSettings,
    task: str,
    answers: Sequence[str] = (),
    shorter: PromptFile | None = None,
    **texts: str,
) -> ChatRequest:
    """The request of one of ``TASKS`` about ``texts``: document, claim, question, as it needs.

    ``answers``: the one that is to be correct, or all, from which coverage sees a verdict.
    ``shorter`` has the reply's form where ``settings.reasons`` is not ``full``.

    Raises:
        ConfigError: the prompt file lacks a section or a placeholder.
    """
    values = {name: escaped(text) for name, text in texts.items()}
    if task == "correctness":
        (answer,) = answers
        values["answer"] = escaped(answer)
    elif task == "coverage":
        values["answers"] = bullets(answers)
    form, kind = "json" if settings.structured else "tags", again_section(task, structured=False)
    reply_format = (
        prompt.filled(form)
        if shorter is None
        else "\n".join(map(shorter.filled, (f"{settings.reasons}_{form}", f"{form}_{kind}")))
    )
    schema = _schema(_RESULTS_OF[kind], reasons=settings.reasons != "none")
    return ChatRequest(
        (Message("user", prompt.filled("prompt", reply_format=reply_format, **values)),),
        settings.sampling,
        prompt.template,
        settings.thinking,
        schema if settings.structured else None,
        thinking_tokens=settings.thinking_tokens,
        resample=True,
    )


def again_section(task: str, *, structured: bool) -> str:
    """The section of ``again.md`` with the form of a task's reply."""
    if structured:
        return "json"
    return {"atomicity": "criteria", "coverage": "coverage"}.get(task, "digit")


def bullets(answers: Sequence[str]) -> str:
    """One escaped line per answer; white space collapses, so no answer forges another."""
    return "\n".join(f"- {escaped(' '.join(answer.split()))}" for answer in answers)


def read_digit(reply: str, *, structured: bool = False) -> bool:
    """The 1 or 0 of answerability and correctness.

    Raises:
        ValueError: here and below, the reply is not in the requested form.
    """
    return _ruled(reply, "answer", _DIGITS, _denies_digit, structured=structured)


def read_verdict(reply: str, *, structured: bool = False) -> AnswersVerdict:
    """The verdict of coverage."""
    return _ruled(reply, "verdict", _VERDICTS, _denies_verdict, structured=structured)


def read_criteria(reply: str, *, structured: bool = False) -> tuple[bool, ...]:
    """The five criteria of atomicity, in the order of ``CRITERIA``; in the reply in any order."""
    if structured or _is_object(reply):
        words, remark = _fields(reply, *CRITERIA)
        ruling = tuple(worded(word, YES_NO, denies_yes_no) for word in words)
        check_remark(remark, ruling, lambda _, said: denies_yes_no(value=True, remark=said))
        return ruling
    return read_checklist(_spoken(reply), CRITERIA)


def _denies_digit(value: bool, remark: str) -> bool:  # noqa: FBT001 - the value of a digit
    """Whether a remark behind a digit has the other one, or opens with its meaning."""
    other = re.search(rf"(?<![\w.,]){int(not value)}(?!\w|[.,]\d)", remark)
    return bool(other or _SAYS[not value].match(remark))


def _denies_verdict(value: AnswersVerdict, remark: str) -> bool:
    """Whether a remark behind a verdict states another one."""
    return bool(_OTHER[value].search(_BESIDE[value].sub("", remark)))


def _is_object(reply: str) -> bool:
    """Whether a reply is one object, where tags were requested, and has none in its thought."""
    return not _TAGS.search(reply) and _unfenced(reply)[0].startswith("{")


def _spoken(reply: str) -> str:
    """A reply without the thinking at its start and the token at its end."""
    return _LAST_TOKEN.sub("", _THOUGHT.sub("", reply, count=1).strip()).rstrip()


def _ruled(
    reply: str, name: str, values: Mapping[str, Value], denies: Denies[Value], *, structured: bool
) -> Value:
    """The value of the one field of a reply in JSON, or in tags, of which the paper's is one."""
    if not (structured or _is_object(reply)):
        return read_word(_spoken(reply), ("answer", name), values, denies)
    (word,), remark = _fields(reply, name)
    value = worded(word, values, denies)
    check_remark(remark, value, denies)
    return value


def _fields(reply: str, *names: str) -> tuple[list[str], str]:
    """Fields of a reply that is one JSON object, as text, and the remark behind its fence."""
    text, remark = _unfenced(reply)
    try:
        value = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(value, dict) or set(value) - _REASONS != set(names):
        raise ValueError(f"the JSON is no object with the fields {', '.join(names)}")
    found = [_result(value[name]) for name in names]
    if not all(isinstance(one, str | int) for one in found):
        raise ValueError("a field of the JSON is neither text nor a whole number nor true or false")
    return list(map(str, found)), remark


def _unfenced(reply: str) -> tuple[str, str]:
    """A reply in JSON without its thinking and fence, and the remark behind that."""
    text = _OPENED_BEFORE.sub("", _spoken(reply), count=1).strip()
    fenced = _FENCE.match(text)
    return (fenced[1].strip(), fenced[2].strip()) if fenced else (text, "")


def _result(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The one result of an object that else holds reasons; any other value as it is."""
    if not isinstance(value, dict):
        return value
    results = [value[name] for name in value if name not in _REASONS]
    named = set(value) <= _RESULTS | _REASONS and len(results) == 1
    return results[0] if named else value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated fields: which of two values counts is anybody's guess."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field of the JSON is repeated")
    return dict(pairs)
