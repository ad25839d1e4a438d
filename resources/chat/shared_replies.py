"""The replies of a chat cache as a table, and their exchange between machines that have one bucket.

The cache is an SQLite file, which object storage cannot hold. So each machine has its own, and in a
data folder that mirrors a bucket its new replies are stored as Parquet objects, which other
machines add to theirs when they open it. What a killed process did not send, the next one sends.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import polars as pl

from decomposerl.errors import EngineError
from decomposerl.schemas import CHAT_REPLIES
from resources.store.mirror import mirror_of, pull
from resources.store.temporary import replace_file

FOLDER = "chat_replies"
_COLUMNS = ", ".join(CHAT_REPLIES.schema)
_TYPES = {pl.String(): "text", pl.Int64(): "integer", pl.Float64(): "real"}  # as SQLite has them
_REQUIRED = {name: kind for name, kind in CHAT_REPLIES.schema.items() if name != "tokens"}
_WHOLE = " AND ".join(f"typeof({name}) = '{_TYPES[kind]}'" for name, kind in _REQUIRED.items())
_QUERY = f"SELECT {_COLUMNS} FROM replies WHERE {_WHOLE} AND {{}} ORDER BY key"  # noqa: S608 - ours
_ADD = f"INSERT OR IGNORE INTO replies ({_COLUMNS}) VALUES ({', '.join('?' * len(CHAT_REPLIES.schema))})"  # noqa: S608, E501 - ours
TABLE = """
CREATE TABLE IF NOT EXISTS replies (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, template TEXT NOT NULL,
  template_digest TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT NOT NULL,
  reported_model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, latency_s REAL NOT NULL, tokens TEXT
)"""
_SHARED = f"""{TABLE};
CREATE TABLE IF NOT EXISTS shared_keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS shared_files (name TEXT PRIMARY KEY);
"""
_WAIT_S = 60.0


def replies_in(path: Path) -> pl.DataFrame:
    """Every reply of all models and revisions, ordered by key; no row where there is no file.

    A damaged row is left out, or shown with replacement characters for what is not UTF-8.

    Raises:
        EngineError: the file is not a chat cache.
        StorageError: the replies of other machines cannot be read.
    """
    SharedReplies(path).receive()
    if not path.is_file():
        return CHAT_REPLIES.empty()
    with _reading(path):
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return _replies(connection)


class SharedReplies:
    """The exchange of one cache; it does nothing outside a mirror of a bucket."""

    def __init__(self, file: Path) -> None:
        """``file`` is the cache."""
        self._file, self._mirrored = file, mirror_of(file) is not None
        self._sent = time.monotonic()

    def receive(self) -> None:
        """Add the replies that other machines have stored since the last time.

        Raises:
            EngineError: the file is not a chat cache.
            StorageError: the bucket cannot be read.
        """
        if not self._mirrored:
            return
        folder = pull(self._file.parent, f"{FOLDER}/*.parquet") / FOLDER
        with _reading(self._file), self._opened() as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM shared_files")}
            for path in sorted(folder.glob("*.parquet")):
                if path.name not in known:
                    frame = CHAT_REPLIES.conform(pl.read_parquet(path))
                    connection.executemany(_ADD, frame.iter_rows())
                    _note(connection, path.name, frame)

    def send(self, *, every_s: float = 0.0) -> None:
        """Store the replies that no other machine can have yet, at most every ``every_s`` seconds.

        Raises:
            EngineError: the file is not a chat cache.
            StorageError: they cannot be stored.
        """
        if not self._mirrored or time.monotonic() - self._sent < every_s:
            return
        self._sent = time.monotonic()
        with _reading(self._file), self._opened() as connection:
            new = _replies(connection, "key NOT IN (SELECT key FROM shared_keys)")
        if new.is_empty():
            return
        name = f"{sha256(''.join(new['key']).encode()).hexdigest()[:16]}.parquet"
        replace_file(self._file.parent / FOLDER / name, new.write_parquet)
        with _reading(self._file), self._opened() as connection:
            _note(connection, name, new)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the cache."""
        with closing(sqlite3.connect(self._file, timeout=_WAIT_S)) as connection, connection:
            connection.executescript(_SHARED)
            yield connection


def _note(connection: sqlite3.Connection, name: str, frame: pl.DataFrame) -> None:
    keys = [(key,) for key in frame["key"]]
    connection.executemany("INSERT OR IGNORE INTO shared_keys VALUES (?)", keys)
    connection.execute("INSERT OR IGNORE INTO shared_files VALUES (?)", (name,))


def _replies(connection: sqlite3.Connection, where: str = "TRUE") -> pl.DataFrame:
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    rows = connection.execute(_QUERY.format(where)).fetchall()
    return pl.DataFrame(rows, schema=CHAT_REPLIES.schema, orient="row")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise EngineError(f"{path} cannot be read as a chat cache: {error}") from error
