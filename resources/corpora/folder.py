"""The corpora folder: opens native files, plain or gzipped, and reads their rows.

``FolderCorpora`` is the ``CorpusFiles`` of the readers in ``decomposerl/claims``. JSON lines
and delimited text stream, line by line of at most ``MAX_LINE_BYTES``; a JSON array or object
of at most ``MAX_WHOLE_BYTES`` (unpacked) is held in memory while its elements are read;
Parquet is read batch by batch.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.delimited import delimited_records
from decomposerl.claims.json_elements import array_records, object_records
from decomposerl.claims.records import MAX_LINE_BYTES, Cut, Line, jsonl_records
from decomposerl.claims.source import NativeFile
from resources.corpora.pages import SqlitePages
from resources.store.paths import regular_file

MAX_WHOLE_BYTES = 1_000_000_000
"""Limit of a JSON array or object, and of a packed Parquet file; reading takes up to five times."""
_CHUNK_BYTES = 1 << 18
_UNPACKED_BYTES = 1 << 22
_MAX_LOST_ROWS = 1_000_000  # of one row group; an index that promises more is damaged
_BATCH_ROWS = 2048
_GZIP = 31  # zlib's window setting that expects a gzip header


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
        existing = [path for path in (plain, Path(f"{plain}.gz")) if _exists(path)]
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
    try:
        yield from _records(file, regular_file(path))
    except OSError as error:
        detail = error.strerror or type(error).__name__
        yield Reject(file.path, 0, "", "unreadable_file", detail)


def _records(file: NativeFile, path: Path) -> Iterator[Record | Reject]:
    if file.format == "parquet":
        yield from _parquet_records(file.path, path)
    elif file.format == "jsonl":
        yield from jsonl_records(file.path, _lines(path))
    elif file.format in {"csv", "tsv"}:
        lines = _lines(path)
        header = next(lines, b"")
        mark = max(b",;|\t", key=header.count) if isinstance(header, bytes) else ord(",")
        delimiter = chr(mark) if file.format == "csv" else "\t"
        yield from delimited_records(file.path, chain([header], lines), delimiter)
    else:
        read = array_records if file.format == "json_array" else object_records
        yield from read(file.path, *_content(path))


def _lines(path: Path) -> Iterator[Line]:
    """Physical lines with their line breaks, the last ``Cut`` where the file is cut short.

    A line that is too long is given with a little more than ``MAX_LINE_BYTES`` of it.
    """
    if path.suffix != ".gz":
        with path.open("rb") as stream:
            yield from _plain_lines(stream)
        return
    pending = bytearray()
    for chunk in _inflated(path):
        if isinstance(chunk, Cut):
            yield Cut(bytes(pending), chunk.detail)
            return
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield bytes(pending + line + b"\n") if pending else line + b"\n"
            pending.clear()
        if len(pending) <= MAX_LINE_BYTES:
            pending += rest
    if pending:
        yield bytes(pending)


def _plain_lines(stream: io.BufferedReader) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > _CHUNK_BYTES and not line.endswith(b"\n"):  # the rest of a long line
            line = stream.readline(MAX_LINE_BYTES)


def _content(path: Path) -> tuple[bytes, str | None]:
    """All readable bytes, and the reason why they end early, if they do.

    Raises:
        OSError: the file cannot be read or holds more than ``MAX_WHOLE_BYTES``.
    """
    if path.suffix != ".gz":
        _refuse_large(path.stat().st_size)
        return path.read_bytes(), None
    content = bytearray()
    for chunk in _inflated(path):
        if isinstance(chunk, Cut):
            return bytes(content), chunk.detail
        content += chunk
        _refuse_large(len(content))
    return bytes(content), None


def _refuse_large(size: int) -> None:
    if size > MAX_WHOLE_BYTES:
        raise OSError(None, f"more than {MAX_WHOLE_BYTES:,} bytes; split it or use JSON lines")


def _inflated(path: Path) -> Iterator[Line]:
    """Decompressed chunks; a last ``Cut`` where the stream ends early or turns to garbage.

    Raises:
        OSError: the file is no gzip stream at all.
    """
    inflate, first = zlib.decompressobj(_GZIP), True
    with path.open("rb") as stream:
        while data := stream.read(_CHUNK_BYTES):
            while data:
                if inflate.eof:  # another member follows; trailing zeros are padding
                    data = data.lstrip(b"\0")
                    inflate = zlib.decompressobj(_GZIP) if data else inflate
                    continue
                before = inflate.copy()  # to salvage the bytes before damage in this chunk
                try:
                    chunk = inflate.decompress(data, _UNPACKED_BYTES)
                except zlib.error as error:
                    chunk = _salvaged(before, data)
                    if first and not chunk:
                        raise OSError(None, f"not gzip: {error}") from error
                    yield chunk
                    yield Cut(b"", f"damaged gzip: {error}")
                    return
                yield chunk
                data, first = inflate.unused_data or inflate.unconsumed_tail, False
    if not inflate.eof:
        yield inflate.flush()
        if not inflate.eof:
            yield Cut(b"", "the gzip stream ends in the middle")


def _salvaged(inflate: Any, data: bytes) -> bytes:  # noqa: ANN401 - zlib names no type
    """The bytes that decompress before the damage, found byte by byte."""
    out = bytearray()
    try:
        for index in range(len(data)):
            out += inflate.decompress(data[index : index + 1])
    except zlib.error:
        return bytes(out)
    return bytes(out)


def _parquet_records(path: str, location: Path) -> Iterator[Record | Reject]:
    import pyarrow as pa
    from pyarrow import parquet

    content: Any = location
    cut, end = None, 0
    if location.suffix == ".gz":
        data, cut = _content(location)
        content = io.BytesIO(data)
    try:
        with parquet.ParquetFile(content) as table:
            for group in range(table.num_row_groups):
                start, end = end, end + table.metadata.row_group(group).num_rows
                yield from _group_records(path, table, group, range(start + 1, end + 1))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # Parquet keeps its index at the end: without it nothing of the file can be read.
        yield Reject(path, 0, "", "unreadable_file", _first_line(error))
        return
    if cut is not None:
        yield Reject(path, end + 1, "", "truncated_file", cut)


def _group_records(
    path: str,
    table: Any,  # noqa: ANN401 - pyarrow has no types
    group: int,
    rows: range,
) -> Iterator[Record | Reject]:
    """Rows of one row group; rows lost to a damaged page are one reject each."""
    import pyarrow as pa

    done, why = 0, "the row group ends early"
    try:
        for batch in table.iter_batches(_BATCH_ROWS, row_groups=[group]):
            yield from _batch_records(path, rows.start + done, batch)
            done += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        why = _first_line(error)
    lost = rows[done:]
    if len(lost) > _MAX_LOST_ROWS:
        detail = f"the index promises {len(rows)} rows and {done} could be read: {why}"
        yield Reject(path, 0, "", "unreadable_file", detail)
        return
    for row in lost:
        detail = f"rows {lost[0]}-{lost[-1]} ({len(lost)} rows): {why}"
        yield Reject(path, row, "", "unreadable_file", detail)


def _batch_records(path: str, first: int, batch: Any) -> Iterator[Record | Reject]:  # noqa: ANN401
    import pyarrow as pa

    try:
        rows = batch.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):
        for offset in range(batch.num_rows):
            yield _single(path, first + offset, batch.slice(offset, 1))
        return
    yield from (Record(path, row, fields) for row, fields in enumerate(rows, start=first))


def _single(path: str, row: int, one: Any) -> Record | Reject:  # noqa: ANN401
    import pyarrow as pa

    fields: dict[str, object] = {}
    for index, name in enumerate(one.schema.names):
        try:
            fields[name] = one.column(index)[0].as_py()
        except UnicodeDecodeError as error:
            return Reject(path, row, name, "broken_encoding", error.reason)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            return Reject(path, row, name, "malformed_line", _first_line(error))
    return Record(path, row, fields)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
