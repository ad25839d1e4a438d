"""Requests of the four judge tasks (paper, appendix); ``replies.rulings`` reads their replies.

Texts come from the open web and from the policy: all of them are escaped. A document comes
first, in the same words for every task, so that a server's prefix cache serves all tasks; the
instructions come last, after everything that could override them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile
from decomposerl.replies.rulings import CRITERIA, Form

SENTENCE, AGAIN, REASONS = "sentence", "again", "reasons"
"""Prompt files: correctness where an answer is judged as a sentence, without its question; the
lines of repeated requests; and the reply's form where reasons are short."""
PROMPTS: Mapping[str, tuple[Form, Sequence[str]]] = {
    "answerability": ("digit", ("document", "question")),
    "atomicity": ("criteria", ("claim", "question")),
    "correctness": ("digit", ("document", "question", "answer")),
    SENTENCE: ("digit", ("document", "answer")),
    "coverage": ("coverage", ("claim", "answers")),
}
"""Of each prompt the form of its reply, and what it shows."""
TASKS = tuple(name for name in PROMPTS if name != SENTENCE)
"""The names of the tasks and of their prompt files."""
SAMPLING = Sampling(temperature=0.0, seed=42, max_tokens=4_096)
"""Greedy, with room for reasons and a short thought (paper: seed 42, 4k to 8k tokens)."""
_RESULTS: Mapping[Form, Mapping[str, Sequence[str | int]]] = {
    "digit": {"answer": [0, 1]},
    "criteria": {name: ["YES", "NO"] for name in CRITERIA},
    "coverage": {"verdict": ["SUPPORTED", "REFUTED", "NOT_ENOUGH_INFO"]},
}
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


def reply_schema(task: str, reasons: Reasons = "full") -> str:
    """The canonical JSON schema of a task's reply: its results, and the reasons before them."""
    # Servers that follow a schema write its fields in order: the reasons' name sorts first.
    properties: dict[str, object] = {} if reasons == "none" else {"analysis": {"type": "string"}}
    form = PROMPTS[task][0]
    kind = "integer" if form == "digit" else "string"
    properties |= {name: {"enum": words, "type": kind} for name, words in _RESULTS[form].items()}
    schema = {"properties": properties, "required": sorted(properties), "type": "object"}
    closed = {**schema, "additionalProperties": False}
    return json.dumps(closed, separators=(",", ":"), sort_keys=True)


def judge_request(
    prompts: Mapping[str, PromptFile],
    settings: JudgeSettings,
    task: str,
    *,
    document: str = "",
    claim: str = "",
    question: str = "",
    answers: Sequence[str] = (),
) -> ChatRequest:
    """The request of one of ``TASKS``, with the line for a repetition; ``prompts`` by name.

    ``answers``: the one that is to be correct, a sentence where there is no question, or all, from
    which coverage sees a verdict.

    Raises:
        ConfigError: a prompt file is missing, or lacks a section or a placeholder.
    """
    name = SENTENCE if task == "correctness" and not question else task
    if missing := sorted({name, AGAIN, REASONS} - prompts.keys()):
        raise ConfigError(f"the judge has no prompt for {missing[0]}")
    texts = {
        "document": escaped(document),
        "claim": escaped(claim),
        "question": escaped(question),
        "answer": escaped("".join(answers[:1])),
        "answers": bullets(answers),
    }
    form, kind = "json" if settings.structured else "tags", PROMPTS[task][0]
    short = map(prompts[REASONS].filled, (f"{settings.reasons}_{form}", f"{form}_{kind}"))
    reply_format = prompts[name].filled(form) if settings.reasons == "full" else "\n".join(short)
    shown = {place: texts[place] for place in PROMPTS[name][1]}
    return ChatRequest(
        (Message("user", prompts[name].filled("prompt", reply_format=reply_format, **shown)),),
        settings.sampling,
        prompts[name].template,
        settings.thinking,
        reply_schema(task, settings.reasons) if settings.structured else None,
        prompts[AGAIN].filled("json" if settings.structured else kind),
        thinking_tokens=settings.thinking_tokens,
        resample=True,
    )


def bullets(answers: Sequence[str]) -> str:
    """One escaped line per answer; white space collapses, so no answer forges another."""
    return "\n".join(f"- {escaped(' '.join(answer.split()))}" for answer in answers)
