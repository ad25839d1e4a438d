"""Which judge calls a batch of rollouts needs, and what the rulings say about each rollout.

A ``Plan`` holds every distinct call once, in order of first use, and which rollout uses it.
Rulings turn it into ``Signals`` or into a ``JUDGE_CALLS`` frame. A rollout of n cycles uses at
most 4n + 1 calls: the verdict of all answers, n verdicts with one answer left out, n times
answerability, atomicity and correctness (paper, sections 3.2 and 3.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from decomposerl.errors import EngineError, SchemaError
from decomposerl.judge.call import Judge, JudgeCall, Ruling, Task
from decomposerl.prompts.judge import CRITERIA, AnswersVerdict
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import JUDGE_CALLS, VERDICTS
from decomposerl.traces.rollout import Rollout

Role = Literal["full", "leave_one_out", "question"]
SKIPPED = Ruling(None, "not_asked")
"""The ruling of a call that decides nothing; it is not made, and does not enter the table."""


@dataclass(frozen=True, slots=True)
class Use:
    """One rollout's use of a call.

    ``call`` is its index in ``Plan.calls``, ``rollout`` the rollout's index in the batch.
    ``question`` is the cycle it is about or that is left out, from 0; None for ``full``.
    """

    call: int
    rollout: int
    role: Role
    question: int | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """The five judged signals of a rollout with n cycles; tuples have length n.

    ``full`` is the verdict from all answers, ``without[i]`` the one from all but the i-th.
    ``atomic[i]`` are the five criteria. ``correct[i]`` is None for an abstention, which takes no
    call. Elsewhere None means that the call failed. Without cycles ``full`` is NotEnoughInfo, with
    one cycle ``without`` is (NotEnoughInfo,); neither takes a call.
    """

    full: AnswersVerdict | None
    without: tuple[AnswersVerdict | None, ...]
    answerable: tuple[bool | None, ...]
    atomic: tuple[tuple[bool, ...] | None, ...]
    correct: tuple[bool | None, ...]
    abstained: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a batch, and ``uses`` by rollout, then role, then question."""

    rollouts: tuple[Rollout, ...]
    calls: tuple[JudgeCall, ...]
    uses: tuple[Use, ...]

    def rulings(self, judge: Judge, roles: set[Role]) -> list[Ruling]:
        """One ruling per call, in order; ``SKIPPED`` for those that these roles do not need.

        A leave-one-out verdict is compared with the full set's: where that is to be known and has
        no ruling, nothing is decided by it.

        Raises:
            EngineError: the judge as a whole cannot answer.
        """
        rulings, unread = [SKIPPED] * len(self.calls), set[int]()
        for step in ({"full", "question"}, {"leave_one_out"}):
            uses = [u for u in self.uses if u.role in roles & step and u.rollout not in unread]
            places = sorted({use.call for use in uses if rulings[use.call] is SKIPPED})
            # A recorded judge shows what it lacks also where nothing is asked of it.
            asks = places or "full" in step
            ruled = judge.judge([self.calls[place] for place in places]) if asks else []
            for place, ruling in zip(places, ruled, strict=True):
                rulings[place] = ruling
            lost = (use for use in uses if rulings[use.call].value is None)
            unread = {use.rollout for use in lost if use.role == "full"}
        return rulings

    def signals(self, rulings: Sequence[Ruling]) -> list[Signals]:
        """What ``rulings``, one per call and in order, say about each rollout.

        A failed ruling gives None where it is used, and changes nothing else.

        Raises:
            ValueError: there are more or fewer rulings than calls.
            EngineError: a ruling's value is not of its task.
        """
        self._check_count(rulings)
        ruled: list[dict[tuple[Task, int | None], Any]] = [{} for _ in self.rollouts]
        for use in self.uses:
            task, value = self.calls[use.call].task, rulings[use.call].value
            if not _is_of(task, value):
                wrong = f"{value!r} is not of its task"
                raise EngineError(f"a judge's ruling is outside its contract: {wrong}")
            ruled[use.rollout][task, use.question] = value
        return [_signals(*parts) for parts in zip(self.rollouts, ruled, strict=True)]

    def frame(self, rulings: Sequence[Ruling], engine: str) -> pl.DataFrame:
        """A ``JUDGE_CALLS`` row for every use of a call that was made, in the order of ``uses``.

        Raises:
            ValueError: there are more or fewer rulings than calls.
            SchemaError: two rollouts have the same group and number.
        """
        self._check_count(rulings)
        uses = [use for use in self.uses if rulings[use.call] is not SKIPPED]
        keys = [call.key for call in self.calls]
        columns = {
            "group": [self.rollouts[use.rollout].group for use in uses],
            "rollout": [self.rollouts[use.rollout].number for use in uses],
            "task": [self.calls[use.call].task for use in uses],
            "role": [use.role for use in uses],
            "question": [use.question for use in uses],
            "call_key": [keys[use.call] for use in uses],
            "value": [rulings[use.call].text for use in uses],
            "failure": [rulings[use.call].failure for use in uses],
            "engine": [engine] * len(uses),
        }
        return JUDGE_CALLS.conform(pl.DataFrame(columns, schema=JUDGE_CALLS.schema))

    def _check_count(self, rulings: Sequence[Ruling]) -> None:
        if len(rulings) != len(self.calls):
            raise ValueError(f"{len(rulings)} rulings for {len(self.calls)} calls")


def plan(rollouts: Sequence[Rollout], *, sentences: bool = False) -> Plan:
    """The calls that ``rollouts`` need, each distinct one once, in first-use order.

    ``sentences``: an answer is judged as a sentence, without its question. No cycle: no call. One
    cycle: leaving it out leaves nothing, which takes no call. An abstention's correctness is not
    asked for (paper, section 3.2, the joint reward).
    """
    known: dict[JudgeCall, int] = {}
    uses = tuple(
        Use(known.setdefault(call, len(known)), place, role, question)
        for place, rollout in enumerate(rollouts)
        for role, question, call in _needed(rollout, sentences=sentences)
    )
    return Plan(tuple(rollouts), tuple(known), uses)


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


def _needed(rollout: Rollout, *, sentences: bool) -> Iterator[tuple[Role, int | None, JudgeCall]]:
    """The calls of a rollout with their roles; without an answer the verdict is known."""
    document, claim, cycles = rollout.evidence, rollout.claim, rollout.trace.cycles
    answers = tuple(cycle.answer for cycle in cycles)
    if answers:
        yield "full", None, JudgeCall("coverage", claim=claim, answers=answers)
    for i in range(len(answers) if len(answers) > 1 else 0):
        kept = answers[:i] + answers[i + 1 :]
        yield "leave_one_out", i, JudgeCall("coverage", claim=claim, answers=kept)
    for i, cycle in enumerate(cycles):
        yield "question", i, JudgeCall("answerability", document, question=cycle.question)
    for i, cycle in enumerate(cycles):
        yield "question", i, JudgeCall("atomicity", claim=claim, question=cycle.question)
    for i, (question, answer) in enumerate((cycle.question, cycle.answer) for cycle in cycles):
        if not abstains(answer):
            asked = "" if sentences else question
            yield "question", i, JudgeCall("correctness", document, "", asked, (answer,))


def _is_of(task: Task, value: object) -> bool:
    """Whether a task has such a value; a failed call has none."""
    if value is None:
        return True
    if task == "coverage":
        return isinstance(value, str) and value in VERDICTS
    if task == "atomicity":
        return isinstance(value, tuple) and len(value) == len(CRITERIA)
    return isinstance(value, bool)


def _signals(rollout: Rollout, ruled: Mapping[tuple[Task, int | None], Any]) -> Signals:
    cycles = rollout.trace.cycles

    def of(task: Task, uncalled: AnswersVerdict | None = None) -> tuple[Any, ...]:
        return tuple(ruled.get((task, i), uncalled) for i in range(len(cycles)))

    return Signals(
        full=ruled.get(("coverage", None), "NotEnoughInfo"),
        without=of("coverage", "NotEnoughInfo"),
        answerable=of("answerability"),
        atomic=of("atomicity"),
        correct=of("correctness"),
        abstained=tuple(abstains(cycle.answer) for cycle in cycles),
    )
