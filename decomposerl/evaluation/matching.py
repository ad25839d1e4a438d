"""Predictions beside labels, from files of any project.

Takes rows of two files and which of their fields mean what, gives one ``Example`` a label, and
every row that does not fit, by file, row and field. Nothing is dropped in silence: what a reader
chose to leave out is counted.

Left out deliberately: opening files (``resources.evaluation.result_files``), metrics
(``evaluation.external``).
"""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt
from decomposerl.evaluation.cells import Misfit, MisfitError, cell_of, number_of, word_of
from decomposerl.evaluation.conditions import EVERY_ROW, Conditions, rows_that_count
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.spellings import Spellings
from decomposerl.evaluation.threshold import Several, combined
from decomposerl.traces.trace import Verdict

Id = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which field means what; a dotted name leads into nested objects.

    Empty ``prediction_id`` and ``label_id`` mean that row n of one file is row n of the other.
    Empty ``verdict`` or ``score`` mean that there is none, ``group`` and ``document`` likewise;
    these two stand with the labels. Several fields of ``group`` make a group of each combination.
    """

    prediction_id: tuple[str, ...] = ("id",)
    label_id: tuple[str, ...] = ("id",)
    label: str = "label"
    verdict: str = ""
    score: str = ""
    group: tuple[str, ...] = ()
    document: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """How cells are read, and what happens to rows without a partner.

    ``several`` makes one of a claim's scores; without it a second one is a mistake. A label
    without a prediction is an ``error``, counts as ``wrong``, or is left out (``skip``); a
    prediction without a label is an ``error`` or left out. Only labels that fulfil ``where``
    count; rows that hold both label and prediction go as a whole. ``unread`` is what a prediction
    counts as that cannot be read.
    """

    spellings: Spellings
    several: Several | None = None
    missing: Literal["error", "wrong", "skip"] = "error"
    extra: Literal["error", "skip"] = "error"
    where: Conditions = EVERY_ROW
    unread: Unread = "opposite"


@dataclass(frozen=True, slots=True)
class Example:
    """A claim with its label and what was predicted; ``score`` is NaN where there is none."""

    id: Id
    label: Verdict
    verdict: Verdict | None
    score: float
    group: str
    document: str | None


@dataclass(slots=True)
class Matched:
    """The examples in the order of the labels, what did not fit, and what was left out."""

    examples: list[Example] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Predicted:
    """What a file says of one claim, and the row where it first does."""

    record: Record
    verdict: Verdict | None = None
    scores: list[float] = field(default_factory=list)


def match(
    predictions: Sequence[Record], labels: Sequence[Record], columns: Columns, rules: Rules
) -> Matched:
    """Hold predictions against labels; ``misfits`` is empty where everything fits.

    Raises:
        EvaluationError: as ``conditions.rows_that_count``.
    """
    matched = Matched()
    counted, others = rows_that_count(labels, rules.where)
    one_file = predictions is labels
    said = counted if one_file else list(enumerate(predictions, start=1))
    predicted = _predicted(said, columns, rules, matched.misfits)
    labelled: dict[Id, tuple[Record, Verdict | None]] = {}
    for number, record in counted:
        try:
            name = _id(record, columns.label_id, number)
            first = labelled.setdefault(name, (record, None))
            label = _label(record, columns, rules)
            if first[0] is not record:
                _check_repeated(first, label, columns, rules)
                continue
            labelled[name] = (record, label)
            if label is None:
                matched.left_out["labels that were to be left out"] += 1
            elif _counts(name, predicted, columns, rules, matched.left_out):
                one = predicted.get(name) or _Predicted(record)
                matched.examples.append(_example(name, label, record, columns, one))
        except MisfitError as error:
            matched.misfits.append(Misfit(record.file, record.row, error.name, str(error)))
    if others:
        matched.left_out["labels that --where leaves out"] = len(others)
    passed = set() if one_file else _ids_of(others, columns.label_id)
    _unlabelled(predicted, labelled.keys() | passed, columns, rules, matched)
    return matched


def _ids_of(rows: Sequence[tuple[int, Record]], names: tuple[str, ...]) -> set[Id]:
    """The ids of rows that do not count; one without an id has no prediction either."""
    found = set()
    for number, record in rows:
        with suppress(MisfitError):
            found.add(_id(record, names, number))
    return found


def _counts(
    name: Id,
    predicted: Mapping[Id, _Predicted],
    columns: Columns,
    rules: Rules,
    left_out: Counter[str],
) -> bool:
    """Whether a label counts, with a prediction or without."""
    if name in predicted:
        return True
    if rules.missing == "error":
        raise MisfitError(_names(columns.label_id), f"{_shown(name)} has no prediction")
    counted = ", counted as wrong" if rules.missing == "wrong" else ""
    left_out[f"labels without a prediction{counted}"] += 1
    return rules.missing == "wrong"


def _example(
    name: Id, label: Verdict, record: Record, columns: Columns, predicted: _Predicted
) -> Example:
    group = _group(record, columns.group)
    document = _document(record, columns.document) if columns.document else None
    score = predicted.scores[0] if predicted.scores else math.nan
    return Example(name, label, predicted.verdict, score, group, document)


def _group(record: Record, names: tuple[str, ...]) -> str:
    r"""The value of one field; of several their values, ``a / b``, a slash in one as ``\/``."""
    cells = ((name, cell_of(record, name)) for name in names)
    words = [
        str(cell).lower() if isinstance(cell, bool) else word_of(record, name)
        for name, cell in cells
    ]
    if len(words) <= 1:
        return "".join(words)
    return " / ".join(word.replace("\\", "\\\\").replace("/", "\\/") for word in words)


def _document(record: Record, name: str) -> str | None:
    """The document's name; None for an empty cell: the claim stands alone."""
    cell = cell_of(record, name)
    blank = cell is None or (isinstance(cell, str) and not cell.strip())
    return None if blank else word_of(record, name)


def _unlabelled(
    predicted: Mapping[Id, _Predicted],
    seen: Container[Id],
    columns: Columns,
    rules: Rules,
    matched: Matched,
) -> None:
    for name, found in predicted.items():
        if name in seen:
            continue
        if rules.extra == "skip":
            matched.left_out["predictions without a label"] += 1
        else:
            record, why = found.record, f"{_shown(name)} has no label"
            place = _names(columns.prediction_id)
            matched.misfits.append(Misfit(record.file, record.row, place, why))


def _predicted(
    rows: Sequence[tuple[int, Record]], columns: Columns, rules: Rules, misfits: list[Misfit]
) -> dict[Id, _Predicted]:
    found: dict[Id, _Predicted] = {}
    for number, record in rows:
        try:
            name = _id(record, columns.prediction_id, number)
            one = found.setdefault(name, _Predicted(record))
            _read_prediction(one, record, columns, rules)
        except MisfitError as error:
            misfits.append(Misfit(record.file, record.row, error.name, str(error)))
    for one in found.values():
        if one.scores and rules.several is not None:
            one.scores = [combined(one.scores, rules.several)]
    return found


def _read_prediction(one: _Predicted, record: Record, columns: Columns, rules: Rules) -> None:
    if one.record is not record and (rules.several is None or columns.verdict):
        why = f"the same id stands in row {one.record.row} already"
        raise MisfitError(_names(columns.prediction_id), why)
    if columns.verdict:
        one.verdict = _verdict(record, columns, rules)
    if columns.score:
        one.scores += _scores(record, columns.score, rules)


def _check_repeated(
    first: tuple[Record, Verdict | None], label: Verdict | None, columns: Columns, rules: Rules
) -> None:
    """A label may be said again where a claim has several scores, if it is the same."""
    place, why = _names(columns.label_id), f"the same id stands in row {first[0].row} already"
    if rules.several is None:
        raise MisfitError(place, why)
    if first[1] != label:
        raise MisfitError(place, f"{why}, with another label")


def _id(record: Record, names: tuple[str, ...], number: int) -> Id:
    return tuple(word_of(record, name) for name in names) if names else (str(number),)


def _label(record: Record, columns: Columns, rules: Rules) -> Verdict | None:
    """The label, None where it is to be left out."""
    cell = cell_of(record, columns.label)
    read = rules.spellings.read(cell)
    if read is None:
        why = (
            f"{excerpt(repr(cell))} spells no label; say which with --positive, --negative, --drop"
        )
        raise MisfitError(columns.label, why)
    return None if read == "left_out" else read


def _verdict(record: Record, columns: Columns, rules: Rules) -> Verdict | None:
    read = rules.spellings.read(cell_of(record, columns.verdict))
    return None if read == "left_out" else read


def _scores(record: Record, name: str, rules: Rules) -> list[float]:
    cell = cell_of(record, name)
    cells = cell if isinstance(cell, list) else [cell]
    if len(cells) > 1 and rules.several is None:
        raise MisfitError(name, f"holds {len(cells)} scores; say --several max, mean or min")
    return [number_of(one, name) for one in cells if one is not None and one != ""]


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(columns)


def _shown(name: Id) -> str:
    return f"'{excerpt(' / '.join(name))}'"
