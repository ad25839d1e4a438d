"""Reading files of predictions and labels, of this project or another, row by row.

The suffix decides the format: ``.jsonl`` (or ``.ndjson``), ``.csv``, ``.tsv``, ``.parquet`` and
``.json``, each also with ``.gz``. A JSON file is a list of objects or values, an object from ids to
objects or values, an object with one list of objects, which are the rows, or JSON lines. The key of
an entry becomes the fields ``key`` and, unless the object has one, ``id``; a bare value becomes the
field ``value``.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.records import jsonl_records
from decomposerl.claims.source import FORMAT_OF_ENDING, NativeFile
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import format_errors
from resources.corpora.folder import content_of, records_of

JSON = ".json"
FORMATS = {ending: form for ending, form in FORMAT_OF_ENDING.items() if ending != JSON}


def read_result_rows(path: Path) -> list[Record]:
    """All rows of a file.

    Raises:
        EvaluationError: the file cannot be read, has a broken row (named by file and number), or
            has no row.
    """
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if ending.lower() == JSON:
        rows: list[Record | Reject] = list(_json_rows(path))
    elif ending.lower() in FORMATS:
        file = NativeFile(str(path), FORMATS[ending.lower()], "")
        absent = Reject(str(path), 0, "", "unreadable_file", "there is no such file")
        rows = list(records_of(path, file)) if path.is_file() else [absent]
    else:
        known = ", ".join((*FORMATS, JSON))
        raise EvaluationError(f"{path}: its ending is none of {known} (or those with .gz)")
    broken = [_sentence(row) for row in rows if isinstance(row, Reject)]
    if broken:
        raise EvaluationError("\n".join(format_errors(broken)))
    if not rows:
        raise EvaluationError(f"{path} has no row")
    return [row for row in rows if isinstance(row, Record)]


def _json_rows(path: Path) -> Iterator[Record | Reject]:
    try:
        data = content_of(path)
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        text = data.decode("utf-8-sig")
        whole = json.loads(text, object_pairs_hook=_unrepeated)
    except KeyError as error:
        repeated = f"the key {error.args[0]} appears twice in one object"
        raise EvaluationError(f"{path}: {repeated}") from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path}: not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        lines = data.splitlines(keepends=True)
        if len(lines) > 1 and lines[0].rstrip().endswith(b"}"):
            yield from jsonl_records(str(path), lines)
            return
        raise EvaluationError(f"{path}: not JSON: {error}") from error
    if isinstance(whole, dict):
        tables = [value for value in whole.values() if _is_table(value)]
        whole = tables[0] if len(tables) == 1 else whole
    if not isinstance(whole, list | dict):
        raise EvaluationError(f"{path}: neither a list nor an object")
    entries = whole.items() if isinstance(whole, dict) else ((None, value) for value in whole)
    for row, (key, value) in enumerate(entries, start=1):
        named = {} if key is None else {"key": key, "id": key}
        fields = value if isinstance(value, dict) else {"value": value}
        yield Record(str(path), row, named | fields)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(row, dict) for row in value)


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; KeyError where a key appears twice, so that one of its values would be lost."""
    fields: dict[str, object] = {}
    for key, value in pairs:
        if key in fields:
            raise KeyError(repr(key))
        fields[key] = value
    return fields


def _sentence(row: Reject) -> str:
    where = f", row {row.row}" if row.row else ""
    where += f", field {row.field}" if row.field else ""
    return f"{row.file}{where}: {row.reason.replace('_', ' ')}: {row.detail}"
