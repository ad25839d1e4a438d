"""Cells of files that other projects wrote: names, numbers, nested fields.

Takes a record and the name of a field, gives its value or says by file, row and field why it does
not fit.

Left out deliberately: labels (``evaluation.spellings``) and what belongs together
(``evaluation.matching``).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt

_LONE = frozenset({"key", "id", "value"})  # the fields of an entry that holds one value


@dataclass(frozen=True, slots=True)
class Misfit:
    """A row that does not fit, and why."""

    file: str
    row: int
    field: str
    why: str

    def __str__(self) -> str:
        """File, row, field and reason."""
        place = f", field {self.field}" if self.field else ""
        return f"{self.file}, row {self.row}{place}: {self.why}"


class MisfitError(ValueError):
    """A field of a row does not fit."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def word_of(record: Record, name: str) -> str:
    """A cell that names something: text, or a whole number however it is written."""
    cell = cell_of(record, name)
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if not isinstance(cell, str | int) or isinstance(cell, bool) or not str(cell).strip():
        raise MisfitError(name, f"is {excerpt(repr(cell))}, not a name or a whole number")
    return str(cell).strip()


def number_of(cell: object, name: str) -> float:
    """A finite number, however it is written."""
    try:
        number = float(cell) if isinstance(cell, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(cell, bool) or not math.isfinite(number):
        raise MisfitError(name, f"{excerpt(repr(cell))} is no number")
    return number


def cell_of(record: Record, name: str) -> object:
    """The field of that name, or what a dotted name leads to.

    An entry of one value (``{"id": value}``, a list of values) has it under any name.
    """
    fields = record.fields
    if name in fields:
        return fields[name]
    found: object = fields
    for part in name.split("."):
        found = found[part] if isinstance(found, Mapping) and part in found else _Absent
    if found is not _Absent:
        return found
    if "value" in fields and fields.keys() <= _LONE:
        return fields["value"]
    has = ", ".join(map(excerpt, fields)) or "none"
    near = get_close_matches(name, list(fields), n=1)
    hint = f" (did you mean {excerpt(near[0])}?)" if near else ""
    raise MisfitError(name, f"there is no such field; there are {has}{hint}")


class _Absent:
    """Stands for a field that is not there."""


def told(misfits: Sequence[Misfit], most: int = 20) -> Iterator[str]:
    """The first of them as lines, and how many more there are."""
    yield from map(str, misfits[:most])
    if len(misfits) > most:
        yield f"and {len(misfits) - most:,} further rows"
