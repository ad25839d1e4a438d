"""JSONL lines and JSON rows: traces for ``decomposerl score``, claims for ``decomposerl verify``.

Gives records and what is wrong with the rest. One line is one trace of a policy with its claim, or
a claim alone; ``claim``, ``evidence`` and ``trace`` must be there, null is absent elsewhere::

    {"claim": "…", "evidence": "…" or ["…", "…"], "trace": "<think>…",
     "label": "Supported", "n_star": 3, "questions": ["…"], "group": "a17",
     "rollout": 0, "truncated": false}
    {"claim": "…", "evidence": "…" or ["…", "…"], "claim_id": "…"}

A bad line never stops the lines after it, and none is repaired by a guess: it is left out, also
where a field is misspelt. Sizes have limits far above any rollout, so none holds up the rest.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import count
from typing import Any, Literal, TypeVar

from decomposerl.errors import SourceFileError
from decomposerl.printable import printable
from decomposerl.schemas import LABELS, WRITTEN, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout

Unit = Literal["line", "row"]
Prepared = Callable[[dict[str, object]], dict[str, object]]
FIELDS = (
    "claim", "evidence", "trace", "label", "n_star", "questions", "group", "rollout", "truncated",
)  # fmt: skip
"""Every field of a trace that is read."""
MOST_BYTES = {"claim": 16_000, "evidence": 2_000_000, "trace": 256_000}
"""The longest text of a field, in bytes of UTF-8."""
MOST_QUESTIONS = 1_000
"""Questions of a trace; n of them take 4n + 1 rulings."""
MOST_READ = 200_000_000
"""Questions of a trace times bytes of its evidence, in which each of them is looked up."""
_LABEL_NAMES = {"gold", "gold_label", "ground_truth", "target", "answer_key", "labels"}
_LARGEST = 1_000_000
_NO_TEXT = {"nan", "n/a", "none", "null"}  # what programs write where there is none
_KINDS = {
    str: "a text", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip
Value = TypeVar("Value")


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
        trace, n_star = parse_trace(self.text, self.labels), self.n_star
        prompt = self.group, self.number, self.claim, self.evidence
        return Rollout(*prompt, trace, self.label, n_star, self.truncated)


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim with its evidence. ``passages`` are the parts of the evidence, in order.

    ``claim_id`` is the caller's own, empty where it gave none. ``notes`` say where evidence comes
    from that was searched for; it may then be empty.
    """

    claim: str
    evidence: str
    passages: tuple[str, ...]
    claim_id: str = ""
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """16 hex digits of SHA-256 over claim and evidence: what a result is stored under."""
        return group_of(self.claim, self.evidence)


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
        where = f", field '{self.field}'" if self.field else ""
        return f"{self.file}, {self.unit} {self.line}{where}: {self.reason}"


def read_trace_records(
    lines: Iterable[str], file: str, labels: tuple[Verdict, ...] = LABELS, prepared: Prepared = dict
) -> tuple[list[TraceRecord], list[Problem]]:
    """Read JSONL lines; blank ones are no records but count as lines.

    ``prepared`` gives the fields of an object. Without ``group``, equal claim and evidence make one
    group; a number is a name too. Without ``rollout``, a record takes the least number that no
    earlier one of its group has. ``n_star`` is at least 1; where only ``questions`` are given it is
    the number of different ones. A group holds one claim with one evidence, label and n*, and each
    number once. Labels and verdicts are ``labels``, those of a claim in any letter case. A list of
    passages becomes one text with line breaks.

    Every problem of a line is reported, in line order; a field that is not read is reported
    once, where it first stands. Bytes that are not UTF-8 come as surrogates ("surrogateescape"
    of Python) and make a bad line. Never raises on any content.
    """
    reader = _Reader(file, labels)
    for number, values in _objects(lines):
        reader.take(number, values if isinstance(values, str) else prepared(values))
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
        reader.take(number, values if isinstance(values, dict) else _no_object(values))
    return reader.records, reader.problems


def read_claim_records(
    lines: Iterable[str], file: str, *, evidence: bool = True
) -> tuple[list[ClaimRecord], list[Problem]]:
    """The claims of JSONL lines, and what is wrong with the other lines; blank ones count as lines.

    Raises:
        SourceFileError: there is no claim; it has the first problem, and how many more there are.
    """
    records: list[ClaimRecord] = []
    problems: list[Problem] = []
    for number, values in _objects(lines):
        if isinstance(values, str):
            problems.append(Problem(file, number, "", values))
            continue
        record, wrong = claim_record(values, file, number, evidence=evidence)
        problems += wrong
        records += [] if record is None else [record]
    if not records:
        more = f" (and {len(problems) - 1:,} further problems)" if len(problems) > 1 else ""
        raise SourceFileError(f"{problems[0]}{more}" if problems else f"{file} holds no claim")
    return records, problems


def claim_record(
    values: dict[str, object], file: str, line: int = 1, *, evidence: bool = True
) -> tuple[ClaimRecord | None, list[Problem]]:
    """The claim of a JSON object, or what is wrong with its fields.

    A text is one evidence document whose lines are its passages. ``evidence`` says whether it must
    be there.
    """
    fields, given = _Fields(values), values.get("evidence")
    claim = fields.read("claim", _claim, "", required=True)
    text = fields.read("evidence", _evidence, "", required=evidence)
    claim_id = fields.read("claim_id", _name, "")
    if text.strip().casefold() in _NO_TEXT:
        fields.bad.append(("evidence", f"is '{text.strip()}', which is no text"))
    if fields.bad:
        return None, [Problem(file, line, name, reason) for name, reason in fields.bad]
    parts = map(str, given) if isinstance(given, list) else text.splitlines()
    passages = tuple(filter(None, map(str.strip, parts)))
    return ClaimRecord(claim.strip(), "\n".join(passages), passages, claim_id), []


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
    return values if isinstance(values, dict) else _no_object(values)


def meant_field(
    name: str, values: Mapping[str, object], fields: Sequence[str] = FIELDS
) -> str | None:
    """The one of ``fields`` that an unknown name seems to stand for and that ``values`` lack."""
    near = get_close_matches(name.casefold(), fields, 1, 0.7)  # as "lable", not as "table"
    meant = "label" if name.casefold() in _LABEL_NAMES else near[0] if near else ""
    return meant if meant in fields and values.get(meant) is None else None


def group_of(claim: str, evidence: str) -> str:
    """The group of a record that names none: 16 hex digits of SHA-256 over both texts."""
    text = json.dumps([claim, evidence], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def safe_name(text: str) -> str:
    """A field's name as it may be shown and stored, at most 80 characters."""
    return printable(text.encode("utf-8", "replace").decode("utf-8")[:80], keep="")


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, object] | str]]:
    """The number of each line that is not blank, and its object or what is wrong with it."""
    for number, text in enumerate(lines, start=1):
        if text.strip():
            yield number, json_object(text.removeprefix("\ufeff") if number == 1 else text)


def _no_object(value: object) -> str:
    return f"is {_KINDS[type(value)]} instead of an object"


@dataclass(slots=True)
class _Reader:
    """Records and problems so far, and the fields and groups that were met.

    Without ``trace_limits`` a trace may have any size, as a rollout of a trainer.
    """

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

    def take(self, line: int, values: dict[str, object] | str) -> None:
        """Read an object, or note what is wrong with its line."""
        if isinstance(values, str):
            self._note(line, "", values)
            return
        fields = _Fields(values)
        record = self._record(line, fields)
        for name in (name for name in values if name not in FIELDS):
            if meant := meant_field(name, values):
                fields.bad.append((safe_name(name), f"is no field; '{meant}' is absent: rename it"))
            elif name not in self.unread:
                self.unread.add(name)
                said = f"is not read, here and in later {self.unit}s"
                self._note(line, safe_name(name), said, dropped=False)
        bad = fields.bad or list(self._clashes(record))
        for name, reason in bad:
            self._note(line, name, reason)
        if not bad:
            self.groups.setdefault(record.group, {})[record.number] = record
            self.records.append(record)

    def _note(self, line: int, name: str, reason: str, *, dropped: bool = True) -> None:
        self.problems.append(Problem(self.file, line, name, reason, dropped, self.unit))

    def _record(self, line: int, fields: "_Fields") -> TraceRecord:
        claim = fields.read("claim", _claim, "", required=True)
        evidence = fields.read("evidence", _evidence, "", required=True)
        trace = partial(_trace, evidence=evidence if self.trace_limits else None)
        text = fields.read("trace", trace, "", required=True)
        label = fields.read("label", partial(_label, labels=self.labels), None)
        n_star = fields.read("n_star", partial(_number, least=1), None)
        questions: list[str] = fields.read("questions", _texts, [])
        asked = len(set(map(str.strip, questions))) or None
        if n_star is not None and asked is not None and n_star != asked:
            fields.bad.append(("n_star", f"{n_star}, but there are {asked} different questions"))
        group = fields.read("group", _name, "") or group_of(claim, evidence)
        number = fields.read("rollout", partial(_number, least=0), None)
        if number is None:
            taken = self.groups.get(group, {})
            number = next(free for free in count(self.free.get(group, 0)) if free not in taken)
            self.free[group] = number
        truncated = fields.read("truncated", _truth, False)
        prompt = claim, evidence, text, label, n_star or asked, group
        return TraceRecord(line, *prompt, number, truncated, self.labels)

    def _clashes(self, record: TraceRecord) -> Iterator[tuple[str, str]]:
        """Where a record disagrees with the first one of its group, or repeats another."""
        members = self.groups.get(record.group, {record.number: record})
        first = next(iter(members.values()))
        for name in ("claim", "evidence", "label", "n_star"):
            if getattr(record, name) != getattr(first, name):
                yield name, f"differs from {self.unit} {first.line} of the same group"
        other = members.get(record.number, record)
        if other is not record:
            said = f"{record.number} is the number of {self.unit} {other.line} of the same group"
            yield "rollout", said


class _FieldError(Exception):
    """A field cannot be read; ``str`` says why."""


class _Fields:
    """The fields of one line, and what is wrong with those that cannot be read."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self.bad: list[tuple[str, str]] = []

    def read(
        self, name: str, read: Callable[[Any], Value], absent: Value, *, required: bool = False
    ) -> Value:
        """What ``read`` makes of a field; ``absent`` where there is none, or it raises."""
        value = self.values.get(name)
        try:
            if value is not None:
                return read(value)
        except _FieldError as error:
            self.bad.append((name, str(error)))
        if value is None and required:
            self.bad.append((name, "is null" if name in self.values else "is missing"))
        return absent


def _text(value: object, most: int | None = None, *, blank: bool = False) -> str:
    """A text, no longer than any real one; ``blank`` allows an empty one."""
    if not isinstance(value, str):
        raise _FieldError(f"{_KINDS[type(value)]} instead of a text")
    if not (blank or value.strip()):
        raise _FieldError("is blank")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise _FieldError("holds half of a surrogate pair, which is no character") from None
    if most is not None and size > most:
        raise _FieldError(f"is {size:,} bytes long; at most {most:,} are scored")
    return value


_claim = partial(_text, most=MOST_BYTES["claim"])


def _name(value: object) -> str:
    """A text, or a whole number in place of one."""
    return str(value) if type(value) is int else _text(value)


def _texts(value: object) -> list[str]:
    """A list of texts, blank ones left out."""
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise _FieldError("is not a list of texts")
    return [_text(part) for part in value if part.strip()]


def _evidence(value: object) -> str:
    """One text, or passages joined with line breaks."""
    text = "\n".join(_texts(value)) if isinstance(value, list) else value
    if not text and isinstance(value, list):
        raise _FieldError("holds no passage with text")
    return _text(text, MOST_BYTES["evidence"])


def _trace(value: object, evidence: str | None) -> str:
    """A trace, which may be blank; what it asks of ``evidence`` has a limit, without it none."""
    text = _text(value, None if evidence is None else MOST_BYTES["trace"], blank=True)
    asked, size = text.count("<question>"), len((evidence or "").encode())
    if evidence is not None and asked > MOST_QUESTIONS:
        raise _FieldError(f"holds {asked:,} questions; at most {MOST_QUESTIONS:,} are scored")
    if asked * size > MOST_READ:
        most = f"at most {MOST_READ // size:,} are scored"
        raise _FieldError(f"asks {asked:,} questions of {size:,} bytes of evidence; {most}")
    return text


def _number(value: object, least: int) -> int:
    """A whole number from ``least`` on; a column with nulls makes floats of whole numbers."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(number) is not int:
        raise _FieldError(f"{_KINDS[type(value)]} instead of a whole number")
    if not least <= number <= _LARGEST:
        raise _FieldError(f"{safe_name(str(number))} is not within {least} to {_LARGEST}")
    return number


def _label(value: object, labels: tuple[Verdict, ...]) -> Verdict:
    """One of the labels, in any letter case."""
    word = value.strip().casefold() if isinstance(value, str) else None
    for label in labels:
        if word in {label.casefold(), WRITTEN[label].casefold()}:
            return label
    *names, last = (WRITTEN[label] for label in labels)
    shown = f"'{safe_name(value)}'" if isinstance(value, str) else _KINDS[type(value)]
    raise _FieldError(f"{shown} is neither {', '.join(names)} nor {last}")


def _truth(value: object) -> bool:
    """Whether the token budget ended before the trace."""
    if not isinstance(value, bool):
        raise _FieldError(f"{_KINDS[type(value)]} instead of true or false")
    return value
