"""The SQLite file of chat replies: its layout, its rows as a table, what is left of a damaged one.

``resources.chat.reply_store`` reads and writes it. Table ``checks`` has a digest of each row, so
that a flipped bit is not read as another reply; rows of earlier versions have none.
"""

import mmap
import sqlite3
import struct
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
  completion_tokens INTEGER NOT NULL, latency_s REAL NOT NULL, tokens TEXT
);
CREATE TABLE IF NOT EXISTS checks (key TEXT PRIMARY KEY, digest TEXT NOT NULL)"""
_TYPES = {pl.String(): "text", pl.Int64(): "integer", pl.Float64(): "real"}  # as SQLite has them
_PYTHON = {pl.String(): str, pl.Int64(): int, pl.Float64(): float}
_REQUIRED = {name: kind for name, kind in CHAT_REPLIES.schema.items() if name != "tokens"}
_WHOLE = " AND ".join(f"typeof({name}) = '{_TYPES[kind]}'" for name, kind in _REQUIRED.items())
_QUERY = f"SELECT {', '.join(COLUMNS)} FROM replies WHERE {_WHOLE} ORDER BY key"  # noqa: S608 - the columns are ours
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PAGE, _WAL_HEADER, _FRAME_HEADER, _LEAF = 4096, 32, 24, 13
_SIZES, _REAL, _FIRST_TEXT = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0), 7, 12  # bytes by type of a value
_CONSTANTS = {0: None, 8: 0, 9: 1}
_LOCK_WAIT_S, _WAIT_S = 60.0, 600.0


class DamagedReplyWarning(UserWarning):
    """Stored replies are damaged: they are asked again, or were put into a new file."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is damaged, not that it is locked or the disk full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def check_of(row: Sequence[Any]) -> str:
    """The digest of a row of ``COLUMNS``.

    Raises:
        UnicodeDecodeError: a text, given as bytes, is not UTF-8.
    """
    texts = (value.decode() if isinstance(value, bytes) else value for value in row)
    return key_of(*("" if value is None else str(value) for value in texts))


def replies_in(path: Path) -> pl.DataFrame:
    """Every reply of all models and revisions, ordered by key; no row where there is no file.

    A damaged row is left out, or, where an earlier version wrote it, shown with replacement
    characters for what is not UTF-8.

    Raises:
        EngineError: the file is damaged, or not a chat cache.
    """
    if not path.is_file():
        return CHAT_REPLIES.empty()
    checks: dict[str, str] = {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = connection.execute(_QUERY).fetchall()
            with suppress(sqlite3.OperationalError):  # an earlier version wrote it
                checks = dict(connection.execute("SELECT key, digest FROM checks"))
    except sqlite3.Error as error:
        raise EngineError(f"{path} cannot be read as a chat cache: {error}") from error
    # A check without a row: the key of some row without a check was damaged.
    unchecked = {None} if checks.keys() <= {row[0] for row in rows} else set()
    whole = [row for row in rows if checks.get(row[0]) in unchecked | {check_of(row)}]
    return pl.DataFrame(whole, schema=CHAT_REPLIES.schema, orient="row")


def open_replies(path: Path) -> sqlite3.Connection:
    """The file, created if missing, or a new one with what can be read of a damaged one.

    Raises:
        sqlite3.Error, OSError, EngineError: it cannot be opened, or is no store of replies.
    """
    mark = _mark(path)
    if mark.is_file():
        recover(path)
        mark.unlink()
    try:
        return _opened(path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        recover(path)
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
        for statement in LAYOUT.split(";"):
            connection.execute(statement)
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
        checks: dict[str, str] = {}
        rows: dict[str, tuple[Any, ...]] = {}
        for values in _records(_pages(path)):
            if len(values) == len(("key", "digest")):
                checks.setdefault(str(values[0]), str(values[1]))
            elif row := _row(values):
                rows.setdefault(row[0], row)
        kept = [row for key, row in rows.items() if checks.get(key) in {None, check_of(row)}]
        if not kept:
            raise EngineError(f"{path} has no reply that can be read: move it away to start anew")
        with aside(path) as new:
            with closing(sqlite3.connect(new)) as connection:
                connection.executescript(LAYOUT)
                holes = ",".join("?" * len(COLUMNS))
                connection.executemany(f"INSERT INTO replies VALUES ({holes})", kept)  # noqa: S608
                known = [(row[0], checks[row[0]]) for row in kept if row[0] in checks]
                connection.executemany("INSERT INTO checks VALUES (?, ?)", known)
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


def _row(values: Sequence[Any]) -> tuple[Any, ...]:
    """Values as a row of ``COLUMNS``; empty where they are none."""
    if len(values) not in {len(COLUMNS), len(_REQUIRED)}:
        return ()
    row = [*values, *([None] * (len(COLUMNS) - len(values)))]
    for place, (name, kind) in enumerate(CHAT_REPLIES.schema.items()):
        wanted = _PYTHON[kind]
        if wanted is float and isinstance(row[place], int):  # SQLite stores 2.0 as 2
            row[place] = float(row[place])
        if not (isinstance(row[place], wanted) or (name not in _REQUIRED and row[place] is None)):
            return ()
    return tuple(row)


# SQLite's file format: https://www.sqlite.org/fileformat2.html


def _pages(path: Path) -> dict[int, memoryview]:
    """Every page by number, as far as the file goes, and those of its write-ahead log."""
    with path.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pages = {
        start // _PAGE + 1: whole[start : start + _PAGE] for start in range(0, len(whole), _PAGE)
    }
    log = path.with_name(f"{path.name}-wal")
    frames = memoryview(log.read_bytes() if log.is_file() else b"")
    for start in range(_WAL_HEADER, len(frames) - _FRAME_HEADER, _FRAME_HEADER + _PAGE):
        if frames[start + 8 : start + 16] == frames[16:24]:  # salts: else of an earlier log
            content = start + _FRAME_HEADER
            pages[int.from_bytes(frames[start : start + 4])] = frames[content : content + _PAGE]
    return pages


def _records(pages: Mapping[int, memoryview]) -> Iterator[list[Any]]:
    """The values of every row in the leaves of tables; rows that cannot be read are left out."""
    for page in pages.values():
        if page[:1] == bytes([_LEAF]):
            for place in range(8, 8 + 2 * int.from_bytes(page[3:5]), 2):
                with suppress(IndexError, KeyError, ValueError, struct.error):
                    yield _values(_payload(page, int.from_bytes(page[place : place + 2]), pages))


def _payload(page: memoryview, at: int, pages: Mapping[int, memoryview]) -> bytes:
    """A row's bytes, which go on in overflow pages where they are many."""
    size, at = _varint(page, at)
    _, at = _varint(page, at)  # the row's number
    most, least = _PAGE - 35, (_PAGE - 12) * 32 // 255 - 23
    local = least + (size - least) % (_PAGE - 4)
    local = size if size <= most else local if local <= most else least
    parts, left = [page[at : at + local]], size - local
    following = page[at + local : at + local + 4]
    while left > 0:
        overflow = pages[int.from_bytes(following)]
        following, part = overflow[:4], overflow[4 : 4 + left]
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _values(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    values: list[Any] = []
    body = end
    while at < end:
        kind, at = _varint(payload, at)
        size = (kind - _FIRST_TEXT) // 2 if kind >= _FIRST_TEXT else _SIZES[kind]
        raw, body = payload[body : body + size], body + size
        if len(raw) < size:
            raise ValueError("the row ends early")
        if kind >= _FIRST_TEXT:
            values.append(raw.decode() if kind % 2 else raw)
        elif kind in _CONSTANTS:
            values.append(_CONSTANTS[kind])
        else:
            number = (
                struct.unpack(">d", raw)[0] if kind == _REAL else int.from_bytes(raw, signed=True)
            )
            values.append(number)
    return values


def _varint(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes of seven bits, and where it ends."""
    number = 0
    for place in range(at, at + 8):
        number = number << 7 | data[place] & 0x7F
        if data[place] >> 7 == 0:
            return number, place + 1
    return number << 8 | data[at + 8], at + 9
