"""Rows in the form that ``score`` and ``verify`` read, from files and programs.

Tables and values of numpy, pandas and polars become plain; a conversation becomes the text of its
assistant, and what ``verify --json`` writes the trace that it tells.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decomposerl.errors import SourceFileError
from decomposerl.schemas import VERDICTS
from decomposerl.traces.grammar import build_trace, write_trace
from decomposerl.traces.records import FIELDS
from decomposerl.traces.trace import Cycle

STANDARD_INPUT = "-"


def name_of(file: Path) -> str:
    """What messages call a file, or standard input."""
    return "standard input" if str(file) == STANDARD_INPUT else str(file)


def lines_of(file: Path) -> list[str]:
    """The lines of a file or standard input; bytes that are not UTF-8 become surrogates.

    Raises:
        SourceFileError: it cannot be read.
    """
    try:
        content = sys.stdin.buffer.read() if str(file) == STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise SourceFileError(f"{name_of(file)} cannot be read: {error.strerror}") from error
    return content.decode("utf-8", "surrogateescape").split("\n")


def plain_rows(rows: Any) -> list[dict[str, object]]:  # noqa: ANN401 - tables of two libraries
    """Rows with values as JSON has them: mappings, pairs of claim and evidence, or a table.

    Values of numpy and pandas become plain ones; what pandas has for a missing value is None.
    """
    if hasattr(rows, "to_dicts"):
        rows = rows.to_dicts()
    elif hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    named = (
        row if isinstance(row, Mapping) else dict(zip(("claim", "evidence"), row, strict=True))
        for row in rows
    )
    # NaN is written as a constant that JSON does not have.
    texts = (json.dumps({str(name): row[name] for name in row}, default=_plain) for row in named)
    return [json.loads(text, parse_constant=lambda _: None) for text in texts]


def _plain(value: Any) -> object:  # noqa: ANN401 - of numpy or pandas
    if hasattr(value, "tolist"):
        return value.tolist()
    return None if type(value).__name__ in {"NAType", "NaTType"} else str(value)


def in_score_form(values: Any) -> Any:  # noqa: ANN401 - JSON
    """A row as ``score`` reads it: messages become their text, a result of ``verify`` a trace.

    What is neither stays as it is, for the reader to name what is wrong.
    """
    try:
        if isinstance(values.get("trace"), list):
            return values | {"trace": _spoken(values["trace"])}
        verified = "trace" not in values and {"verdict", "questions"} <= values.keys()
        return _verified(values) if verified else values
    except (AttributeError, KeyError, TypeError, ValueError):
        return values


def _spoken(turns: Any) -> str:  # noqa: ANN401 - JSON
    """What the assistant of a conversation says; a text may come in parts."""
    said = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    parts = [[{"text": text}] if isinstance(text, str) else text for text in said]
    return "\n".join(part["text"] for each in parts for part in each)


def _verified(values: dict[str, Any]) -> dict[str, object]:
    cycles = [
        Cycle(
            asked["question"].strip(),
            asked["answer"].strip(),
            asked.get("thought", "").strip() or None,
        )
        for asked in values["questions"]
    ]
    opening = values.get("opening", "").strip() or None
    trace = write_trace(build_trace(opening, cycles, values["verdict"], VERDICTS))
    kept = {name: values[name] for name in FIELDS if name in values and name != "questions"}
    return kept | {"trace": trace}
