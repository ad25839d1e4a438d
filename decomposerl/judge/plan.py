"""Which judge calls a batch of rollouts needs, and what the rulings say about each rollout.

A ``Plan`` holds every distinct call once, in order of first use, and which rollout uses it.
Rulings turn it into ``Signals`` or into a ``JUDGE_CALLS`` frame. A rollout of n cycles uses at
most 4n + 1 calls: the verdict of all answers, n verdicts with one answer left out, n times
answerability, atomicity and correctness (paper, sections 3.2 and 3.3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from decomposerl.errors import EngineError, SchemaError
from decomposerl.judge.call import CRITERIA, VERDICTS, AnswersVerdict, JudgeCall, Ruling
from decomposerl.judge.signals import Signals
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import JUDGE_CALLS
from decomposerl.traces.rollout import Rollout

Role = Literal["full", "leave_one_out", "question"]


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
class CallIndices:
    """Indices of one rollout's calls in ``Plan.calls``; tuples have one entry per cycle.

    None where no call is needed: no cycle, one cycle, an abstention's correctness.
    """

    full: int | None
    without: tuple[int | None, ...]
    answerable: tuple[int, ...]
    atomic: tuple[int, ...]
    correct: tuple[int | None, ...]
    abstained: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a batch. ``indices`` has one entry per rollout, in order."""

    rollouts: tuple[Rollout, ...]
    calls: tuple[JudgeCall, ...]
    indices: tuple[CallIndices, ...]

    @property
    def uses(self) -> tuple[Use, ...]:
        """Which rollout uses which call for what, by rollout, then role, then question."""
        return tuple(use for row, used in enumerate(self.indices) for use in _uses(row, used))

    def signals(self, rulings: Sequence[Ruling]) -> list[Signals]:
        """What ``rulings``, one per call and in order, say about each rollout.

        A failed ruling gives None where it is used, and changes nothing else.

        Raises:
            ValueError: there are more or fewer rulings than calls.
            EngineError: a ruling's value is not of its task.
        """
        self._check_count(rulings)
        return [_signals(used, rulings) for used in self.indices]

    def frame(self, rulings: Sequence[Ruling], engine: str) -> pl.DataFrame:
        """A ``JUDGE_CALLS`` row for every use, in the order of ``uses``.

        Raises:
            ValueError: there are more or fewer rulings than calls.
            SchemaError: two rollouts have the same group and number.
        """
        self._check_count(rulings)
        uses = self.uses
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


def plan(rollouts: Sequence[Rollout]) -> Plan:
    """The calls that ``rollouts`` need, each distinct one once, in first-use order.

    No cycle: no call. One cycle: leaving it out leaves nothing, which takes no call. An
    abstention's correctness is not asked for (paper, section 3.2, the joint reward).
    """
    known: dict[JudgeCall, int] = {}
    indices = tuple(_call_indices(rollout, known) for rollout in rollouts)
    return Plan(tuple(rollouts), tuple(known), indices)


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
    if len(rulings) < distinct.height:
        raise SchemaError(
            f"table '{JUDGE_CALLS.name}': {distinct.height - len(rulings)} calls have two rulings"
        )
    return rulings


def _call_indices(rollout: Rollout, known: dict[JudgeCall, int]) -> CallIndices:
    """The indices of a rollout's calls, which are added to ``known``."""
    document, claim, cycles = rollout.evidence, rollout.claim, rollout.trace.cycles
    answers = tuple(cycle.answer for cycle in cycles)
    abstained = tuple(map(abstains, answers))

    def index(call: JudgeCall) -> int:
        return known.setdefault(call, len(known))

    def verdict(kept: tuple[str, ...]) -> int | None:
        return index(JudgeCall("coverage", claim=claim, answers=kept)) if kept else None

    return CallIndices(
        full=verdict(answers),
        without=tuple(verdict(answers[:i] + answers[i + 1 :]) for i in range(len(answers))),
        answerable=tuple(
            index(JudgeCall("answerability", document, question=cycle.question)) for cycle in cycles
        ),
        atomic=tuple(
            index(JudgeCall("atomicity", claim=claim, question=cycle.question)) for cycle in cycles
        ),
        correct=tuple(
            None
            if silent
            else index(JudgeCall("correctness", document, "", cycle.question, (cycle.answer,)))
            for cycle, silent in zip(cycles, abstained, strict=True)
        ),
        abstained=abstained,
    )


def _uses(rollout: int, used: CallIndices) -> list[Use]:
    def of(role: Role, calls: Sequence[int | None]) -> list[Use]:
        return [Use(call, rollout, role, i) for i, call in enumerate(calls) if call is not None]

    full = [] if used.full is None else [Use(used.full, rollout, "full")]
    by_question = (used.answerable, used.atomic, used.correct)
    return [
        *full,
        *of("leave_one_out", used.without),
        *(use for calls in by_question for use in of("question", calls)),
    ]


def _signals(used: CallIndices, rulings: Sequence[Ruling]) -> Signals:
    return Signals(
        full=_verdict(used.full, rulings),
        without=tuple(_verdict(call, rulings) for call in used.without),
        answerable=tuple(_truth(rulings[call]) for call in used.answerable),
        atomic=tuple(_criteria(rulings[call]) for call in used.atomic),
        correct=tuple(None if call is None else _truth(rulings[call]) for call in used.correct),
        abstained=used.abstained,
    )


def _verdict(call: int | None, rulings: Sequence[Ruling]) -> AnswersVerdict | None:
    """No answer, no call: nothing can be concluded."""
    if call is None:
        return "NotEnoughInfo"
    value = rulings[call].value
    if value is None or (isinstance(value, str) and value in VERDICTS):
        return value
    raise _outside_contract(value)


def _truth(ruling: Ruling) -> bool | None:
    if ruling.value is None or isinstance(ruling.value, bool):
        return ruling.value
    raise _outside_contract(ruling.value)


def _criteria(ruling: Ruling) -> tuple[bool, ...] | None:
    value = ruling.value
    if value is None or (isinstance(value, tuple) and len(value) == len(CRITERIA)):
        return value
    raise _outside_contract(value)


def _outside_contract(value: object) -> EngineError:
    return EngineError(f"a judge's ruling is outside its contract: {value!r} is not of its task")
