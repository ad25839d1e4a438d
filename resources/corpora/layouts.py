"""Files of other projects as a corpus of one's own, where they are.

What the readers take stays as it is. Arrow streams, and rows within a JSON object or within other
rows, are rewritten.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decomposerl.claims.column_guess import guess_split
from decomposerl.claims.generic import native_file
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import FORMAT_OF_ENDING, NativeFile
from decomposerl.errors import ConfigError
from resources.corpora.folder import FolderCorpora

_SHEETS = {".xlsx", ".xls", ".xlsm", ".ods"}


@dataclass(frozen=True, slots=True)
class GivenFiles(FolderCorpora):
    """A corpora folder some of whose files are still elsewhere.

    ``places`` are their rows by path, ``names`` the files that a person named.
    """

    places: Mapping[str, Path]
    names: Mapping[NativeFile, Path]

    def _find(self, path: str) -> Path | None:
        return self.places.get(path)


def lay_out(given: Path, name: str, folder: Path, records: str, aside: Path) -> GivenFiles:
    """The files with the rows of ``given``, a file or a folder, as the corpora ``folder`` has them.

    ``records`` is the dotted key of the rows in JSON: in an object, or in each row, whose other
    fields the rows then have as well. What has to be rewritten is below ``aside``.

    Raises:
        ConfigError: a file cannot be read; says how to save it, or which option is needed.
    """
    endings = {*FORMAT_OF_ENDING, ".arrow"}
    inside = [path for path in sorted(given.rglob("*")) if _ending(path) in endings]
    if not given.exists():
        raise ConfigError(f"--from: there is no {given}")
    if given.is_dir() and not inside:
        raise ConfigError(f"{given} has no file that ends in {', '.join(sorted(endings))}")
    saved = [path for path in inside if path.suffix == ".arrow"]  # beside JSON that is no rows
    places, names = dict[str, Path](), dict[NativeFile, Path]()
    for path in saved or inside or [given]:
        rows = _in_rows(path, records, aside).resolve()
        if rows.is_relative_to(folder):
            below = rows.relative_to(folder)
        else:
            place = path.relative_to(given) if inside else Path(path.name)
            below = name / place.with_name(rows.name)
        native = native_file(below.as_posix(), guess_split(below.as_posix()))
        places[native.path], names[native] = rows, path
    return GivenFiles(folder, places, names)


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _in_rows(path: Path, records: str, aside: Path) -> Path:
    """The file itself, or what it holds as rows: of an Arrow stream, or within JSON."""
    ending, target = _ending(path), aside / path.parent.name / path.with_suffix(".jsonl").name
    target.parent.mkdir(parents=True, exist_ok=True)
    if ending in _SHEETS:
        raise ConfigError(f"{path} is a spreadsheet: save it as 'CSV UTF-8' and name that file")
    if ending == ".arrow":  # of a folder that ``datasets`` saved
        from pyarrow import ipc, parquet

        target = target.with_suffix(".parquet")
        parquet.write_table(ipc.open_stream(path).read_all(), target)
        return target
    if ending not in {".json", *({".jsonl", ".ndjson"} if records else ())}:
        return path
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        lines = [line for line in data.splitlines() if line.strip()]
        whole = json.loads(data) if ending == ".json" else [json.loads(line) for line in lines]
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return path  # JSON lines, or damaged: its reader names the place
    if not isinstance(whole, dict) and not records:
        return path
    rows = list(_rows_at(whole, records.split(".") if records else []))
    if not rows or not all(isinstance(row, dict) for row in rows):
        entries = whole[0] if isinstance(whole, list) and whole else whole
        known = ", ".join(map(excerpt, entries)) if isinstance(entries, dict) else ""
        raise ConfigError(
            f"{path}: name the entry that holds the rows with --records; of {known or 'none'}"
        )
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return target


def _rows_at(
    value: object, path: Sequence[str], outer: Mapping[str, object] | None = None
) -> Iterator[object]:
    """The rows at a path; those within other rows have the fields of these, too."""
    if isinstance(value, list):
        for entry in value:
            yield from _rows_at(entry, path, outer or {})
    elif not isinstance(value, dict):
        yield from () if value is None else (value,)
    elif path:
        fields = {name: field for name, field in value.items() if name != path[0]}
        around = None if outer is None else {**outer, **fields}
        yield from _rows_at(value.get(path[0]), path[1:], around)
    else:
        yield from _rows_in(value) if outer is None else ({**outer, **value},)


def _rows_in(whole: Mapping[str, Any]) -> list[Any]:
    """The rows of an object: its one list of them, those of columns, or its values by their ids."""
    values = list(whole.values())
    lists = [rows for rows in values if isinstance(rows, list) and isinstance((*rows, 0)[0], dict)]
    if len(lists) == 1:
        return lists[0]
    if not values or not all(isinstance(value, dict) for value in values):
        return []
    if all(map(str.isdecimal, (key for value in values for key in value))):  # as pandas writes
        return [{name: whole[name].get(key) for name in whole} for key in values[0]]
    alike = len(values) > 1 and set.intersection(*map(set, values))
    return [{**row, "_key": key} for key, row in whole.items()] if alike else []


def encoding_of(path: Path, *, broken: bool) -> str:
    """The encoding of a text file, some of whose rows may be ``broken``; empty for UTF-8."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(-1 if broken else 1_000)
    except (OSError, EOFError, zlib.error):
        return ""  # its reader says what is damaged
    if (known := json.detect_encoding(data)).startswith("utf-16"):
        return known.replace("6-", "6").upper()  # as iconv names it
    for encoding, name in (("utf-8", ""), ("cp1252", "CP1252")) if broken else ():
        with suppress(UnicodeDecodeError):
            data.decode(encoding)
            return name
    return "ANOTHER_ENCODING" if broken else ""
