"""Reading cells of files that other projects wrote: names, numbers, nested fields, labels."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Self

from decomposerl.claims.claim import Record
from decomposerl.claims.records import excerpt
from decomposerl.errors import EvaluationError
from decomposerl.traces.trace import Verdict

_LONE = frozenset({"key", "id", "value"})  # the fields of an entry that is a single value
_MISSING = object()


class CellError(ValueError):
    """A cell that does not fit, or several, named by file, row and fields."""

    def __init__(self, record: Record, names: str | tuple[str, ...], reason: str) -> None:
        """``names`` are the fields, if any, ``reason`` why they do not fit."""
        fields = names if isinstance(names, str) else ", ".join(names)
        field = f", field {fields}" if fields else ""
        super().__init__(f"{record.file}, row {record.row}{field}: {reason}")


def identifier_of(record: Record, name: str) -> str:
    """A cell that names something: text, or a whole number in any notation.

    Raises:
        CellError: the field is missing, empty or of another type.
    """
    cell = cell_of(record, name)
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, bool) or not isinstance(cell, str | int) or not str(cell).strip():
        reason = f"is {excerpt(repr(cell))}, not a name or a whole number"
        raise CellError(record, name, reason)
    return str(cell).strip()


def finite_number(value: object) -> float | None:
    """A number, also one written as text; None where the value is no finite number."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
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
    near = get_close_matches(name, list(fields), n=1)
    hint = f" (did you mean {excerpt(near[0])}?)" if near else ""
    known = ", ".join(map(excerpt, fields)) or "none"
    raise CellError(record, name, f"there is no such field; there are {known}{hint}")


def format_errors(errors: Sequence[object], most: int = 20) -> Iterator[str]:
    """The first errors, a line each, and how many more there are."""
    yield from map(str, errors[:most])
    if len(errors) > most:
        yield f"and {len(errors) - most:,} further rows"


SUPPORTED = {"supported", "supports", "support", "true", "yes", "1", "entailment", "entailed"}
REFUTED = {"refuted", "refutes", "refute", "false", "no", "0", "not supported", "unsupported"} | {
    *("contradiction", "contradicted", "contradicts"),
}
_EVERYTHING_ELSE = "*"
_LETTER = r"[^\W\d_]"
_JOINT = re.compile(rf"(?<={_LETTER})[-_]+(?={_LETTER})")  # elsewhere a hyphen may be a minus
_WHOLE = re.compile(r"(-?\d+)\.0*")
_AROUND = re.compile(r"^[\s*_`\"'(\[]+|[\s*_`\"')\].,;:!]+$")  # as in **Supported** or Supported.


class Spellings(dict[str, Verdict]):
    """The labels by their spellings, each as ``normal`` has it.

    ``*`` of Refuted stands for every spelling without a label that is not empty.
    """

    @classmethod
    def of(cls, supported: Iterable[str] = (), refuted: Iterable[str] = ()) -> Self:
        """Spellings from user input; an empty list means the default ones.

        A default spelling that the user gave to the other side is removed.

        Raises:
            EvaluationError: a spelling is given to both sides.
        """
        one, other = set(map(normal, supported)), set(map(normal, refuted))
        if both := sorted(one & other):
            raise EvaluationError(f"the spelling '{both[0]}' is given two meanings")
        sides = cls(dict.fromkeys(one or SUPPORTED - other, "Supported"))
        sides.update(dict.fromkeys(other or REFUTED - one, "Refuted"))
        return sides

    def read(self, cell: object) -> Verdict | None:
        """The label that a cell spells, None for an unknown spelling."""
        word = normal(cell)
        other = word != "" and self.get(_EVERYTHING_ELSE) == "Refuted"
        return self.get(word, "Refuted" if other else None)


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
