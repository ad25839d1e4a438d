"""The prompts of the four judge tasks (paper, the four judge prompts of the appendix).

Takes a task's prompt file and texts, gives the request. Texts come from the open web and
from the policy: all of them are escaped. Where there is a document, it stands first and its
words are the same for every task, so that a server computes it once; what the judge has to
do stands last, behind everything that could talk it into something else.

Left out deliberately: which calls a trace needs (``decomposerl.judge``), and the replies
(``prompts.judge_replies``).
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
    """How the judge is asked.

    ``structured`` asks for JSON by schema in place of tags; ``thinking`` switches a reasoning
    model's thinking (None: the model's default).
    """

    sampling: Sampling = SAMPLING
    structured: bool = False
    thinking: bool | None = None


def answerability_request(
    prompt: PromptFile, asking: JudgeSettings, document: str, question: str
) -> ChatRequest:
    """Does the document alone answer the question? The reply is 1 or 0.

    Raises:
        ConfigError: here and below, the prompt file lacks a section or a place.
    """
    values = {"document": escaped(document), "question": escaped(question)}
    return _request(prompt, asking, DIGIT_SCHEMA, values)


def correctness_request(
    prompt: PromptFile, asking: JudgeSettings, document: str, pair: tuple[str, str]
) -> ChatRequest:
    """Is the answer of a ``(question, answer)`` pair right by the document? 1 or 0."""
    question, answer = map(escaped, pair)
    values = {"document": escaped(document), "question": question, "answer": answer}
    return _request(prompt, asking, DIGIT_SCHEMA, values)


def atomicity_request(
    prompt: PromptFile, asking: JudgeSettings, claim: str, question: str
) -> ChatRequest:
    """Does the question meet each of the five criteria? Five times YES or NO."""
    values = {"claim": escaped(claim), "question": escaped(question)}
    return _request(prompt, asking, CRITERIA_SCHEMA, values)


def coverage_request(
    prompt: PromptFile, asking: JudgeSettings, claim: str, answers: Sequence[str]
) -> ChatRequest:
    """Which verdict do the answers alone support? Neither questions nor document are shown."""
    values = {"claim": escaped(claim), "answers": bullets(answers)}
    return _request(prompt, asking, VERDICT_SCHEMA, values)


def bullets(answers: Sequence[str]) -> str:
    """One line an answer, escaped. White space is one space, so no answer forges another."""
    return "\n".join(f"- {escaped(' '.join(answer.split()))}" for answer in answers)


def _request(
    prompt: PromptFile, asking: JudgeSettings, schema: str, values: dict[str, str]
) -> ChatRequest:
    reply_format = prompt.filled("json" if asking.structured else "tags")
    return ChatRequest(
        (Message("user", prompt.filled("prompt", reply_format=reply_format, **values)),),
        asking.sampling,
        prompt.template,
        asking.thinking,
        schema if asking.structured else None,
    )
