"""Whether a file still has the bytes that were written: their SHA-256, compared when it is read.

The digest of a table is in its asset's run record, ``stage_runs/<key>.json``, beside those of the
side tables of that run. The digests of a folder's files, such as a checkpoint's, are in a file
``sha256.json`` inside it. A file is compared at its first read in a process, and again once it was
replaced. A file without a digest, which a user or an earlier version wrote, is read as it is.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.errors import SourceFileError
from resources.store.temporary import replace_file

RECORDS, DIGESTS = "stage_runs", "sha256.json"
SIDE_OF = {
    **dict.fromkeys(("drops", "pairs", "selection_cells"), ""),
    "rejects": "claims/",
    "calls": "predictions/",
    "doubtful": "benchmark/",
}
"""Folders of side tables. A side table's key is its asset's without this prefix."""
_DIGITS = 64
_LEVELS = 6  # between a data folder and a file of one of its training runs
_YOUNG_S, _REPLACED_S = 5.0, 0.3  # a table and its record are renamed one after the other
_OWN = "digest"
_COMMANDS = {
    **dict.fromkeys(("predictions", "scores"), "decomposerl evaluate {system}"),
    "calibrations": "dagster job execute -m dagster_project.definitions -j calibrate",
}
_same: dict[Path, tuple[int, int]] = {}
"""Modification time and size of the files that were compared."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What was written about a file: its digest, its rows where known, and how to make it again."""

    digest: str
    rows: int | None
    again: str


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def verified(path: Path) -> Path:
    """The path itself, once its bytes, or those of all files of a folder, are as recorded.

    Raises:
        SourceFileError: they are not, or a recorded file is gone; the message says what to do.
        FileNotFoundError: it is not there and never was.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                verified(file)
        return path
    file = path.absolute()
    recorded = _checked(file)
    if recorded is not None and file.is_file() and time.time() - file.stat().st_mtime < _YOUNG_S:
        time.sleep(_REPLACED_S)
        recorded = _checked(file)
    if recorded is not None:
        raise SourceFileError(f"{path} {_difference(file, recorded)}. {recorded.again}")
    return path


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Some columns of a Parquet file that is as it was written.

    Raises:
        SourceFileError: as ``verified``.
        OSError, polars.exceptions.PolarsError: it is not there, or no Parquet file.
    """
    wanted = None if columns is None else list(columns)
    return pl.read_parquet(verified(path), columns=wanted, glob=False)


def scan_parquet(*paths: Path) -> pl.LazyFrame:
    """The rows of Parquet files that are as they were written; errors as ``read_parquet``."""
    return pl.scan_parquet([verified(path) for path in paths], glob=False)


def write_record(target: Path, values: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Write a record as JSON: ``values``, the digests of ``files`` by name, and its own digest."""
    record = {**values, "files": dict(files)}
    text = json.dumps({**record, _OWN: _digest(record)})
    replace_file(target, lambda path: path.write_text(text, "utf-8"))


def read_record(path: Path) -> dict[str, Any]:
    """What ``write_record`` wrote, or an earlier version without digests.

    Raises:
        SourceFileError: it is damaged.
        OSError: it cannot be read.
    """
    return dict(_record_at(path, _state(path)))


@lru_cache(maxsize=32)
def _record_at(path: Path, _: tuple[int, int]) -> dict[str, Any]:
    """What a record says while its state is this: a long run's is read for each of its files."""
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
        own = record.pop(_OWN, None)
    except (ValueError, AttributeError, TypeError) as error:
        raise SourceFileError(f"{path} is not a run record: {error}. {_again(path)}") from error
    if own not in {None, _digest(record)}:
        raise SourceFileError(f"{path} is damaged or was changed. {_again(path)}")
    return record


def record_folder(folder: Path, again: str, without: Iterable[str] = ()) -> None:
    """Record the files of a folder but those of some subfolders; ``again`` says what to do.

    Raises:
        OSError: a file cannot be read, or the record not written.
    """
    left_out = {DIGESTS, *without}
    files = {
        path.relative_to(folder).as_posix(): file_sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in left_out
    }
    write_record(folder / DIGESTS, {"again": again}, files)


def record_again(base: Path, key: str, file: Path) -> None:
    """Put the digest of a side table that a failed run wrote into its asset's record."""
    path = run_path(base, key)
    if path.is_file():
        record = read_record(path)
        files = {**record.pop("files", {}), file.relative_to(base).as_posix(): file_sha256(file)}
        write_record(path, record, files)


def note_written(file: Path) -> None:
    """Note that a file is as this process has just written it, or has no digest."""
    _same[file.absolute()] = _state(file)


def run_path(base: Path, key: str) -> Path:
    """The run record of an asset."""
    return base / RECORDS / f"{key.replace('/', '__')}.json"


def has_digest(file: Path, digest: str) -> bool:
    """Whether the SHA-256 of a file begins with ``digest``; read at most once a process.

    Raises:
        OSError: it cannot be read.
    """
    state = _state(file)
    if _same.get(file) != state:
        if not file_sha256(file).startswith(digest):
            return False
        _same[file] = state
    return True


def _checked(file: Path) -> _Recorded | None:
    """What the record of a file says if the file differs from it."""
    if file.is_file() and _same.get(file) == _state(file):
        return None
    recorded = _recorded(file)
    if recorded is None or (file.is_file() and has_digest(file, recorded.digest)):
        note_written(file)
        return None
    return recorded


def _recorded(file: Path) -> _Recorded | None:
    """What the nearest record of a file says; None where it has none."""
    for folder in file.parents[:_LEVELS]:
        name = file.relative_to(folder).as_posix()
        own = run_path(folder, name.removesuffix(".parquet"))
        for path in filter(Path.is_file, (folder / DIGESTS, own, *_side_records(folder, name))):
            record = read_record(path)
            earlier = {name: record.get("data_version", "")} if path == own else {}
            files = record.get("files", earlier)
            digest = str(files.get(name, "")) if isinstance(files, dict) else ""
            if len(digest) == _DIGITS:
                rows = record.get("rows_kept") if path == own else None
                return _Recorded(digest, rows, record.get("again") or _again(path))
    return None


def _side_records(folder: Path, name: str) -> Iterator[Path]:
    """Where a side table may be recorded."""
    first, _, rest = name.removesuffix(".parquet").partition("/")
    for prefix in {SIDE_OF[first], ""} if first in SIDE_OF else ():
        yield run_path(folder, f"{prefix}{rest}")


def _difference(file: Path, recorded: _Recorded) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.is_file():
        return "was written and is gone"
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # polars would panic
        rows = pq.read_metadata(file).num_rows
        if recorded.rows is not None and rows != recorded.rows:
            return f"has {rows:,} rows, and {recorded.rows:,} were written"
    return "is damaged or was changed: its SHA-256 is not the recorded one"


def _again(record: Path) -> str:
    """The command that makes what a record describes, and the record, again."""
    if record.name == DIGESTS:
        return f"Restore {record.parent} from a copy, or delete it and make it again"
    folder, _, name = record.stem.replace("__", "/").partition("/")
    command = _COMMANDS.get(folder, "decomposerl run {key}")
    command = command.format(key="/".join(filter(None, (folder, name))), system=Path(name).name)
    return f"Make it again with: {command} (stored answers of engines are used again)"


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size
