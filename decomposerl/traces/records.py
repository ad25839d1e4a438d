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
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count
from typing import Annotated, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, FailFast, Field, ValidationError
from pydantic import ValidationInfo as Info

from decomposerl.errors import SourceFileError
from decomposerl.printable import printable
from decomposerl.schemas import LABELS, WRITTEN, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout

Unit = Literal["line", "row"]
Prepared = Callable[[dict[str, object]], dict[str, object]]
MOST_BYTES = {"claim": 16_000, "evidence": 2_000_000, "trace": 256_000}
"""The longest text of a field, in bytes of UTF-8."""
MOST_QUESTIONS = 1_000
"""Questions of a trace; n of them take 4n + 1 rulings."""
_LABEL_NAMES = {"gold", "gold_label", "ground_truth", "target", "answer_key", "labels"}
_LARGEST = 1_000_000
_NO_TEXT = {"nan", "n/a", "none", "null"}  # what programs write where there is none
_KINDS = {
    str: "a text", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip
_SAID = {
    "missing": "is missing",
    "string_type": "{} instead of a text",
    "int_type": "{} instead of a whole number",
    "bool_type": "{} instead of true or false",
    "list_type": "{} instead of a list of texts",
}
"""Errors of pydantic in the words of a line of JSON."""
Model = TypeVar("Model", bound=BaseModel)


def _text(text: str, info: Info) -> str:
    """A text with words, no longer than any real one; a trace may be blank."""
    size, most = len(text.encode()), MOST_BYTES.get(info.field_name or "", math.inf)
    if not text.strip() and info.field_name != "trace":
        raise ValueError("is blank")
    if info.field_name == "evidence" and text.strip().casefold() in _NO_TEXT:
        raise ValueError(f"is '{text.strip()}', which is no text")
    if size > most:
        raise ValueError(f"is {size:,} bytes long; at most {most:,} are scored")
    if info.field_name == "trace" and (asked := text.count("<question>")) > MOST_QUESTIONS:
        raise ValueError(f"holds {asked:,} questions; at most {MOST_QUESTIONS:,} are scored")
    return text


def _joined(value: object) -> object:
    """One text of passages."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(part, str) for part in value):
        raise ValueError("is not a list of texts")
    return "\n".join(filter(str.strip, value))


def _label(value: object, info: Info) -> Verdict:
    """One of the labels that the context has, in any letter case."""
    labels = cast("tuple[Verdict, ...]", info.context)
    word = value.strip().casefold() if isinstance(value, str) else None
    for label in labels:
        if word in {label.casefold(), WRITTEN[label].casefold()}:
            return label
    *names, last = (WRITTEN[label] for label in labels)
    shown = f"'{safe_name(value)}'" if isinstance(value, str) else _KINDS[type(value)]
    raise ValueError(f"{shown} is neither {', '.join(names)} nor {last}")


def _silver(number: int | None, info: Info) -> int | None:
    """The number of silver questions; where only they are given, that of different ones."""
    asked = len({*filter(None, map(str.strip, info.data.get("questions", ())))}) or None
    if number is not None and number != (asked or number):
        raise ValueError(f"{number}, but there are {asked} different questions")
    return number or asked


_Text = Annotated[str, AfterValidator(_text)]
_Evidence = Annotated[_Text, BeforeValidator(_joined)]
_Name = Annotated[_Text, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
_Whole = Annotated[  # a column with nulls makes floats of whole numbers
    int, BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)
]


class _ClaimFields(BaseModel, strict=True):
    claim: _Text
    evidence: _Evidence
    claim_id: _Name = ""


class _SearchedFields(_ClaimFields):
    evidence: _Evidence = ""


class _TraceFields(BaseModel, strict=True):
    claim: _Text
    evidence: _Evidence
    trace: _Text
    label: Annotated[Verdict | None, BeforeValidator(_label)] = None
    questions: Annotated[list[str], FailFast()] = []
    n_star: Annotated[_Whole | None, Field(ge=1, le=_LARGEST), AfterValidator(_silver)] = Field(
        None, validate_default=True
    )
    group: _Name = ""
    rollout: Annotated[_Whole | None, Field(ge=0, le=_LARGEST)] = None
    truncated: bool = False


class _RowFields(_TraceFields):
    # A trainer's rollouts have no limits; half of a surrogate pair is no text there either.
    trace: Annotated[str, AfterValidator(lambda text: text.encode().decode())]


FIELDS = tuple(_TraceFields.model_fields)
"""Every field of a trace that is read."""


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
) -> tuple[dict[int, Rollout], list[Problem]]:
    """Read JSONL lines into rollouts by line number; blank ones are none but count as lines.

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
    objects = ((n, v if isinstance(v, str) else prepared(v)) for n, v in _objects(lines))
    return _rollouts(objects, file, "line", _TraceFields, labels)


def read_trace_rows(
    rows: Sequence[object], place: str, labels: tuple[Verdict, ...] = LABELS
) -> tuple[dict[int, Rollout], list[Problem]]:
    """The same for JSON values, numbered from 0 as in their list; ``place`` is what holds them.

    They come from a trainer, whose rollouts have no limits: neither have traces here. The scorer
    bounds what a judge is asked (``most_cycles``).
    """
    objects = ((n, v if isinstance(v, dict) else _no_object(v)) for n, v in enumerate(rows))
    return _rollouts(objects, place, "row", _RowFields, labels)


def _rollouts(
    objects: Iterable[tuple[int, dict[str, object] | str]],
    file: str,
    unit: Unit,
    model: type[_TraceFields],
    labels: tuple[Verdict, ...],
) -> tuple[dict[int, Rollout], list[Problem]]:
    """The rollouts of numbered objects, and what is wrong with the others."""
    rollouts: dict[int, Rollout] = {}
    problems: list[Problem] = []
    unread: set[str] = set()
    groups: dict[str, dict[int, int]] = {}  # lines by the number of the rollout
    free: dict[str, int] = {}  # a number up to which none of a group is free
    for line, values in objects:
        if isinstance(values, str):
            problems.append(Problem(file, line, "", values, unit=unit))
            continue
        fields, wrong = _fields(model, values, labels)
        for name in (name for name in values if name not in FIELDS):
            if meant := meant_field(name, values):
                wrong.append((safe_name(name), f"is no field; '{meant}' is absent: rename it"))
            elif name not in unread:
                unread.add(name)
                said = f"is not read, here and in later {unit}s"
                problems.append(Problem(file, line, safe_name(name), said, False, unit))
        if fields is not None and not wrong:
            group = fields.group or group_of(fields.claim, fields.evidence)
            lines, number = groups.setdefault(group, {}), fields.rollout
            if number is None:
                number = next(n for n in count(free.get(group, 0)) if n not in lines)
                free[group] = number
            trace = parse_trace(fields.trace, labels)
            prompt = group, number, fields.claim, fields.evidence
            rollout = Rollout(*prompt, trace, fields.label, fields.n_star, fields.truncated)
            wrong += _clashes(rollout, lines, rollouts, unit)
            if not wrong:
                lines[number], rollouts[line] = line, rollout
        problems += [Problem(file, line, name, reason, unit=unit) for name, reason in wrong]
    return rollouts, problems


def _clashes(
    rollout: Rollout, lines: Mapping[int, int], rollouts: Mapping[int, Rollout], unit: Unit
) -> Iterator[tuple[str, str]]:
    """Where a rollout disagrees with the first one of its group, or repeats another."""
    for first in list(lines.values())[:1]:
        for name in ("claim", "evidence", "label", "n_star"):
            if getattr(rollout, name) != getattr(rollouts[first], name):
                yield name, f"differs from {unit} {first} of the same group"
    if rollout.number in lines:
        other = f"{unit} {lines[rollout.number]} of the same group"
        yield "rollout", f"{rollout.number} is the number of {other}"


def _fields(
    model: type[Model], values: Mapping[str, object], labels: Sequence[Verdict] = LABELS
) -> tuple[Model | None, list[tuple[str, str]]]:
    """The fields of an object, in which null is absent; or name and reason of each bad one."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return model.model_validate(given, context=labels), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    wrong = []
    for problem in errors:
        said = _SAID.get(problem["type"], "").format(_KINDS[type(problem["input"])])
        reason = said or problem["msg"].removeprefix("Value error, ")
        wrong.append((str(problem["loc"][0]), reason))
    return None, wrong


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
    fields, wrong = _fields(_ClaimFields if evidence else _SearchedFields, values)
    if fields is None:
        return None, [Problem(file, line, name, reason) for name, reason in wrong]
    given = values.get("evidence")
    parts = map(str, given) if isinstance(given, list) else fields.evidence.splitlines()
    passages = tuple(filter(None, map(str.strip, parts)))
    claim, claim_id = fields.claim.strip(), fields.claim_id
    return ClaimRecord(claim, "\n".join(passages), passages, claim_id), []


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
