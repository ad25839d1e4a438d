"""Replies on disk: what was answered, and paid for, once is never asked again.

Takes replies under keys, gives them back; one SQLite file in WAL mode, shared by any number
of processes. The first reply written under a key stays. Replies are written by one thread,
``BATCH_ROWS`` at a time or after ``BATCH_S`` seconds, in one transaction each, and
``flush`` returns when all of them are written. So a process that is killed loses at most
its last batch, and a batch of requests is handed back only when its replies are on disk.
A crash of the machine may lose the last transactions, never the file. A stored row that
cannot be read is as good as none: the next reply under its key takes its place.

Left out deliberately: prompts (a key is their digest; they would be most of the file),
expiry, and failures, which no caller may store.
"""

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from decomposerl.chat import ChatReply, ChatRequest, FinishReason, Template, Token
from decomposerl.errors import EngineError

if TYPE_CHECKING:
    import polars as pl

BATCH_ROWS = 64
BATCH_S = 0.25
_LOCK_WAIT_S = 60.0
_ASKED_AT_ONCE = 500
_COLUMNS = (
    "key, model, revision, template, template_digest, text, finish_reason, reported_model, "
    "prompt_tokens, completion_tokens, latency_s, tokens"
)
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, template TEXT NOT NULL,
  template_digest TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT NOT NULL,
  reported_model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, latency_s REAL NOT NULL, tokens TEXT
)"""
# A second reply changes nothing, unless it replaces the very text that its writer rejected,
# which may be no text at all.
_WRITE = f"""
INSERT INTO replies ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (key) DO UPDATE SET
  text = excluded.text, finish_reason = excluded.finish_reason,
  reported_model = excluded.reported_model, prompt_tokens = excluded.prompt_tokens,
  completion_tokens = excluded.completion_tokens, latency_s = excluded.latency_s,
  tokens = excluded.tokens
WHERE CAST(replies.text AS BLOB) IS ?"""  # noqa: S608 - the columns are this module's
_READ = """
SELECT key, text, finish_reason, reported_model, prompt_tokens, completion_tokens, latency_s,
  tokens FROM replies WHERE key IN ({})"""


class ChatCacheError(EngineError):
    """The cache file cannot be read or written; a full disk, most often."""


def key_of(request: ChatRequest, model: str, revision: str) -> str:
    """64 hex digits of SHA-256 over the request's canonical text."""
    text = request.canonical(model, revision)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """A reply to be stored. ``replaces`` is a stored text that turned out to be unusable."""

    key: str
    reply: ChatReply
    template: Template
    replaces: str | None = None


class ChatCache:
    """The replies of one model revision in a file that may hold many."""

    def __init__(self, path: Path, model: str, revision: str = "") -> None:
        """The file and its folder are made where they are missing.

        Raises:
            ChatCacheError: the file is not a chat cache, or cannot be opened.
        """
        self._path, self._model, self._revision = path, model, revision
        self._pending: dict[str, Entry] = {}
        self._changed = threading.Condition()
        self._reading = threading.Lock()
        self._closed, self._flushing = False, 0
        self._broken: Exception | None = None
        self._outvoted: set[str] = set()
        self._damaged: dict[str, bytes | None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._reader = _opened(path)
            self._reader.text_factory = bytes  # a text that is not UTF-8 spoils its row alone
        except (sqlite3.Error, OSError) as error:
            raise ChatCacheError(f"{path} cannot be used as a chat cache: {error}") from error
        self._writer = threading.Thread(target=self._write_on, name="chat-cache", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        """The cache itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left and close."""
        self.close()

    def get(self, keys: Sequence[str]) -> dict[str, ChatReply]:
        """The replies there are, by key, marked ``cached``."""
        with self._changed:
            found = {key: _cached(self._pending[key].reply) for key in keys if key in self._pending}
        rest = [key for key in keys if key not in found]
        for start in range(0, len(rest), _ASKED_AT_ONCE):
            found.update(self._read(rest[start : start + _ASKED_AT_ONCE]))
        return found

    def put(self, entry: Entry) -> None:
        """Store a reply soon; the first one under a key stays, unless ``replaces`` names it.

        Raises:
            ChatCacheError: an earlier reply could not be written.
        """
        with self._changed:
            self._refuse_where_broken()
            if self._closed:
                raise ChatCacheError(f"{self._path} was closed")
            if entry.key not in self._pending or entry.replaces is not None:
                self._pending[entry.key] = entry
            if len(self._pending) in {1, BATCH_ROWS}:
                self._changed.notify_all()

    def flush(self) -> dict[str, ChatReply]:
        """Return when all is on disk, with the replies that others had stored earlier.

        Raises:
            ChatCacheError: a reply could not be written.
        """
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._pending or self._broken is not None)
            self._flushing -= 1
            self._refuse_where_broken()
            outvoted, self._outvoted = list(self._outvoted), set()
        return self.get(outvoted)

    def close(self) -> None:
        """Write what is left and close the file; a second time does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._writer.join()
        self._reader.close()

    def frame(self) -> "pl.DataFrame":
        """Every stored reply, all models and revisions, as a ``schemas.CHAT_REPLIES``."""
        from resources.chat.export import replies_in

        self.flush()
        return replies_in(self._path)

    def _read(self, keys: Sequence[str]) -> Iterator[tuple[str, ChatReply]]:
        query = _READ.format(",".join("?" * len(keys)))
        try:
            with self._reading:
                rows = self._reader.execute(query, keys).fetchall()
        except sqlite3.Error as error:
            raise ChatCacheError(f"{self._path} cannot be read: {error}") from error
        for row in rows:
            key = bytes(row[0]).decode()
            try:
                yield key, _reply(row)
            except (ValueError, TypeError, AttributeError, RecursionError):
                self._damaged[key] = row[1]

    def _refuse_where_broken(self) -> None:
        if self._broken is not None:
            text = f"replies cannot be stored in {self._path}: {self._broken}"
            raise ChatCacheError(text) from self._broken

    def _write_on(self) -> None:
        """The writer's thread: one transaction a batch, until closed and nothing is left."""
        try:
            with closing(_opened(self._path)) as connection:
                while batch := self._next_batch():
                    outvoted = _written(connection, [self._row(entry) for entry in batch])
                    self._forget(batch, outvoted)
        except Exception as error:  # noqa: BLE001 - told to whoever stores or flushes next
            with self._changed:
                self._broken = error
                self._changed.notify_all()

    def _next_batch(self) -> list[Entry]:
        """Wait for entries, then a little for more of them; empty when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed)
            until = time.monotonic() + BATCH_S
            while not self._flushing and not self._closed and len(self._pending) < BATCH_ROWS:
                if not self._changed.wait(until - time.monotonic()):
                    break
            return list(self._pending.values())

    def _forget(self, batch: Sequence[Entry], outvoted: set[str]) -> None:
        with self._changed:
            for entry in batch:
                if self._pending.get(entry.key) is entry:
                    del self._pending[entry.key]
            self._outvoted |= outvoted
            self._changed.notify_all()

    def _row(self, entry: Entry) -> tuple[Any, ...]:
        reply, template = entry.reply, entry.template
        tokens = json.dumps([astuple(token) for token in reply.tokens]) if reply.tokens else None
        replaced = self._damaged.get(entry.key)
        if entry.replaces is not None:
            replaced = entry.replaces.encode()
        return (
            *(entry.key, self._model, self._revision, template.name, template.digest),
            *(reply.text, reply.finish_reason, reply.model, reply.prompt_tokens),
            *(reply.completion_tokens, reply.latency_s, tokens, replaced),
        )


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False
    )
    with suppress(sqlite3.OperationalError):  # another process switches at this very moment
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_TABLE)
    return connection


def _written(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> set[str]:
    """Write the rows in one transaction; the keys that were there already."""
    connection.execute("BEGIN IMMEDIATE")
    kept = {row[0] for row in rows if not connection.execute(_WRITE, row).rowcount}
    connection.execute("COMMIT")
    return kept


def _reply(row: tuple[Any, ...]) -> ChatReply:
    """The reply of a row, whose texts are bytes.

    Raises:
        ValueError, TypeError, AttributeError, RecursionError: something of it cannot be read.
    """
    text, finish, model = (part.decode() for part in row[1:4])
    if finish not in get_args(FinishReason):
        raise ValueError(f"no reply ends by {finish!r}")
    tokens = json.loads(row[7]) if row[7] else ()
    return ChatReply(
        text=text,
        finish_reason=finish,
        model=model,
        prompt_tokens=int(row[4]),
        completion_tokens=int(row[5]),
        latency_s=float(row[6]),
        cached=True,
        tokens=tuple(
            Token(_checked(text), float(logprob), tuple((_checked(t), float(p)) for t, p in others))
            for text, logprob, others in tokens
        ),
    )


def _checked(text: str) -> str:
    text.encode()  # half a surrogate pair is a ValueError
    return text


def _cached(reply: ChatReply) -> ChatReply:
    return ChatReply(
        reply.text,
        reply.finish_reason,
        reply.model,
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.latency_s,
        cached=True,
        tokens=reply.tokens,
    )
