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


def read_result_rows(path: Path) -> list[Record]:
    """All rows of a file.

    Raises:
        EvaluationError: the file cannot be read, has a broken row (named by file and number), or
            has no row.
    """
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if ending not in FORMAT_OF_ENDING:
        known = ", ".join(sorted(FORMAT_OF_ENDING, key=".json".__eq__))
        raise EvaluationError(f"{path}: its ending is none of {known} (or those with .gz)")
    absent = Reject(str(path), 0, "", "unreadable_file", "there is no such file")
    rows: list[Record | Reject] = [absent]
    if ending == ".json":
        rows = list(_json_rows(path))
    elif path.is_file():
        rows = list(records_of(path, NativeFile(str(path), FORMAT_OF_ENDING[ending], "")))
    broken = []
    for reject in rows:
        if isinstance(reject, Reject):
            where = f", row {reject.row}" * bool(reject.row)
            where += f", field {reject.field}" * bool(reject.field)
            reason = f"{reject.reason.replace('_', ' ')}: {reject.detail}"
            broken.append(f"{reject.file}{where}: {reason}")
    if broken or not rows:
        raise EvaluationError("\n".join(format_errors(broken)) or f"{path} has no row")
    return [row for row in rows if isinstance(row, Record)]


def _json_rows(path: Path) -> Iterator[Record | Reject]:
    try:
        data = content_of(path)
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unrepeated)
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path}: not UTF-8 text") from error
    except KeyError as error:
        repeated = f"the key {error.args[0]} appears twice in one object"
        raise EvaluationError(f"{path}: {repeated}") from error
    except (ValueError, RecursionError) as error:
        lines = data.splitlines(keepends=True)
        if len(lines) > 1 and lines[0].rstrip().endswith(b"}"):
            yield from jsonl_records(str(path), lines)
            return
        raise EvaluationError(f"{path}: not JSON: {error}") from error
    if isinstance(whole, dict):
        tables = [
            value
            for value in whole.values()
            if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
        ]
        whole = tables[0] if len(tables) == 1 else whole
    if not isinstance(whole, list | dict):
        raise EvaluationError(f"{path}: neither a list nor an object")
    entries = whole.items() if isinstance(whole, dict) else ((None, value) for value in whole)
    for row, (key, value) in enumerate(entries, start=1):
        named = {} if key is None else {"key": key, "id": key}
        fields = value if isinstance(value, dict) else {"value": value}
        yield Record(str(path), row, named | fields)


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; KeyError where a key appears twice, so that one of its values would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyError(repr(next(key for key in keys if keys.count(key) > 1)))
    return fields
