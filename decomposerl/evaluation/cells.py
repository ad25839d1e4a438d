"""Reading cells of files that other projects wrote: names, numbers, nested fields, labels."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt
from decomposerl.errors import EvaluationError
from decomposerl.traces.trace import Verdict

_LONE = frozenset({"key", "id", "value"})  # the fields of an entry that is a single value
_MISSING = object()


class CellError(ValueError):
    """A cell that does not fit, named by file, row and field."""

    def __init__(self, record: Record, name: str, reason: str) -> None:
        """``name`` is the field, ``reason`` why it does not fit."""
        field = f", field {name}" if name else ""
        super().__init__(f"{record.file}, row {record.row}{field}: {reason}")
        self.reason = reason


def identifier_of(record: Record, name: str) -> str:
    """A cell that names something: text, or a whole number in any notation.

    Raises:
        CellError: the field is missing, empty or of another type.
    """
    cell = cell_of(record, name)
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if not isinstance(cell, str | int) or isinstance(cell, bool) or not str(cell).strip():
        reason = f"is {excerpt(repr(cell))}, not a name or a whole number"
        raise CellError(record, name, reason)
    return str(cell).strip()


def finite_number(value: object) -> float | None:
    """A number, also one written as text; None where the value is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def cell_of(record: Record, name: str) -> object:
    """The value of a field; a dotted name leads into nested objects.

    An entry of one value (``{"id": value}``, a list of values) has it under any name.

    Raises:
        CellError: there is no such field.
    """
    fields = record.fields
    if name in fields:
        return fields[name]
    cell: object = fields
    for part in name.split("."):
        cell = cell[part] if isinstance(cell, Mapping) and part in cell else _MISSING
    if cell is not _MISSING:
        return cell
    if "value" in fields and fields.keys() <= _LONE:
        return fields["value"]
    known = ", ".join(map(excerpt, fields)) or "none"
    near = get_close_matches(name, list(fields), n=1)
    hint = f" (did you mean {excerpt(near[0])}?)" if near else ""
    raise CellError(record, name, f"there is no such field; there are {known}{hint}")


def format_errors(errors: Sequence[object], most: int = 20) -> Iterator[str]:
    """The first errors, a line each, and how many more there are."""
    yield from map(str, errors[:most])
    if len(errors) > most:
        yield f"and {len(errors) - most:,} further rows"


SUPPORTED = ("supported", "supports", "support", "true", "yes", "1", "entailment", "entailed")
REFUTED = (
    *("refuted", "refutes", "refute", "false", "no", "0"),
    *("not supported", "unsupported", "contradiction", "contradicted", "contradicts"),
)
EVERYTHING_ELSE = "*"
_LETTER = r"[^\W\d_]"
_JOINT = re.compile(rf"(?<={_LETTER})[-_]+(?={_LETTER})")  # elsewhere a hyphen may be a minus
_WHOLE = re.compile(r"(-?\d+)\.0*")


_AROUND = re.compile(r"^[\s*_`\"'(\[]+|[\s*_`\"')\].,;:!]+$")
"""Marks around a word, as in ``**Supported**`` or ``Supported.``."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """Spellings of the two labels, each normalised by ``normal``.

    ``*`` in ``refuted`` stands for every spelling that is not in ``supported`` and not empty.
    """

    supported: frozenset[str]
    refuted: frozenset[str]

    @classmethod
    def of(cls, supported: Iterable[str] = (), refuted: Iterable[str] = ()) -> Self:
        """Spellings from user input; an empty list means the default ones.

        A default spelling that the user gave to the other side is removed.

        Raises:
            EvaluationError: a spelling is given to both sides.
        """
        one, other = frozenset(map(normal, supported)), frozenset(map(normal, refuted))
        if both := sorted(one & other):
            raise EvaluationError(f"the spelling '{both[0]}' is given two meanings")
        return cls(one or frozenset(SUPPORTED) - other, other or frozenset(REFUTED) - one)

    def read(self, cell: object) -> Verdict | None:
        """The label that a cell spells, None for an unknown spelling."""
        spelt = normal(cell)
        if spelt in self.supported:
            return "Supported"
        other = EVERYTHING_ELSE in self.refuted and spelt != ""
        return "Refuted" if spelt in self.refuted or other else None


def normal(cell: object) -> str:
    """A cell in lower case with single spaces; '' for an empty one.

    Marks around it are removed, underscores and hyphens between letters become spaces, and a whole
    number loses its decimals: ``1``, ``1.0`` and ``"1"`` are equal, ``-1`` is another.
    """
    if isinstance(cell, list | dict) or cell is None:
        return ""
    text = " ".join(str(cell).casefold().split())
    words = _JOINT.sub(" ", _AROUND.sub("", text) or text)
    whole = _WHOLE.fullmatch(words)
    return whole[1] if whole else words
