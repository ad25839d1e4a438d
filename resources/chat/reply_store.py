"""Content-keyed store of chat replies: what was answered and paid for is never asked again.

One SQLite file in WAL mode, shared by any number of processes. The first reply under a key
stays. A thread writes each reply soon, with all that came meanwhile in one transaction, and
``flush`` returns when all are on disk; a killed process loses those of its last moment. A crash of
the machine may lose the last transactions, never the file. The next reply under the key of an
unreadable row replaces it. Prompts and failures are not stored.

It is not in Parquet shards, as other results are, because replies arrive a few at a time:
with flushed batches of 64, shards were 14 to 18 times slower to write, and 2 to 8 times
slower to look up.
"""

import json
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args

from decomposerl.chat import ChatReply, FinishReason, Template, Token
from decomposerl.errors import EngineError
from resources.store.chat_replies import (
    COLUMNS,
    INSERT,
    DamagedReplyWarning,
    digest_of,
    is_whole,
    mark_damaged,
    open_replies,
    what_to_do,
)

REPLIES_FILE = "chat_cache.sqlite"
_KEYS_PER_QUERY = 500
# A second reply changes nothing, unless it replaces exactly the text that its writer rejected,
# which may be NULL.
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in (*COLUMNS[1:], "digest"))
_WRITE = (
    f"{INSERT} ON CONFLICT (key) DO UPDATE SET {_CHANGED} WHERE CAST(replies.text AS BLOB) IS ?"
)
_TEXT = COLUMNS.index("text")


class ReplyStoreError(EngineError):
    """The file of replies cannot be read or written; a full disk, most often."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply to store. ``replaces`` is a stored text that turned out to be unusable."""

    key: str
    reply: ChatReply[Any]
    template: Template
    replaces: str | None = None


class ReplyStore:
    """The replies of one model revision, in a file that may hold those of many."""

    def __init__(self, path: Path, model: str, revision: str = "") -> None:
        """The file and its folder are created if missing.

        Raises:
            ReplyStoreError: the file is no store of replies, or cannot be opened.
        """
        self.path = path
        """The file."""
        self._model, self._revision = model, revision
        self._pending: dict[str, StoredReply] = {}
        self._superseded: set[str] = set()
        self._damaged: dict[str, bytes | None] = {}
        self._closed = False
        self._broken: Exception | None = None
        # Writing may wait for another process: neither it nor reading holds up the other.
        self._changing, self._reading, self._writing = (threading.Lock() for _ in range(3))
        self._background = ThreadPoolExecutor(1, "chat-cache")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._reader = open_replies(path)
            self._reader.text_factory = bytes  # invalid UTF-8 then affects only its own row
            self._writer = open_replies(path)
        except (sqlite3.Error, OSError, EngineError) as error:
            raise ReplyStoreError(what_to_do(path, error)) from error

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def get(self, keys: Sequence[str]) -> dict[str, ChatReply[None]]:
        """The stored replies by key, marked ``cached``; missing keys are left out."""
        with self._changing:
            waiting = [self._pending[key] for key in keys if key in self._pending]
        replies = {entry.key: replace(entry.reply, cached=True, value=None) for entry in waiting}
        # What is stored goes before what waits, unless that is to replace it.
        replaced = {entry.key for entry in waiting if entry.replaces is not None}
        rest = [key for key in keys if key not in replaced]
        for start in range(0, len(rest), _KEYS_PER_QUERY):
            replies.update(self._read(rest[start : start + _KEYS_PER_QUERY]))
        return replies

    def put(self, entry: StoredReply) -> None:
        """Store a reply soon; the first one under a key stays unless ``replaces`` is its text.

        Raises:
            ReplyStoreError: an earlier reply could not be written.
        """
        with self._changing:
            self._refuse_where_broken()
            if self._closed:
                raise ReplyStoreError(f"{self.path} was closed")
            if entry.key not in self._pending or entry.replaces is not None:
                self._pending[entry.key] = entry
            self._background.submit(self._write_pending)

    def flush(self) -> dict[str, ChatReply[None]]:
        """Return when all is on disk, with the replies that others had stored first.

        Raises:
            ReplyStoreError: a reply could not be written.
        """
        self._write_pending()
        self._refuse_where_broken()
        with self._changing:
            superseded, self._superseded = list(self._superseded), set()
        return self.get(superseded)

    def close(self) -> None:
        """Write what is left and close the file; idempotent."""
        with self._changing:
            closed, self._closed = self._closed, True
        if not closed:
            self._background.shutdown()
            self._reader.close()
            self._writer.close()

    def _read(self, keys: Sequence[str]) -> Iterator[tuple[str, ChatReply[None]]]:
        query = f"SELECT * FROM replies WHERE key IN ({','.join('?' * len(keys))})"  # noqa: S608
        try:
            with self._reading:
                rows = self._reader.execute(query, keys).fetchall()
        except sqlite3.Error as error:
            raise ReplyStoreError(what_to_do(self.path, error)) from error
        for row in rows:
            key = bytes(row[0]).decode("utf-8", "replace")
            if key not in keys:  # the index led to another row
                raise ReplyStoreError(mark_damaged(self.path))
            try:
                reply = _reply(row)
            except (ValueError, TypeError, RecursionError):
                self._damaged[key] = row[_TEXT]
                text = f"a reply in {self.path} is damaged and asked again: {key}"
                warnings.warn(text, DamagedReplyWarning, stacklevel=2)
            else:
                yield key, reply

    def _refuse_where_broken(self) -> None:
        if self._broken is not None:
            raise ReplyStoreError(what_to_do(self.path, self._broken)) from self._broken

    def _write_pending(self) -> None:
        """Write what is pending in one transaction; an error is raised by the next use."""
        with self._writing:
            with self._changing:
                batch = list(self._pending.values())
            if not batch or self._broken is not None:
                return
            try:
                superseded = _write(self._writer, [self._row(entry) for entry in batch])
            except Exception as error:  # noqa: BLE001 - raised by the next ``put`` or ``flush``
                self._broken = error
                return
            with self._changing:
                self._superseded |= superseded
                for entry in batch:
                    if self._pending.get(entry.key) is entry:
                        del self._pending[entry.key]

    def _row(self, entry: StoredReply) -> tuple[Any, ...]:
        reply, template = entry.reply, entry.template
        tokens = json.dumps([astuple(token) for token in reply.tokens]) if reply.tokens else None
        replaced = self._damaged.get(entry.key)
        if entry.replaces is not None:
            replaced = entry.replaces.encode()
        row = (
            *(entry.key, self._model, self._revision, template.name, template.digest),
            *(reply.text, reply.finish_reason, reply.model, reply.prompt_tokens),
            *(reply.completion_tokens, reply.latency_s, tokens),
        )
        return *row, digest_of(row), replaced


def _write(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> set[str]:
    """Write the rows in one transaction; returns the keys that were stored before."""
    connection.execute("BEGIN IMMEDIATE")
    kept = {row[0] for row in rows if not connection.execute(_WRITE, row).rowcount}
    connection.execute("COMMIT")
    return kept


def _reply(stored: Sequence[Any]) -> ChatReply[None]:
    """The reply in a row, whose texts are bytes.

    Raises:
        ValueError, TypeError, RecursionError: a column is damaged.
    """
    row: tuple[Any, ...] = tuple(
        value.decode() if isinstance(value, bytes) else value for value in stored
    )
    text, finish, model, prompt_tokens, completion_tokens, latency_s, listed, _ = row[_TEXT:]
    if not is_whole(row) or finish not in get_args(FinishReason):
        raise ValueError(f"damaged, or of an unknown finish reason {finish!r}")
    return ChatReply(
        text=text,
        finish_reason=finish,
        model=model,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        latency_s=latency_s,
        cached=True,
        tokens=tuple(
            Token(_checked(text), float(logprob), tuple((_checked(t), float(p)) for t, p in others))
            for text, logprob, others in (json.loads(listed) if listed else ())
        ),
    )


def _checked(text: str) -> str:
    text.encode()  # a lone surrogate raises ValueError
    return text
