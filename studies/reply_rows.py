"""Rows of a file of replies: one JSON object a line, checked field by field.

Takes the lines of a file, gives rows and problems. A line that cannot be used is a problem with its
number and field, and the lines after it are still read. Blank lines are skipped.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TEXTS = ("operation", "claim_key", "claim", "prompt", "reply", "outcome", "style")
"""Fields that hold text; ``truncated`` is true or false, ``expected`` and ``got`` any reading."""
REQUIRED = ("operation", "reply", "expected")
FIELDS = (*TEXTS, "expected", "got", "truncated")
_SHOWN = 40  # characters of a wrong value


class RowError(Exception):
    """A line that cannot be used: ``field`` (empty: the whole line) and why."""

    def __init__(self, field: str, reason: str) -> None:
        """``field`` as the file spells it."""
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True, slots=True)
class Row:
    """One reply of a model with the reading that a person expects.

    ``prompt`` gives the size of what the reply numbers (passages, predicates); ``truncated``: the
    token limit ended the reply. ``values`` is the row as the file has it.
    """

    operation: str
    reply: str
    expected: Any
    claim: str = ""
    prompt: str = ""
    style: str = ""
    truncated: bool = False
    line: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line, and in which field (empty: the whole line)."""

    line: int
    field: str
    reason: str


def read_rows(lines: Iterable[bytes]) -> tuple[list[Row], list[Problem]]:
    """The rows of a file and the problems of its other lines, both in order; lines count from 1."""
    rows: list[Row] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if text.strip():
                rows.append(_row(number, text))
        except UnicodeDecodeError as error:
            problems.append(Problem(number, "", f"not UTF-8: {error.reason}"))
        except RowError as error:
            problems.append(Problem(number, error.field, str(error)))
    return rows, problems


def _row(number: int, text: str) -> Row:
    values = _object(text)
    for name in values:
        if name not in FIELDS:
            raise RowError(name, f"unknown field; the fields are {', '.join(FIELDS)}")
    for name in REQUIRED:
        if name not in values:
            raise RowError(name, "missing")
    for name in TEXTS:
        if not isinstance(values.get(name, ""), str):
            raise RowError(name, f"must be text, not {_shortened(values[name])}")
    if not isinstance(values.get("truncated", False), bool):
        raise RowError("truncated", f"must be true or false, not {_shortened(values['truncated'])}")
    used = ("operation", "reply", "expected", "claim", "prompt", "style", "truncated")
    known = {name: values[name] for name in used if name in values}
    return Row(**known, line=number, values=values)


def _object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise RowError("", f"broken JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:  # a number of too many digits, too deep a nesting
        raise RowError("", f"broken JSON: {error}") from None
    if not isinstance(values, dict):
        raise RowError("", f"must be a JSON object, not {_shortened(values)}")
    return values


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated fields: which of two values counts, nobody can say."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise RowError(name, "repeated")
    return dict(pairs)


def _shortened(value: Any) -> str:  # noqa: ANN401 - any JSON
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
