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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.records import (
    MAX_LINE_BYTES,
    array_records,
    delimited_records,
    jsonl_records,
    object_records,
)
from decomposerl.claims.source import NativeFile
from resources.corpora.pages import SqlitePages
from resources.store.paths import regular_file

MAX_WHOLE_BYTES = 1_000_000_000
"""Limit of a JSON array or object, and of a packed Parquet file; reading takes up to five times."""
_CHUNK_BYTES = 1 << 18
_BATCH_ROWS = 2048
_DAMAGE = (OSError, EOFError, zlib.error)  # of a file, and of what it packs


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
        if path is not None:
            yield from records_of(path, file)

    def pages(self, path: str) -> SqlitePages | None:
        """The page database at ``path``; None where it is absent.

        Raises:
            SourceFileError: the file is no SQLite database of a known layout.
        """
        database = self.root / path
        return SqlitePages(database) if _exists(database) else None

    def _find(self, path: str) -> Path | None:
        plain = self.root / path
        zipped = plain.with_name(plain.name + ".gz")
        existing = [path for path in (plain, zipped) if _exists(path)]
        regular = (path for path in existing if _exists(path, Path.is_file))
        return next(regular, None) or next(iter(existing), None)


def _exists(path: Path, test: Callable[[Path], object] = Path.lstat) -> bool:
    """Whether the path exists, even as a dangling link: reading it reports what is wrong."""
    try:
        return bool(test(path))
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
        return jsonl_records(file.path, _lines(path))
    if file.format in {"csv", "tsv"}:
        lines = _lines(path)
        header = next(lines, b"")
        delimiter = chr(max(b",;|\t", key=header.count)) if file.format == "csv" else "\t"
        return delimited_records(file.path, chain([header], lines), delimiter)
    read = array_records if file.format == "json_array" else object_records
    return read(file.path, _content(path))


def _opened(path: Path) -> io.BufferedIOBase:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _lines(path: Path) -> Iterator[bytes]:
    """Physical lines with their line breaks; of a longer one, a byte more than the limit."""
    with _opened(path) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            yield line
            while len(line) > _CHUNK_BYTES and not line.endswith(b"\n"):  # the rest of a long line
                line = stream.readline(MAX_LINE_BYTES)


def _content(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        OSError: the file cannot be read or holds more than ``MAX_WHOLE_BYTES``.
    """
    content = bytearray()
    size = path.stat().st_size
    with _opened(path) as stream:
        while size <= MAX_WHOLE_BYTES:
            try:
                chunk = stream.read(_CHUNK_BYTES)
            except _DAMAGE as error:
                raise OSError(None, f"after {len(content):,} bytes: {_why(error)}") from error
            if not chunk:
                return bytes(content)
            content += chunk
            size = max(size, len(content))
    raise OSError(None, f"more than {MAX_WHOLE_BYTES:,} bytes; split it or use JSON lines")


def _parquet_records(path: str, location: Path) -> Iterator[Record | Reject]:
    import pyarrow as pa
    from pyarrow import parquet

    content: Any = io.BytesIO(_content(location)) if location.suffix == ".gz" else location
    done = 0
    try:
        with parquet.ParquetFile(content) as table:
            for batch in table.iter_batches(_BATCH_ROWS):
                yield from _batch_records(path, done + 1, batch)
                done += batch.num_rows
            if done < table.metadata.num_rows:
                raise OSError(None, f"{table.metadata.num_rows:,} rows are promised")
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise OSError(None, _why(error)) from error


def _batch_records(path: str, first: int, batch: Any) -> Iterator[Record | Reject]:  # noqa: ANN401
    """The rows of a batch; a value that Python cannot hold rejects its row alone."""
    import pyarrow as pa

    try:
        rows = batch.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):
        for offset in range(batch.num_rows):
            yield _single(path, first + offset, batch.slice(offset, 1))
        return
    for row, fields in enumerate(rows, start=first):
        yield Record(path, row, fields)


def _single(path: str, row: int, one: Any) -> Record | Reject:  # noqa: ANN401
    import pyarrow as pa

    fields: dict[str, object] = {}
    for index, name in enumerate(one.schema.names):
        try:
            fields[name] = one.column(index)[0].as_py()
        except UnicodeDecodeError as error:
            return Reject(path, row, name, "broken_encoding", error.reason)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            return Reject(path, row, name, "malformed_line", _why(error))
    return Record(path, row, fields)


def _why(error: Exception) -> str:
    """The system's words for an error, else its first line, else its kind."""
    said = getattr(error, "strerror", None) or str(error)
    return next(iter(said.splitlines()), "") or type(error).__name__
