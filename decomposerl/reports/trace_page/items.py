"""One trace as the trace page shows it: a prediction, a result of ``verify``, or a rollout.

Texts are raw: nothing here is escaped, since the page renders text nodes alone.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from decomposerl.baselines.method import ParseStatus
from decomposerl.judge.call import JudgeCall, needed_calls
from decomposerl.reports.shown_confidence import VerdictConfidence
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import Basis
from decomposerl.traces.basis import basis_of
from decomposerl.traces.trace import Cycle, Verdict

FINDINGS = ("necessary", "redundant", "neutral", "harmful", "ungrounded", "changed", "unchanged")
"""What necessity finds of a question; other states of its rows are no finding."""
RANGES = {one.name: (float(one.low), float(one.high)) for one in REWARDS}
"""Least and greatest value of each reward."""
_DIGITS = 8
_TraceKey = tuple[str, int | None, int | None]
"""System, step and rollout."""


@dataclass(frozen=True, slots=True)
class ShownReward:
    """One reward of a trace; ``value`` is None unless ``state`` is scored."""

    name: str
    value: float | None
    state: str
    weight: float


@dataclass(frozen=True, slots=True)
class ShownRuling:
    """One ruling of the judge, as ``JUDGE_CALLS`` stores it.

    ``prompt`` and ``reply`` are empty where they were not looked up, or are not stored.
    """

    task: str
    role: str
    question: int | None
    value: str | None
    failure: str | None
    engine: str
    call_key: str = ""
    prompt: str = ""
    reply: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a training run's log says of a rollout.

    ``necessity`` has the finding and ``cosines`` the cosine to the nearest earlier question by
    cycle, both empty where the log has neither. ``total`` is the weighted sum.
    """

    rewards: tuple[ShownReward, ...] = ()
    rulings: tuple[ShownRuling, ...] = ()
    necessity: tuple[str, ...] = ()
    cosines: tuple[float | None, ...] = ()
    total: float | None = None


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """Where a trace comes from.

    ``step`` is None outside training, and so is ``rollout`` unless ``distinct`` numbers the trace.
    ``also`` names further test sets that hold the same trace.
    """

    system: str
    engine: str = ""
    benchmark: str = ""
    step: int | None = None
    rollout: int | None = None
    source: str = ""
    method: str = ""
    model: str = ""
    protocol: str = ""
    prompt_hash: str = ""
    seed: int | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceItem:
    """A trace with its claim, and all that is known of it.

    ``gold`` is the label, None where there is none. ``reply`` is the raw output, also of a broken
    trace. ``faults`` are kinds of ``traces.trace.FaultKind``.
    """

    claim_id: str
    claim: str
    evidence: str
    origin: TraceOrigin
    verdict: Verdict | None
    status: ParseStatus
    cycles: tuple[Cycle, ...] = ()
    opening: str = ""
    reply: str = ""
    gold: Verdict | None = None
    confidence: VerdictConfidence | None = None
    judged: Judged = Judged()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: str = ""

    @property
    def basis(self) -> Basis | None:
        """What the verdict rests on, by the answers of the trace."""
        return basis_of(one.answer for one in self.cycles)

    @property
    def digest(self) -> str:
        """8 hex digits over what a reviewer reads of it: thoughts, questions, answers, verdict."""
        cycles = [(one.question, one.answer, one.thought) for one in self.cycles]
        text = json.dumps([self.opening, cycles, self.reply, self.verdict])
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def distinct(items: Iterable[TraceItem]) -> list[TraceItem]:
    """The traces of one claim, each with a system, step and rollout that no other has.

    One that repeats another, test set and source apart, is left out; the other has its test set
    in ``also``. Where traces differ, all but the first get a rollout number from 2.
    """
    found: dict[_TraceKey, list[TraceItem]] = {}
    for item in items:
        key = item.origin.system, item.origin.step, item.origin.rollout
        others = found.setdefault(key, [])
        same = (n for n, one in enumerate(others) if _unplaced(one) == _unplaced(item))
        place = next(same, None)
        if place is None:
            others.append(item)
        else:
            others[place] = _also_in(others[place], item.origin.benchmark)
    return [one for key in [*found] for one in _numbered(found, key)]


def _unplaced(item: TraceItem) -> TraceItem:
    return replace(item, origin=replace(item.origin, benchmark="", source="", also=()))


def _also_in(item: TraceItem, benchmark: str) -> TraceItem:
    origin = item.origin
    if benchmark in {"", origin.benchmark, *origin.also}:
        return item
    return replace(item, origin=replace(origin, also=(*origin.also, benchmark)))


def _numbered(found: dict[_TraceKey, list[TraceItem]], key: _TraceKey) -> list[TraceItem]:
    """The traces of a key; all but the first take a number that is free in ``found``."""
    first, *others = found[key]
    shown, number, (system, step, _) = [first], 2, key
    for one in others:
        while (system, step, number) in found:
            number += 1
        found[system, step, number] = [one]
        shown.append(replace(one, origin=replace(one.origin, rollout=number)))
    return shown


ConfidenceKind = Literal["calibrated", "normalised", ""]


def confidence_kind(calibrated: Sequence[bool]) -> ConfidenceKind:
    """What a page shows of traces with a confidence: one kind for all of them."""
    if not calibrated:
        return ""
    return "calibrated" if all(calibrated) else "normalised"


def judge_calls(item: TraceItem) -> dict[str, JudgeCall]:
    """The judge calls that an item's trace needs, by key."""
    from decomposerl.traces.rollout import Rollout
    from decomposerl.traces.trace import Trace

    trace = Trace((), (), item.opening or None, item.cycles, item.verdict)
    rollout = Rollout(item.claim_id, 0, item.claim, item.evidence, trace)
    return {call.key: call for call in needed_calls(rollout).values()}
