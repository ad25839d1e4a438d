"""Calls to the judge and its rulings (paper, section 3.2 and the prompt appendix).

Four tasks: is a question answerable from the document, is it atomic (five criteria), is an
answer correct by the document, and which verdict do the answers alone support.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import polars as pl

from decomposerl.errors import EngineError, SchemaError
from decomposerl.replies.abstention import abstains
from decomposerl.replies.rulings import CRITERIA, RulingValue
from decomposerl.schemas import JUDGE_CALLS, VERDICTS, Verdict
from decomposerl.traces.rollout import Rollout

Task = Literal["answerability", "atomicity", "correctness", "coverage"]
_BY_NAME: Mapping[str, Verdict] = {verdict: verdict for verdict in VERDICTS}


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
    ``CRITERIA`` for atomicity, a verdict for coverage; None where the call failed,
    and then ``failure`` is the reason.
    """

    value: RulingValue | None
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
        if text is None or text in _BY_NAME:
            return cls(_BY_NAME.get(text or ""), failure)
        if len(text) not in {1, len(CRITERIA)} or set(text) - {"0", "1"}:
            raise ValueError(f"{text!r} is none of: one or five of 0 and 1, {', '.join(VERDICTS)}")
        truths = tuple(digit == "1" for digit in text)
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


Calls = dict[tuple[Task, int | None], JudgeCall]
"""The calls of a rollout by task and cycle: the one asked about, or, in coverage, left out, from 0;
None for the verdict from all answers."""


def needed_calls(rollout: Rollout, *, sentences: bool = False) -> Calls:
    """The calls that the rewards of a rollout of n cycles need, at most 4n + 1.

    ``sentences``: an answer is judged as a sentence, without its question. No cycle: no call. One
    cycle: leaving it out leaves nothing, which takes no call. An abstention's correctness is not
    asked for (paper, section 3.2, the joint reward).
    """
    document, claim, cycles = rollout.evidence, rollout.claim, rollout.trace.cycles
    answers = tuple(cycle.answer for cycle in cycles)
    calls: Calls = {}
    if answers:
        calls["coverage", None] = JudgeCall("coverage", claim=claim, answers=answers)
    for i in range(len(answers) if len(answers) > 1 else 0):
        kept = answers[:i] + answers[i + 1 :]
        calls["coverage", i] = JudgeCall("coverage", claim=claim, answers=kept)
    for i, cycle in enumerate(cycles):
        calls["answerability", i] = JudgeCall("answerability", document, question=cycle.question)
    for i, cycle in enumerate(cycles):
        calls["atomicity", i] = JudgeCall("atomicity", claim=claim, question=cycle.question)
    for i, cycle in enumerate(cycles):
        if not abstains(cycle.answer):
            asked, said = "" if sentences else cycle.question, (cycle.answer,)
            calls["correctness", i] = JudgeCall("correctness", document, "", asked, said)
    return calls


def rulings_from_frame(frame: pl.DataFrame) -> Mapping[str, Ruling]:
    """Call key to ruling, from the columns ``call_key``, ``value`` and ``failure``.

    Raises:
        SchemaError: one call has two rulings.
        EngineError: a value is no ruling's.
    """
    distinct = frame.select("call_key", "value", "failure").unique(maintain_order=True)
    try:
        rulings = {key: Ruling.from_text(*parts) for key, *parts in distinct.iter_rows()}
    except ValueError as error:
        raise EngineError(f"a judge's ruling is outside its contract: {error}") from error
    if twice := distinct.height - len(rulings):
        raise SchemaError(f"table '{JUDGE_CALLS.name}': {twice} calls have two rulings")
    return rulings
