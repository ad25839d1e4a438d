"""The judge as a table: which calls a batch of rollouts needs, and what the rulings say.

Takes rollouts, gives a ``Plan``: every distinct call once, in the order of its first use,
and who uses it. With the rulings it gives each rollout's ``Signals``, or a ``JUDGE_CALLS``
frame that gives the same signals again when it is read back. A rollout of n cycles uses at
most 4n + 1 calls: the verdict of all answers, n verdicts with one answer left out, n times
answerability, atomicity and correctness (paper, sections 3.2 and 3.3).

Left out deliberately: asking (the ``Judge`` port) and any score (``decomposerl.rewards``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from decomposerl.errors import EngineError, SchemaError
from decomposerl.judge.call import AnswersVerdict, JudgeCall, Ruling
from decomposerl.judge.readings import read_criteria, read_verdict, read_yes
from decomposerl.judge.signals import Signals
from decomposerl.schemas import JUDGE_CALLS
from decomposerl.traces.abstention import abstains
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
class Places:
    """Where one rollout's calls stand in ``Plan.calls``; tuples have one entry a cycle.

    None where the rules spare the call: no cycle, one cycle, an abstention's correctness.
    """

    full: int | None
    without: tuple[int | None, ...]
    answerable: tuple[int, ...]
    atomic: tuple[int, ...]
    correct: tuple[int | None, ...]
    abstained: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a batch. ``places`` has one entry a rollout, in order."""

    rollouts: tuple[Rollout, ...]
    calls: tuple[JudgeCall, ...]
    places: tuple[Places, ...]

    @property
    def uses(self) -> tuple[Use, ...]:
        """Which rollout uses which call for what, by rollout, then role, then question."""
        return tuple(use for at, places in enumerate(self.places) for use in _uses(at, places))

    def signals(self, rulings: Sequence[Ruling]) -> list[Signals]:
        """What ``rulings``, one a call and in order, say about each rollout.

        A ruling that failed leaves None where it is used, and changes nothing else.

        Raises:
            ValueError: there are more or fewer rulings than calls.
            EngineError: a ruling's value is none of those that ``Ruling`` allows.
        """
        self._check_count(rulings)
        return [_signals(places, rulings) for places in self.places]

    def frame(self, rulings: Sequence[Ruling], engine: str) -> pl.DataFrame:
        """The verdict table: a ``JUDGE_CALLS`` row for every use, in the order of ``uses``.

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
            "value": [rulings[use.call].value for use in uses],
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
    index: dict[JudgeCall, int] = {}
    places = tuple(_places(rollout, index) for rollout in rollouts)
    return Plan(tuple(rollouts), tuple(index), places)


def signals_from_frame(frame: pl.DataFrame, rollouts: Sequence[Rollout]) -> list[Signals]:
    """Each rollout's signals from a verdict table that holds its calls, in any order.

    ``frame`` needs the columns ``call_key``, ``value`` and ``failure`` of ``JUDGE_CALLS``;
    rows about other rollouts are passed over.

    Raises:
        SchemaError: a call is missing, or stands there with two values.
        EngineError: a value is none of those that ``Ruling`` allows.
    """
    rulings = rulings_from_frame(frame)
    planned = plan(rollouts)
    found = [rulings.get(call.key) for call in planned.calls]
    known = [ruling for ruling in found if ruling is not None]
    if len(known) < len(found):
        missing = planned.calls[found.index(None)]
        raise SchemaError(
            f"table '{JUDGE_CALLS.name}': {len(found) - len(known)} of {len(found)} calls are "
            f"missing, the first is {missing.task} {missing.key}"
        )
    return planned.signals(known)


def rulings_from_frame(frame: pl.DataFrame) -> Mapping[str, Ruling]:
    """Call key to ruling, from the columns ``call_key``, ``value`` and ``failure``.

    Raises:
        SchemaError: one call stands there with two rulings.
    """
    distinct = frame.select("call_key", "value", "failure").unique(maintain_order=True)
    found = {key: Ruling(value, failure) for key, value, failure in distinct.iter_rows()}
    if len(found) < distinct.height:
        raise SchemaError(
            f"table '{JUDGE_CALLS.name}': {distinct.height - len(found)} calls have two rulings"
        )
    return found


def _places(rollout: Rollout, index: dict[JudgeCall, int]) -> Places:
    """Enter a rollout's calls into ``index``."""
    document, claim, cycles = rollout.evidence, rollout.claim, rollout.trace.cycles
    answers = tuple(cycle.answer for cycle in cycles)
    abstained = tuple(map(abstains, answers))

    def place(call: JudgeCall) -> int:
        return index.setdefault(call, len(index))

    def verdict(kept: tuple[str, ...]) -> int | None:
        return place(JudgeCall("coverage", claim=claim, answers=kept)) if kept else None

    return Places(
        full=verdict(answers),
        without=tuple(verdict(answers[:i] + answers[i + 1 :]) for i in range(len(answers))),
        answerable=tuple(
            place(JudgeCall("answerability", document, question=cycle.question)) for cycle in cycles
        ),
        atomic=tuple(
            place(JudgeCall("atomicity", claim=claim, question=cycle.question)) for cycle in cycles
        ),
        correct=tuple(
            None
            if silent
            else place(JudgeCall("correctness", document, "", cycle.question, (cycle.answer,)))
            for cycle, silent in zip(cycles, abstained, strict=True)
        ),
        abstained=abstained,
    )


def _uses(rollout: int, places: Places) -> list[Use]:
    def of(role: Role, calls: Sequence[int | None]) -> list[Use]:
        return [Use(call, rollout, role, i) for i, call in enumerate(calls) if call is not None]

    full = [] if places.full is None else [Use(places.full, rollout, "full")]
    asked = (places.answerable, places.atomic, places.correct)
    return [
        *full,
        *of("leave_one_out", places.without),
        *(use for calls in asked for use in of("question", calls)),
    ]


def _signals(places: Places, rulings: Sequence[Ruling]) -> Signals:
    try:
        return Signals(
            full=_verdict(places.full, rulings),
            without=tuple(_verdict(call, rulings) for call in places.without),
            answerable=tuple(read_yes(rulings[call].value) for call in places.answerable),
            atomic=tuple(read_criteria(rulings[call].value) for call in places.atomic),
            correct=tuple(
                None if call is None else read_yes(rulings[call].value) for call in places.correct
            ),
            abstained=places.abstained,
        )
    except ValueError as error:
        raise EngineError(f"a judge's ruling is outside its contract: {error}") from error


def _verdict(call: int | None, rulings: Sequence[Ruling]) -> AnswersVerdict | None:
    """No answer, no call: nothing can be concluded."""
    return "NotEnoughInfo" if call is None else read_verdict(rulings[call].value)
