"""Whether a file still has the bytes that were written: their SHA-256, compared when it is read.

The digest of a table is in its asset's run record, ``stage_runs/<key>.json``, beside those of the
side tables of that run. The digests of a folder's files, such as a checkpoint's, are in a file
``sha256.json`` inside it. A file is compared at its first read in a process, and again once it was
replaced. A file without a digest, which a user or an earlier version wrote, is read as it is.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
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
_LEVELS = 6  # between a data folder and a file of one of its training runs
_YOUNG_S, _REPLACED_S = 5.0, 0.3  # a table and its record are renamed one after the other
_OWN = "digest"
_RUN, _EVALUATE = "decomposerl run {key}", "decomposerl evaluate {system} --benchmarks {folder}"
_COMMANDS = {
    **dict.fromkeys(("predictions", "scores"), _EVALUATE),
    "calibrations": "dagster job execute -m dagster_project.definitions -j calibrate",
}
_same: dict[Path, tuple[int, int]] = {}
"""Modification time and size of the files that were compared."""


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
    again = _differs(file)
    if again and file.is_file() and time.time() - file.stat().st_mtime < _YOUNG_S:
        time.sleep(_REPLACED_S)
        again = _differs(file)
    if again:
        changed = "is damaged or was changed: its SHA-256 is not the recorded one"
        fault = changed if file.is_file() else "was written and is gone"
        raise SourceFileError(f"{path} {fault}. {again}")
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
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
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
    """Put the digest of a table, or of a side table that a failed run wrote, into a record."""
    path = run_path(base, key)
    if path.is_file():
        record = read_record(path)
        files = {**record.pop("files", {}), file.relative_to(base).as_posix(): file_sha256(file)}
        write_record(path, record, files)


def note_written(file: Path) -> None:
    """Note that a file is as this process has just written it."""
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


def _differs(file: Path) -> str:
    """How to make a file again that is not as its record says; empty where it is."""
    digest, again = _recorded(file)
    return "" if not digest or (file.is_file() and has_digest(file, digest)) else again


def _recorded(file: Path) -> tuple[str, str]:
    """Digest of a file in the nearest record, and how to make it again; empty without one."""
    for folder in file.parents[:_LEVELS]:
        name = file.relative_to(folder).as_posix()
        key = name.removesuffix(".parquet")
        first, _, rest = key.partition("/")
        sides = {f"{prefix}{rest}" for prefix in (SIDE_OF[first], "")} if first in SIDE_OF else ()
        records = (folder / DIGESTS, *(run_path(folder, one) for one in (key, *sides)))
        for path in filter(Path.is_file, records):
            record = read_record(path)
            files = record.get("files")
            if isinstance(files, dict) and name in files:
                return str(files[name]), record.get("again") or _again(path)
    return "", ""


def _again(record: Path) -> str:
    """The command that makes what a record describes, and the record, again."""
    if record.name == DIGESTS:
        return f"Restore {record.parent} from a copy, or delete it and make it again"
    key = record.stem.replace("__", "/")
    kind, folder, system, *_ = [*key.split("/"), "", ""]
    command = _COMMANDS.get(kind, _RUN).format(key=key, folder=folder, system=system)
    return f"Make it again with: {command} (stored answers of engines are used again)"


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size
