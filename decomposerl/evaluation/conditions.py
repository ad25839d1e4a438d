"""The ``--where`` of ``decomposerl metrics``: which rows count, by the values of their fields.

Conditions are ``field=value`` and ``field!=value``. Several values of one field are alternatives,
conditions on several fields must all hold. Numbers compare by value where the file has types;
``null`` (or nothing) stands for an empty or absent cell.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import CellError, cell_of

_NOTHING = frozenset({"", "null"})
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Conditions:
    """Fields with their ``wanted`` and ``unwanted`` values."""

    wanted: tuple[tuple[str, frozenset[str]], ...] = ()
    unwanted: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """Parse conditions.

        Raises:
            EvaluationError: a condition has another form.
        """
        sides: tuple[dict[str, set[str]], dict[str, set[str]]] = ({}, {})
        for word in words:
            name, equals, value = word.partition("=")
            unequal = name.endswith("!")
            name = name.removesuffix("!").strip()
            if not equals or not name:
                raise EvaluationError(
                    f"--where is '{word}'; it must be FIELD=VALUE or FIELD!=VALUE"
                )
            sides[unequal].setdefault(name, set()).add(value.strip())
        return cls(*(tuple((n, frozenset(v)) for n, v in side.items()) for side in sides))

    @property
    def names(self) -> tuple[str, ...]:
        """Every field that a condition names, once."""
        return tuple(dict.fromkeys(name for name, _ in (*self.wanted, *self.unwanted)))

    def hold(self, record: Record) -> bool:
        """Whether a row counts.

        Raises:
            CellError: a cell is a list or an object.
        """
        return all(_among(record, *one) for one in self.wanted) and not any(
            _among(record, *one) for one in self.unwanted
        )


EVERY_ROW = Conditions()


def rows_that_count(
    records: Sequence[Record], conditions: Conditions
) -> tuple[list[tuple[int, Record]], list[tuple[int, Record]]]:
    """The rows that count and the others, each with its number from 1.

    Raises:
        EvaluationError: no row has such a field, a cell cannot be compared, or no row counts.
    """
    for name in conditions.names:
        _check_field(records, name)
    sides: tuple[list[tuple[int, Record]], list[tuple[int, Record]]] = ([], [])
    for number, record in enumerate(records, start=1):
        try:
            sides[not conditions.hold(record)].append((number, record))
        except CellError as error:
            raise EvaluationError(str(error)) from error
    if records and not sides[0]:
        raise EvaluationError(
            f"{records[0].file}: --where leaves no row; {_values(records, conditions)}"
        )
    return sides


def _check_field(records: Sequence[Record], name: str) -> None:
    """A field may be absent from some rows, not from all."""
    missing: CellError | None = None
    for record in records:
        try:
            cell_of(record, name)
        except CellError as error:
            missing = missing or error
        else:
            return
    if missing is not None:
        raise EvaluationError(f"{records[0].file}, field {name}: {missing.reason}")


def _cell(record: Record, name: str) -> object:
    with suppress(CellError):
        return cell_of(record, name)
    return None


def _among(record: Record, name: str, values: frozenset[str]) -> bool:
    cell = _cell(record, name)
    if isinstance(cell, list | dict):
        raise CellError(record, name, f"{excerpt(repr(cell))} cannot be compared with --where")
    return any(_equal(cell, value) for value in values)


def _equal(cell: object, value: str) -> bool:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return value in _NOTHING
    if isinstance(cell, bool):
        return str(cell).casefold() == value.casefold()
    if isinstance(cell, int | float):
        return _number(value) == cell
    return str(cell).strip() == value


def _number(value: str) -> float | int:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return math.nan


def _values(records: Sequence[Record], conditions: Conditions) -> str:
    """The values of the fields, to correct a misspelt one by."""
    parts = []
    for name in conditions.names:
        cells = dict.fromkeys(str(_cell(record, name)) for record in records)
        more = f" and {len(cells) - _SHOWN:,} more" if len(cells) > _SHOWN else ""
        parts.append(f"{name} holds {', '.join(map(excerpt, list(cells)[:_SHOWN]))}{more}")
    return "; ".join(parts)
