"""Calls to the judge and its rulings (paper, section 3.2 and the prompt appendix).

Four tasks: is a question answerable from the document, is it atomic (five criteria), is an
answer correct by the document, and which verdict do the answers alone support.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from decomposerl.prompts.judge import CRITERIA, AnswersVerdict
from decomposerl.schemas import VERDICTS

Task = Literal["answerability", "atomicity", "correctness", "coverage"]
JudgeValue = bool | tuple[bool, ...] | AnswersVerdict
_TRUTH = {"0": False, "1": True}


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One question to the judge. Unused fields are empty, so equal calls are equal values.

    answerability: document, question. atomicity: claim, question. correctness: document,
    question (none: the answer is a sentence alone), one answer. coverage: claim, all answers.
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
    """The judge's answer to one call, or why there is none.

    ``value``: a truth value for answerability and correctness, five in the order of
    ``CRITERIA`` for atomicity, an ``AnswersVerdict`` for coverage; None where the call failed,
    and then ``failure`` is the reason.
    """

    value: JudgeValue | None
    failure: str | None = None

    @property
    def text(self) -> str | None:
        """``value`` as ``JUDGE_CALLS`` stores it: digits of 0 and 1, or the verdict."""
        if self.value is None or isinstance(self.value, str):
            return self.value
        truths = self.value if isinstance(self.value, tuple) else (self.value,)
        return "".join("1" if truth else "0" for truth in truths)

    @classmethod
    def from_text(cls, text: str | None, failure: str | None = None) -> Self:
        """The ruling that a row of ``JUDGE_CALLS`` stores; inverse of ``text``.

        Raises:
            ValueError: the text is neither one digit, nor five, nor a verdict.
        """
        if text is None:
            return cls(None, failure)
        for verdict in VERDICTS:
            if text == verdict:
                return cls(verdict, failure)
        if len(text) not in {1, len(CRITERIA)} or not set(text) <= set(_TRUTH):
            allowed = f"1 or {len(CRITERIA)} digits of 0 and 1, {', '.join(VERDICTS)}"
            raise ValueError(f"{text!r} is none of: {allowed}")
        truths = tuple(_TRUTH[digit] for digit in text)
        return cls(truths if len(truths) > 1 else truths[0], failure)


class Judge(Protocol):
    """Rules on calls. Engines: a chat model, rules, a recorded table."""

    @property
    def engine(self) -> str:
        """Name of the program and model behind the port."""
        ...

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling per call, in order; a failed call has a reason in place of a value.

        Raises:
            EngineError: the judge as a whole cannot answer, or a recorded one lacks a call.
        """
        ...
