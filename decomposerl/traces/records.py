"""Traces to be scored: what ``decomposerl score`` reads from JSONL lines and the server from JSON.

Takes lines or rows, gives ``TraceRecord`` values and what is wrong with the rest. One line is one
trace of any policy with its claim::

    {"claim": "…", "evidence": "…" or ["…", "…"], "trace": "<think>…",
     "label": "Supported", "n_star": 3, "questions": ["…"], "group": "a17",
     "rollout": 0, "truncated": false}

``claim``, ``evidence`` and ``trace`` must be there; null is the same as absent elsewhere. A
bad line never stops the lines after it, and none is repaired by a guess: it is left out.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from decomposerl.schemas import LABELS, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.record_fields import FIELDS, Fields, kind_of, shown_name
from decomposerl.traces.rollout import Rollout

Unit = Literal["line", "row"]
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One line or row that can be scored, and its number; the rest is as in ``Rollout``."""

    line: int
    claim: str
    evidence: str
    text: str
    label: Verdict | None
    n_star: int | None
    group: str
    number: int
    truncated: bool
    labels: tuple[Verdict, ...] = LABELS
    """The verdicts that the trace may end with."""

    def rollout(self) -> Rollout:
        """The record with its trace parsed."""
        return Rollout(
            group=self.group,
            number=self.number,
            claim=self.claim,
            evidence=self.evidence,
            trace=parse_trace(self.text, self.labels),
            label=self.label,
            n_star=self.n_star,
            truncated=self.truncated,
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where. ``field`` is empty where the whole line is.

    ``dropped`` says that the line is left out for it; an unknown field costs nothing. ``unit`` is
    what ``line`` counts.
    """

    file: str
    line: int
    field: str
    reason: str
    dropped: bool = True
    unit: Unit = "line"

    def __str__(self) -> str:
        """One line for a reader."""
        where = f"{self.file}, {self.unit} {self.line}"
        return (
            f"{where}, field '{self.field}': {self.reason}"
            if self.field
            else (f"{where}: {self.reason}")
        )


def read_trace_records(
    lines: Iterable[str], file: str, labels: tuple[Verdict, ...] = LABELS
) -> tuple[list[TraceRecord], list[Problem]]:
    """Read JSONL lines; blank ones are no records but count as lines.

    Without ``group``, equal claim and evidence make one group; a number is a name too. Without
    ``rollout``, a record takes the least number that no earlier one of its group has.
    ``n_star`` is at least 1; where only ``questions`` are given it is the number of different
    ones. A group holds one claim with one evidence, label and n*, and each number once. Labels
    and verdicts are ``labels``, those of a claim in any letter case. A list of passages becomes one
    text with line breaks.

    Every problem of a line is reported, in line order; a field that is not read is reported
    once, where it first stands. Bytes that are not UTF-8 come as surrogates ("surrogateescape"
    of Python) and make a bad line. Never raises on any content.
    """
    reader = _Reader(file, labels)
    for number, text in enumerate(lines, start=1):
        if text.strip():
            reader.read(number, text.removeprefix("\ufeff") if number == 1 else text)
    return reader.records, reader.problems


def read_trace_rows(
    rows: Sequence[object], place: str, labels: tuple[Verdict, ...] = LABELS
) -> tuple[list[TraceRecord], list[Problem]]:
    """The same for JSON values, numbered from 0 as in their list; ``place`` is what holds them.

    They come from a trainer, whose rollouts have no limits: neither have traces here. The scorer
    bounds what a judge is asked (``most_cycles``).
    """
    reader = _Reader(place, labels, "row", trace_limits=False)
    for number, values in enumerate(rows):
        reader.take(number, values)
    return reader.records, reader.problems


def json_object(text: str) -> dict[str, object] | str:
    """The JSON object of a line, or what is wrong with the line. Never raises."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "not UTF-8 text"
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    return values if isinstance(values, dict) else f"is {kind_of(values)} instead of an object"


def group_of(claim: str, evidence: str) -> str:
    """The group of a record that names none: 16 hex digits of SHA-256 over both texts."""
    text = json.dumps([claim, evidence], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


@dataclass(slots=True)
class _Reader:
    """Records and problems so far, and the fields and groups that were met."""

    file: str
    labels: tuple[Verdict, ...]
    unit: Unit = "line"
    trace_limits: bool = True
    records: list[TraceRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    groups: dict[str, dict[int, TraceRecord]] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    """A number up to which none of a group is free."""

    def read(self, line: int, text: str) -> None:
        values = json_object(text)
        if isinstance(values, str):
            self._drop(line, "", values)
        else:
            self.take(line, values)

    def take(self, line: int, values: object) -> None:
        if not isinstance(values, dict):
            self._drop(line, "", f"is {kind_of(values)} instead of an object")
            return
        self._report_unread(line, values)
        fields = Fields(values, self.trace_limits, self.labels)
        record = self._record(line, fields)
        bad = fields.bad or list(self._clashes(record))
        for name, reason in bad:
            self._drop(line, name, reason)
        if not bad:
            self.groups.setdefault(record.group, {})[record.number] = record
            self.records.append(record)

    def _record(self, line: int, fields: Fields) -> TraceRecord:
        claim, evidence = fields.text("claim"), fields.evidence()
        text, label, n_star = fields.trace(evidence), fields.label(), fields.n_star()
        named = fields.values.get("group") is not None
        group = fields.name("group") if named else group_of(claim, evidence)
        number = fields.number("rollout", least=0)
        if number is None:
            taken = self.groups.get(group, {})
            number = next(free for free in count(self.free.get(group, 0)) if free not in taken)
            self.free[group] = number
        prompt = claim, evidence, text, label, n_star, group
        return TraceRecord(line, *prompt, number, fields.truncated(), self.labels)

    def _clashes(self, record: TraceRecord) -> Iterator[tuple[str, str]]:
        """Where a record disagrees with the first one of its group, or repeats another."""
        members = self.groups.get(record.group)
        if not members:
            return
        first = next(iter(members.values()))
        for name in _SHARED:
            if getattr(record, name) != getattr(first, name):
                yield name, f"differs from {self.unit} {first.line} of the same group"
        if record.number in members:
            other = f"{self.unit} {members[record.number].line}"
            yield "rollout", f"{record.number} is the number of {other} of the same group"

    def _report_unread(self, line: int, values: Mapping[str, object]) -> None:
        for name in values:
            if name not in FIELDS and name not in self.unread:
                self.unread.add(name)
                reason = f"is not read, here and in later {self.unit}s"
                problem = Problem(self.file, line, shown_name(name), reason, False, self.unit)
                self.problems.append(problem)

    def _drop(self, line: int, name: str, reason: str) -> None:
        self.problems.append(Problem(self.file, line, name, reason, unit=self.unit))


_SHARED = ("claim", "evidence", "label", "n_star")
