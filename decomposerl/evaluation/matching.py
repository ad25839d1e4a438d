"""Predictions and labels of any project: declared columns, rows that count, what words mean.

Takes the rows of two files and which of their columns mean what, gives one claim per label. No row
is dropped silently: one that does not fit is an error, named by file, row and column, and what the
options leave out is counted. Which word means Supported is asked where nothing says so.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from shlex import quote
from typing import Literal, TypeVar

from decomposerl.claims.claim import Record
from decomposerl.claims.column_guess import says_polarity
from decomposerl.claims.records import excerpt
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import (
    CellError,
    Spellings,
    cell_of,
    finite_number,
    format_errors,
    identifier_of,
    normal,
)
from decomposerl.evaluation.threshold import Several, combined
from decomposerl.traces.trace import Verdict

Id = tuple[str, ...]
MOST_CLASSES = 10
TWO_WAY: tuple[str, ...] = ("supported", "refuted")
_USUAL = Spellings.of()
_PLACES = {"Supported": 0, "Refuted": 1}
_SHOWN = 10
_Read = TypeVar("_Read")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Declared:
    """Which column means what; a dotted name leads into nested objects, "" means there is none.

    ``ids`` are pairs of a column of the predictions and one of the labels; without any, row n
    belongs to row n. ``several`` combines a claim's scores; without it a second one is an error.
    ``complement``: the score is that of Refuted. ``group`` (of several columns each combination),
    ``document`` and ``where`` are of the labels. Conditions are ``COLUMN=VALUE`` or
    ``COLUMN!=VALUE``: several values of a column are alternatives, conditions on several columns
    must all hold. ``missing`` is what becomes of rows without a partner; ``wrong`` is of labels,
    predictions without a label are left out then.
    """

    ids: tuple[tuple[str, str], ...] = (("id", "id"),)
    label: str = "label"
    verdict: str = ""
    score: str = ""
    several: Several | None = None
    complement: bool = False
    group: tuple[str, ...] = ()
    document: str = ""
    where: tuple[str, ...] = ()
    missing: Literal["error", "wrong", "skip"] = "error"


@dataclass(frozen=True, slots=True)
class Claim:
    """A label's row with its prediction, in words as ``cells.normal`` spells them.

    ``verdict`` is "" and ``score`` NaN where there is none.
    """

    row: Record
    label: str
    verdict: str
    score: float
    group: str
    document: str | None


def match_predictions(
    predictions: Sequence[Record], labels: Sequence[Record], columns: Declared
) -> tuple[list[Claim], Counter[str]]:
    """The claims in the order of the labels, and how many rows of each kind were left out.

    Raises:
        EvaluationError: a row does not fit, a condition is none, or no label is left.
    """
    if not columns.ids and len(predictions) != len(labels):
        raise EvaluationError(
            f"rows cannot be matched by position: {predictions[0].file} has {len(predictions):,}, "
            f"{labels[0].file} has {len(labels):,}"
        )
    own, others = [tuple(pair[side] for pair in columns.ids) for side in (0, 1)]
    counted, passed = rows_that_count(labels, columns.where)
    every = counted if predictions is labels else list(enumerate(predictions, start=1))
    several, errors = columns.several is not None, list[CellError]()
    chunks = several and not columns.verdict
    said = _by_id(every, own, partial(_prediction, columns), errors, repeats=chunks)
    gold = _by_id(counted, others, partial(_label, columns), errors, repeats=several)
    left_out = Counter({"labels that --where leaves out": len(passed)})
    claims: list[Claim] = []
    for name, rows in ((name, rows) for name, rows in gold.items() if rows):
        row, (label, group, document) = rows[0]
        errors += [
            _unfit(
                other, others, f"the same id stands in row {row.row} already, with another label"
            )
            for other, (word, *_) in rows
            if word != label
        ]
        if name not in said:
            counts = ", counted as wrong" if columns.missing == "wrong" else ""
            left_out[f"labels without a prediction{counts}"] += 1
            if columns.missing == "error":
                errors.append(_unfit(row, others, f"{_shown(name)} has no prediction"))
        if name in said or columns.missing == "wrong":
            words = [word for _, (word, _) in said.get(name, ())]
            scores = [score for _, (_, some) in said.get(name, ()) for score in some]
            score = combined(scores, columns.several or "max") if scores else math.nan
            claims.append(Claim(row, label, words[0] if words else "", score, group, document))
    # A prediction of a label that does not count is left out with it.
    known = gold.keys() | _by_id(passed, others, lambda row: row, [], repeats=True).keys()
    extra = {name: rows[0][0] for name, rows in said.items() if rows and name not in known}
    left_out["predictions without a label"] = len(extra)
    if columns.missing == "error":
        errors += [_unfit(row, own, f"{_shown(name)} has no label") for name, row in extra.items()]
    if errors:
        raise EvaluationError("\n".join(format_errors(errors)))
    if not claims:
        raise EvaluationError(f"{labels[0].file}: no label is left to score predictions against")
    return claims, +left_out


def meanings(
    claims: Sequence[Claim], columns: Declared, given: Spellings | None
) -> tuple[tuple[str, ...], list[int], list[int]]:
    """The classes, and each claim's label and verdict as numbers of them.

    The classes are ``TWO_WAY``, or the labels' words where these are more than two and not all
    known. A verdict of no class has the number of classes. ``given`` are the user's spellings.

    Raises:
        EvaluationError: a label has no known meaning, or nothing says which word means Supported.
    """
    labels, said = Counter(c.label for c in claims), Counter(c.verdict for c in claims)
    sides = {word: (given or _USUAL).read(word) for word in (*labels, *said)}
    odd = [word for word in labels if sides[word] is None]
    names, place = TWO_WAY, {word: _PLACES[side] for word, side in sides.items() if side}
    if odd and not given and columns.verdict and len(TWO_WAY) < len(labels) <= MOST_CLASSES:
        names = tuple(labels)
        place = {word: number for number, word in enumerate(names)}
    elif odd and (given or len(labels) != len(TWO_WAY)):
        hint = f"say which with --supported, --refuted, or --where '{columns.label}!=…'"
        rows = [(c.row, cell_of(c.row, columns.label)) for c in claims if sides[c.label] is None]
        errors = [
            CellError(row, columns.label, f"{excerpt(repr(cell))} spells no label; {hint}")
            for row, cell in rows
        ]
        raise EvaluationError("\n".join(format_errors(errors)))
    elif not given:
        _check_polarity(columns, labels, said, sides)
    return (
        names,
        [place[c.label] for c in claims],
        [place.get(c.verdict, len(names)) for c in claims],
    )


def _check_polarity(
    columns: Declared,
    labels: Mapping[str, int],
    said: Mapping[str, int],
    sides: Mapping[str, Verdict | None],
) -> None:
    """Refuse where neither a column nor its words say which of them means Supported."""
    clear = says_polarity(columns.label, labels) and None not in map(sides.get, labels)
    unclear = [] if clear else [dict(labels)]
    known = {word: rows for word, rows in said.items() if sides[word]}
    # Words that a clear column of labels explains mean the same in that of predictions.
    unexplained = [word for word in known if not (clear and word in labels)]
    if columns.verdict and not says_polarity(columns.verdict, unexplained):
        unclear.append({word: known[word] for word in known if clear or word not in labels})
    words = {word: rows for group in unclear for word, rows in group.items()}
    if not words:
        return
    orders = []  # of each column, which may be turned round alone
    for group in filter(None, unclear):
        first = [word for word in group if sides[word] == "Supported"] or [*group][:1]
        second = [word for word in group if word not in first]
        orders.append(((first, second), (second, first)))
    shown = ", ".join(f"'{excerpt(word)}' ({rows:,})" for word, rows in words.items())
    names = " and ".join(filter(None, dict.fromkeys((columns.label, columns.verdict))))
    lines = [f"{names}: nothing says which of {shown} means supported; choose one of"]
    for reading in product(*orders):
        options = []
        for place, side in enumerate(_PLACES):
            plain = [word for word in sides if sides[word] == side and word not in words]
            spelled = chain(plain, *(group[place] for group in reading))
            options += [f"--{TWO_WAY[place]} {quote(word)}" for word in spelled]
        lines.append(" ".join(options))
    raise EvaluationError("\n".join(lines))


def rows_that_count(
    records: Sequence[Record], where: Iterable[str]
) -> tuple[list[tuple[int, Record]], list[tuple[int, Record]]]:
    """The rows for which ``Declared.where`` holds and the others, each with its number from 1.

    Raises:
        EvaluationError: a condition has another form, no row has its column, or no row is left.
    """
    wanted: dict[tuple[str, bool], set[str]] = {}
    for condition in where:
        name, equals, value = condition.partition("=")
        column = name.removesuffix("!").strip()
        if not equals or not column:
            raise EvaluationError(
                f"--where is '{condition}'; it must be COLUMN=VALUE or COLUMN!=VALUE"
            )
        wanted.setdefault((column, name.endswith("!")), set()).add(_plain(value))
    cells = {column: _cells(records, column) for column, _ in wanted}
    sides: tuple[list[tuple[int, Record]], list[tuple[int, Record]]] = ([], [])
    for at, row in enumerate(records):
        holds = [
            (cells[name][at] in values) != unequal for (name, unequal), values in wanted.items()
        ]
        sides[not all(holds)].append((at + 1, row))
    if records and not sides[0]:
        kinds = {column: [*dict.fromkeys(words)][:_SHOWN] for column, words in cells.items()}
        shown = (f"{column} holds {', '.join(map(excerpt, kinds[column]))}" for column in kinds)
        raise EvaluationError(f"{records[0].file}: --where leaves no row; {'; '.join(shown)}")
    return sides


def _cells(records: Sequence[Record], column: str) -> list[str]:
    """The words of a column that may be absent from some rows, but not from all."""
    words, absent = list[str](), list[CellError]()
    for row in records:
        try:
            words.append(_plain(cell_of(row, column)))
        except CellError as error:
            absent.append(error)
            words.append(_plain(None))
    if absent and len(absent) == len(records):
        raise EvaluationError(str(absent[0]))
    return words


def _plain(value: object) -> str:
    """A cell, or the value of a condition: 1.0 is 1, 0.50 is 0.5, TRUE is true, nothing is null."""
    text = "" if value is None else str(value).strip()
    if _DECIMAL.fullmatch(text):
        text = repr(float(text)).removesuffix(".0")
    return text.lower() if text.lower() in {"true", "false"} else text or "null"


def _by_id(
    rows: Iterable[tuple[int, Record]],
    ids: Id,
    read: Callable[[Record], _Read],
    errors: list[CellError],
    *,
    repeats: bool,
) -> dict[Id, list[tuple[Record, _Read]]]:
    """The rows of each id with what they hold; one that cannot be read is an error."""
    by_id: dict[Id, list[tuple[Record, _Read]]] = {}
    for number, row in rows:
        try:
            name = tuple(identifier_of(row, column) for column in ids) or (str(number),)
            held = by_id.setdefault(name, [])
            if held and not repeats:
                raise _unfit(row, ids, f"the same id stands in row {held[0][0].row} already")
            held.append((row, read(row)))
        except CellError as error:
            errors.append(error)
    return by_id


def _label(columns: Declared, row: Record) -> tuple[str, str, str | None]:
    """A row's label, group and document."""
    label = normal(cell_of(row, columns.label))
    if not label:
        raise CellError(row, columns.label, "holds no label")
    cells = [(column, cell_of(row, column)) for column in columns.group]
    words = [
        str(cell).lower() if isinstance(cell, bool) else identifier_of(row, column)
        for column, cell in cells
    ]
    if len(words) > 1:  # a slash within a value is no border between two
        words = [word.replace("\\", "\\\\").replace("/", "\\/") for word in words]
    cell = cell_of(row, columns.document) if columns.document else None
    blank = cell is None or not str(cell).strip()  # its evidence is shared with no other claim
    return label, " / ".join(words), None if blank else identifier_of(row, columns.document)


def _prediction(columns: Declared, row: Record) -> tuple[str, list[float]]:
    """A row's verdict, and its scores, higher for Supported."""
    word = normal(cell_of(row, columns.verdict)) if columns.verdict else ""
    cell = cell_of(row, columns.score) if columns.score else []
    cells = cell if isinstance(cell, list) else [cell]
    if len(cells) > 1 and columns.several is None:
        reason = f"holds {len(cells)} scores; say --score {columns.score}:max, :mean or :min"
        raise CellError(row, columns.score, reason)
    scores = []
    for value in cells:
        score = finite_number(value)
        if score is None and value not in (None, ""):
            raise CellError(row, columns.score, f"{excerpt(repr(value))} is no number")
        scores += [] if score is None else [1 - score if columns.complement else score]
    return word, scores


def _unfit(row: Record, ids: Id, reason: str) -> CellError:
    return CellError(row, ", ".join(ids), reason)


def _shown(name: Id) -> str:
    return f"'{excerpt(' / '.join(name))}'"
