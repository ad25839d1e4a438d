"""One question to the judge, and its ruling (paper, section 3.2 and the prompt appendix).

Four tasks: is a question answerable from the document, is it atomic (five criteria), is an
answer correct by the document, and which verdict do answers alone support.

Left out deliberately: prompts (``decomposerl.prompts``) and engines (``resources``).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Task = Literal["answerability", "atomicity", "correctness", "coverage"]
AnswersVerdict = Literal["Supported", "Refuted", "NotEnoughInfo"]
CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
"""The atomicity checklist, in order."""


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """What is asked. A task's unused fields are empty, so equal calls are equal values.

    answerability: document, question. atomicity: claim, question. correctness: document,
    question and one answer. coverage: claim and the answers in order.
    """

    task: Task
    document: str = ""
    claim: str = ""
    question: str = ""
    answers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """64 hex digits of SHA-256 over all fields."""
        parts = [self.task, self.document, self.claim, self.question, list(self.answers)]
        text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Ruling:
    """The judge's word on one call, or why there is none.

    ``value``: ``"1"`` or ``"0"`` for answerability and correctness; five such digits in the
    order of ``CRITERIA`` for atomicity; an ``AnswersVerdict`` for coverage; None where the
    call failed, and then ``failure`` is the reason.
    """

    value: str | None
    failure: str | None = None


class Judge(Protocol):
    """Rules on calls. Engines: a chat model, rules, a recorded table."""

    @property
    def engine(self) -> str:
        """Name of the program and model behind the port."""
        ...

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; a call that fails has none and says why.

        Raises:
            EngineError: the judge as a whole cannot be asked, or a recorded one lacks a call.
        """
        ...
