"""The SQLite file of chat replies: its layout, its rows as a table, what is left of a damaged one.

``resources.chat.reply_store`` reads and writes it. Each row ends with its digest, so that a
flipped bit is not read as another reply; rows of earlier versions have none.
"""

import mmap
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.errors import EngineError
from decomposerl.schemas import CHAT_REPLIES
from resources.store.result_store import key_of
from resources.store.run_lock import file_lock
from resources.store.temporary import aside, put_in_place

COLUMNS = tuple(CHAT_REPLIES.schema)
LAYOUT = """
CREATE TABLE IF NOT EXISTS replies (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, template TEXT NOT NULL,
  template_digest TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT NOT NULL,
  reported_model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, latency_s REAL NOT NULL, tokens TEXT, digest TEXT
)"""
_PYTHON = {pl.String(): str, pl.Int64(): int, pl.Float64(): float}
_KINDS = tuple(_PYTHON[kind] for kind in CHAT_REPLIES.schema.values())
_ROWS = {_KINDS, (*_KINDS[:-1], type(None))}  # with tokens and without; others are damaged
_ALL = "SELECT * FROM replies"
INSERT = f"INSERT INTO replies VALUES ({','.join('?' * (len(COLUMNS) + 1))})"  # noqa: S608 - no values
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PAGE, _WAL_HEADER, _FRAME_HEADER, _LEAF = 4096, 32, 24, 13
_COUNTER = 24  # a byte of the number of changes, in the first page
_LOCK_WAIT_S, _WAIT_S = 60.0, 600.0


class DamagedReplyWarning(UserWarning):
    """Stored replies are damaged: they are asked again, or were put into a new file."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is damaged, not that it is locked or the disk full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def digest_of(row: Sequence[Any]) -> str:
    """The digest of the values of ``COLUMNS``."""
    return key_of(*("" if value is None else str(value) for value in row))


def is_whole(row: Sequence[Any]) -> bool:
    """Whether a row has its columns' types and, if it has a digest, that of its values."""
    values, digest = row[: len(COLUMNS)], row[len(COLUMNS) :]
    return tuple(map(type, values)) in _ROWS and digest in {(), (None,), (digest_of(values),)}


def replies_in(path: Path) -> pl.DataFrame:
    """Every reply of all models and revisions, ordered by key; no row where there is no file.

    A damaged row is left out, or, where an earlier version wrote it, shown with replacement
    characters for what is not UTF-8.

    Raises:
        EngineError: the file is damaged, or not a chat cache.
    """
    if not path.is_file():
        return CHAT_REPLIES.empty()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = connection.execute(f"{_ALL} ORDER BY key").fetchall()
    except sqlite3.Error as error:
        raise EngineError(f"{path} cannot be read as a chat cache: {error}") from error
    whole = [row[: len(COLUMNS)] for row in rows if is_whole(row)]
    return pl.DataFrame(whole, schema=CHAT_REPLIES.schema, orient="row")


def open_replies(path: Path) -> sqlite3.Connection:
    """The file, created if missing, or a new one with what can be read of a damaged one.

    Raises:
        sqlite3.Error, OSError, EngineError: it cannot be opened, or is no store of replies.
    """
    if not _mark(path).is_file():
        try:
            return _opened(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
    recover(path)
    _mark(path).unlink(missing_ok=True)
    return _opened(path)


def what_to_do(path: Path, error: Exception) -> str:
    """The sentence about a file that cannot be used; a damaged one is marked for the next start."""
    if is_damage(error):
        return mark_damaged(path)
    full = getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM
    safe = ". Replies stored before are safe: make room on the disk, then start again"
    return f"{path} cannot be used as a chat cache: {error}{safe * full}"


def mark_damaged(path: Path) -> str:
    """Let the next start recover what it can; returns the sentence that says so."""
    with suppress(OSError):
        _mark(path).touch()
    return (
        f"{path} is damaged: start again. The replies that can still be read are then put into a "
        "new file, and the damaged one is kept beside it"
    )


def _mark(path: Path) -> Path:
    return path.with_name(f".{path.name}.damaged")


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False
    )
    try:
        with suppress(sqlite3.OperationalError):  # another process is switching it right now
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(LAYOUT)
        with suppress(sqlite3.OperationalError):  # it has the column: no earlier version wrote it
            connection.execute("ALTER TABLE replies ADD COLUMN digest TEXT")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def recover(path: Path) -> None:
    """Put the replies that can still be read into a new file; the damaged one stays beside it.

    Raises:
        EngineError: no reply can be read, so nothing was changed.
        OSError: the new file cannot be written.
    """
    with file_lock(path.with_name(f".{path.name}.lock"), str(path), wait_s=_WAIT_S):
        if _is_whole(path):  # another process was first
            return
        with aside(path) as copy:
            whole = filter(is_whole, (row for leaf in _leaves(path, copy) for row in _rows(leaf)))
            kept = {row[0]: row for row in whole}
        if not kept:
            raise EngineError(f"{path} has no reply that can be read: move it away to start anew")
        with aside(path) as new:
            with closing(sqlite3.connect(new)) as connection:
                connection.execute(LAYOUT)
                connection.executemany(INSERT, kept.values())
                connection.commit()
            damaged = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    path.with_name(path.name + ending).replace(f"{damaged}{ending}")
            put_in_place(new, path)
    warnings.warn(
        f"{path} was damaged: {len(kept):,} replies were put into a new file, and others are asked "
        f"again; the damaged file is kept as {damaged.name}",
        DamagedReplyWarning,
        stacklevel=2,
    )


def _is_whole(path: Path) -> bool:
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))
    return False


# SQLite's file format: https://www.sqlite.org/fileformat2.html


def _pages(path: Path) -> dict[int, memoryview]:
    """Every whole page by number, as far as the file goes, and those of its write-ahead log."""
    with path.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    count = len(whole) // _PAGE
    pages = {number + 1: whole[number * _PAGE :][:_PAGE] for number in range(count)}
    log = path.with_name(f"{path.name}-wal")
    frames = memoryview(log.read_bytes() if log.is_file() else b"")
    for start in range(_WAL_HEADER, len(frames) - _FRAME_HEADER, _FRAME_HEADER + _PAGE):
        if frames[start + 8 : start + 16] == frames[16:24]:  # salts: else of an earlier log
            content = start + _FRAME_HEADER
            pages[int.from_bytes(frames[start : start + 4])] = frames[content : content + _PAGE]
    return pages


def _leaves(path: Path, copy: Path) -> Iterator[sqlite3.Connection]:
    """Each leaf of a table in turn, as all that ``replies`` has, so that SQLite reads its rows.

    ``copy`` gets the first page of a new file, and the leaf where the root of ``replies`` is. Other
    pages stand where they stood, as long texts go on in them.
    """
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(LAYOUT)
    first, pages = bytearray(copy.read_bytes()[:_PAGE]), _pages(path)
    first[_COUNTER] ^= 1  # so that the number of pages is the file's own, not what is written here
    with copy.open("r+b", buffering=0) as file:
        for number in range(2, len(pages) + 1):
            os.pwrite(file.fileno(), pages.get(number, b""), _PAGE * (number - 1))
        for page in pages.values():
            if page[:1] == bytes([_LEAF]):
                os.pwrite(file.fileno(), first + page, 0)
                with closing(sqlite3.connect(copy)) as connection:
                    connection.text_factory = bytes
                    yield connection


def _rows(leaf: sqlite3.Connection) -> Iterator[Sequence[Any]]:
    """The rows of a leaf that can be read."""
    with suppress(sqlite3.Error):
        for number in leaf.execute("SELECT rowid FROM replies NOT INDEXED").fetchall():
            with suppress(sqlite3.Error, UnicodeDecodeError):
                row = leaf.execute(f"{_ALL} WHERE rowid = ?", number).fetchone()
                yield tuple(value.decode() if isinstance(value, bytes) else value for value in row)
