"""The corpora folder: opens native files, plain or gzipped, and reads their rows.

``FolderCorpora`` is the ``CorpusFiles`` of the readers in ``decomposerl/claims``. JSON lines
and delimited text stream, line by line of at most ``MAX_LINE_BYTES``; a JSON array or object
of at most ``MAX_WHOLE_BYTES`` (unpacked) is held in memory while its elements are read;
Parquet is read batch by batch. A file that cannot be read to its end is refused: the last reject
has row 0 and says where reading stopped.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from decomposerl.claims.claim import Record, Reject, RejectReason
from decomposerl.claims.records import (
    MAX_LINE_BYTES,
    delimited_records,
    json_records,
    jsonl_records,
)
from decomposerl.claims.source import NativeFile
from resources.corpora.pages import SqlitePages
from resources.store.paths import regular_file

MAX_WHOLE_BYTES = 1_000_000_000
"""Limit of a JSON array or object, and of a packed Parquet file; reading takes up to five times."""
_CHUNK_BYTES = 1 << 18
_BATCH_ROWS = 2048
_DAMAGE = (OSError, EOFError, zlib.error)  # of a file, and of what it packs
_UNFIT = (pa.ArrowException, ValueError, OverflowError)
"""What pyarrow raises where a file is damaged or Python cannot hold a value."""


@dataclass(frozen=True, slots=True)
class FolderCorpora:
    """Native files below ``root``; a ``.gz`` beside a path is read in its place."""

    root: Path

    def exists(self, path: str) -> bool:
        """Whether the file or its ``.gz`` is there."""
        return self._find(path) is not None

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """Rows in file order; nothing where the file is absent.

        A file that the system cannot read gives one ``unreadable_file`` reject, row 0.
        """
        path = self._find(file.path)
        return iter(()) if path is None else records_of(path, file)

    def pages(self, path: str) -> SqlitePages | None:
        """The page database at ``path``; None where it is absent.

        Raises:
            SourceFileError: the file is no SQLite database of a known layout.
        """
        database = self.root / path
        return SqlitePages(database) if _exists(database) else None

    def _find(self, path: str) -> Path | None:
        plain = self.root / path
        forms = filter(_exists, (plain, plain.with_name(f"{plain.name}.gz")))
        return next(iter(sorted(forms, key=lambda form: not form.is_file())), None)


def _exists(path: Path) -> bool:
    """Whether a path is there, also as a dangling link or out of reach: reading it says so."""
    try:
        return bool(path.lstat())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True


def records_of(path: Path, file: NativeFile) -> Iterator[Record | Reject]:
    """Rows of the file at ``path``, as ``FolderCorpora.records`` gives them."""
    row = 0
    try:
        for outcome in _records(file, regular_file(path)):
            row = outcome.row
            yield outcome
    except _DAMAGE as error:
        why = f"after row {row}: {_why(error)}" if row else _why(error)
        yield Reject(file.path, 0, "", "unreadable_file", why)


def _records(file: NativeFile, path: Path) -> Iterator[Record | Reject]:
    if file.format == "parquet":
        return _parquet_records(file.path, path)
    if file.format == "jsonl":
        return jsonl_records(file.path, physical_lines(_opened(path)))
    if file.format in {"csv", "tsv"}:
        lines = physical_lines(_opened(path))
        header = next(lines, b"")
        delimiter = chr(max(b",;|\t", key=header.count)) if file.format == "csv" else "\t"
        return delimited_records(file.path, chain([header], lines), delimiter)
    return json_records(file.path, content_of(path), keyed=file.format == "json_object")


def _opened(path: Path) -> io.BufferedIOBase:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def physical_lines(stream: io.BufferedIOBase, most: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Lines with their line breaks; of one above ``most`` bytes, a byte more than that."""
    with stream:
        while line := stream.readline(most + 1):
            yield line
            while len(line) > _CHUNK_BYTES and not line.endswith(b"\n"):  # the rest of a long line
                line = stream.readline(most)


def content_of(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        OSError: the file cannot be read or holds more than ``MAX_WHOLE_BYTES``.
    """
    content, size = bytearray(), path.stat().st_size
    with _opened(path) as stream:
        try:
            while size <= MAX_WHOLE_BYTES and (chunk := stream.read(_CHUNK_BYTES)):
                content += chunk
                size = max(size, len(content))
        except _DAMAGE as error:
            raise OSError(None, f"after {len(content):,} bytes: {_why(error)}") from error
    if size > MAX_WHOLE_BYTES:
        raise OSError(None, f"more than {MAX_WHOLE_BYTES:,} bytes; split it or use JSON lines")
    return bytes(content)


def _parquet_records(path: str, location: Path) -> Iterator[Record | Reject]:
    content: Any = io.BytesIO(content_of(location)) if location.suffix == ".gz" else location
    done = 0
    try:
        with parquet.ParquetFile(content) as table:
            for batch in table.iter_batches(_BATCH_ROWS):
                yield from _batch_records(path, done + 1, batch)
                done += batch.num_rows
            if done < table.metadata.num_rows:
                raise OSError(None, f"{table.metadata.num_rows:,} rows are promised")
    except _UNFIT as error:
        raise OSError(None, _why(error)) from error


def _batch_records(path: str, first: int, batch: Any) -> Iterator[Record | Reject]:  # noqa: ANN401
    """The rows of a batch; a value that Python cannot hold rejects its row alone."""
    try:
        rows = batch.to_pylist()
    except _UNFIT:
        slices = (batch.slice(offset, 1) for offset in range(batch.num_rows))
        yield from (_row(path, number, row) for number, row in enumerate(slices, start=first))
    else:
        yield from (Record(path, number, row) for number, row in enumerate(rows, start=first))


def _row(path: str, number: int, row: Any) -> Record | Reject:  # noqa: ANN401
    fields: dict[str, object] = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            fields[name] = column[0].as_py()
        except _UNFIT as error:
            text = isinstance(error, UnicodeDecodeError)
            reason: RejectReason = "broken_encoding" if text else "malformed_line"
            return Reject(path, number, name, reason, _why(error))
    return Record(path, number, fields)


def _why(error: Exception) -> str:
    """The system's words for an error, else its first line, else its kind."""
    said = getattr(error, "strerror", None) or str(error)
    return next(iter(said.splitlines()), "") or type(error).__name__
