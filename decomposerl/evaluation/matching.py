"""Matching predictions with labels, from files of any project.

Takes the rows of two files and which of their fields mean what, gives one ``Example`` per label and
every row that does not fit, named by file, row and field. No row is dropped silently: what the
options leave out is counted.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt
from decomposerl.evaluation.cells import (
    CellError,
    Spellings,
    cell_of,
    finite_number,
    identifier_of,
)
from decomposerl.evaluation.conditions import EVERY_ROW, Conditions, rows_that_count
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.threshold import Several, combined
from decomposerl.traces.trace import Verdict

Id = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Which field means what; a dotted name leads into nested objects.

    With empty ``prediction_id`` and ``label_id`` row n of one file belongs to row n of the other.
    An empty ``verdict``, ``score``, ``group`` or ``document`` means that there is none; the last
    two are fields of the labels. Several fields of ``group`` make a group of each combination.
    """

    prediction_id: tuple[str, ...] = ("id",)
    label_id: tuple[str, ...] = ("id",)
    label: str = "label"
    verdict: str = ""
    score: str = ""
    group: tuple[str, ...] = ()
    document: str = ""


@dataclass(frozen=True, slots=True)
class MatchingRules:
    """How cells are read, and what happens to rows without a partner.

    ``several`` reduces a claim's scores to one; without it a second score is an error. A label
    without a prediction is an ``error``, counts as ``wrong``, or is left out (``skip``); a
    prediction without a label is an ``error`` or left out. Only labels that fulfil ``where``
    count, and their predictions with them. ``unread`` is what an unreadable prediction counts as.
    """

    spellings: Spellings
    several: Several | None = None
    missing: Literal["error", "wrong", "skip"] = "error"
    extra: Literal["error", "skip"] = "error"
    where: Conditions = EVERY_ROW
    unread: Unread = "opposite"


@dataclass(frozen=True, slots=True)
class Example:
    """A claim with its label and prediction; ``score`` is NaN where there is none."""

    id: Id
    label: Verdict
    verdict: Verdict | None
    score: float
    group: str
    document: str | None


@dataclass(slots=True)
class Matched:
    """The examples in the order of the labels, the errors, and what was left out."""

    examples: list[Example] = field(default_factory=list)
    errors: list[CellError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Predicted:
    """The prediction of one claim, and its first row."""

    record: Record
    verdict: Verdict | None = None
    scores: list[float] = field(default_factory=list)


def match_predictions(
    predictions: Sequence[Record],
    labels: Sequence[Record],
    columns: FieldNames,
    rules: MatchingRules,
) -> Matched:
    """Match predictions with labels; ``errors`` is empty where every row fits.

    Raises:
        EvaluationError: as ``conditions.rows_that_count``.
    """
    matched = Matched()
    counted, others = rows_that_count(labels, rules.where)
    one_file = predictions is labels
    said = counted if one_file else list(enumerate(predictions, start=1))
    predicted = _predicted(said, columns, rules, matched.errors)
    labelled: dict[Id, tuple[Record, Verdict | None]] = {}
    for number, record in counted:
        try:
            name = _id(record, columns.label_id, number)
            first = labelled.setdefault(name, (record, None))
            label = _label(record, columns, rules)
            if first[0] is not record:
                _check_repeated(first, label, record, columns, rules)
                continue
            labelled[name] = (record, label)
            if label is None:
                matched.left_out["labels that were to be left out"] += 1
            elif name in predicted or _counts_unpredicted(
                name, record, columns, rules, matched.left_out
            ):
                one = predicted.get(name) or _Predicted(record)
                matched.examples.append(_example(name, label, record, columns, one))
        except CellError as error:
            matched.errors.append(error)
    if others:
        matched.left_out["labels that --where leaves out"] = len(others)
    passed = set() if one_file else _ids_of(others, columns.label_id)
    _unlabelled(predicted, labelled.keys() | passed, columns, rules, matched)
    return matched


def _ids_of(rows: Sequence[tuple[int, Record]], names: tuple[str, ...]) -> set[Id]:
    """The ids of rows that do not count; a row without an id has no prediction either."""
    ids = set()
    for number, record in rows:
        with suppress(CellError):
            ids.add(_id(record, names, number))
    return ids


def _counts_unpredicted(
    name: Id, record: Record, columns: FieldNames, rules: MatchingRules, left_out: Counter[str]
) -> bool:
    """Whether a label without a prediction counts."""
    if rules.missing == "error":
        raise CellError(record, _names(columns.label_id), f"{_shown(name)} has no prediction")
    counted = ", counted as wrong" if rules.missing == "wrong" else ""
    left_out[f"labels without a prediction{counted}"] += 1
    return rules.missing == "wrong"


def _example(
    name: Id, label: Verdict, record: Record, columns: FieldNames, predicted: _Predicted
) -> Example:
    group = _group(record, columns.group)
    document = _document(record, columns.document) if columns.document else None
    score = predicted.scores[0] if predicted.scores else math.nan
    return Example(name, label, predicted.verdict, score, group, document)


def _group(record: Record, names: tuple[str, ...]) -> str:
    r"""The value of one field; of several their values, ``a / b``, a slash in one as ``\/``."""
    cells = ((name, cell_of(record, name)) for name in names)
    words = [
        str(cell).lower() if isinstance(cell, bool) else identifier_of(record, name)
        for name, cell in cells
    ]
    if len(words) <= 1:
        return "".join(words)
    return " / ".join(word.replace("\\", "\\\\").replace("/", "\\/") for word in words)


def _document(record: Record, name: str) -> str | None:
    """The document's name; None for an empty cell: the claim shares its evidence with none."""
    cell = cell_of(record, name)
    blank = cell is None or (isinstance(cell, str) and not cell.strip())
    return None if blank else identifier_of(record, name)


def _unlabelled(
    predicted: Mapping[Id, _Predicted],
    seen: Container[Id],
    columns: FieldNames,
    rules: MatchingRules,
    matched: Matched,
) -> None:
    for name, prediction in predicted.items():
        if name in seen:
            continue
        if rules.extra == "skip":
            matched.left_out["predictions without a label"] += 1
        else:
            fields = _names(columns.prediction_id)
            error = CellError(prediction.record, fields, f"{_shown(name)} has no label")
            matched.errors.append(error)


def _predicted(
    rows: Sequence[tuple[int, Record]],
    columns: FieldNames,
    rules: MatchingRules,
    errors: list[CellError],
) -> dict[Id, _Predicted]:
    predicted: dict[Id, _Predicted] = {}
    for number, record in rows:
        try:
            name = _id(record, columns.prediction_id, number)
            one = predicted.setdefault(name, _Predicted(record))
            _read_prediction(one, record, columns, rules)
        except CellError as error:
            errors.append(error)
    for one in predicted.values():
        if one.scores and rules.several is not None:
            one.scores = [combined(one.scores, rules.several)]
    return predicted


def _read_prediction(
    one: _Predicted, record: Record, columns: FieldNames, rules: MatchingRules
) -> None:
    if one.record is not record and (rules.several is None or columns.verdict):
        reason = f"the same id stands in row {one.record.row} already"
        raise CellError(record, _names(columns.prediction_id), reason)
    if columns.verdict:
        one.verdict = _verdict(record, columns, rules)
    if columns.score:
        one.scores += _scores(record, columns.score, rules)


def _check_repeated(
    first: tuple[Record, Verdict | None],
    label: Verdict | None,
    record: Record,
    columns: FieldNames,
    rules: MatchingRules,
) -> None:
    """A claim with several scores may repeat its label, if it is the same."""
    fields, reason = _names(columns.label_id), f"the same id stands in row {first[0].row} already"
    if rules.several is None:
        raise CellError(record, fields, reason)
    if first[1] != label:
        raise CellError(record, fields, f"{reason}, with another label")


def _id(record: Record, names: tuple[str, ...], number: int) -> Id:
    return tuple(identifier_of(record, name) for name in names) if names else (str(number),)


def _label(record: Record, columns: FieldNames, rules: MatchingRules) -> Verdict | None:
    """The label, None where it is to be left out."""
    cell = cell_of(record, columns.label)
    read = rules.spellings.read(cell)
    if read is None:
        reason = (
            f"{excerpt(repr(cell))} spells no label; say which with --positive, --negative, --drop"
        )
        raise CellError(record, columns.label, reason)
    return None if read == "left_out" else read


def _verdict(record: Record, columns: FieldNames, rules: MatchingRules) -> Verdict | None:
    read = rules.spellings.read(cell_of(record, columns.verdict))
    return None if read == "left_out" else read


def _scores(record: Record, name: str, rules: MatchingRules) -> list[float]:
    cell = cell_of(record, name)
    cells = cell if isinstance(cell, list) else [cell]
    if len(cells) > 1 and rules.several is None:
        reason = f"holds {len(cells)} scores; say --several max, mean or min"
        raise CellError(record, name, reason)
    return [_score(record, name, one) for one in cells if one is not None and one != ""]


def _score(record: Record, name: str, cell: object) -> float:
    score = finite_number(cell)
    if score is None:
        raise CellError(record, name, f"{excerpt(repr(cell))} is no number")
    return score


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(columns)


def _shown(name: Id) -> str:
    return f"'{excerpt(' / '.join(name))}'"
