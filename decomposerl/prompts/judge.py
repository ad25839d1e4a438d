"""Requests of the four judge tasks (paper, the four judge prompts of the appendix).

Texts come from the open web and from the policy: all of them are escaped. A document comes
first, in the same words for every task, so that a server's prefix cache serves all tasks; the
instructions come last, after everything that could override them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.judge_replies import CRITERIA_SCHEMA, DIGIT_SCHEMA, VERDICT_SCHEMA
from decomposerl.prompts.template import PromptFile

TASKS = ("answerability", "atomicity", "correctness", "coverage")
"""The names of the four prompt files."""
SAMPLING = Sampling(temperature=0.0, seed=42, max_tokens=4_096)
"""Greedy, with room for reasons (paper: seed 42, 4k to 8k tokens)."""


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
