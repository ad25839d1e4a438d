"""Content-keyed store of chat replies: what was answered and paid for is never asked again.

One SQLite file in WAL mode, shared by any number of processes. The first reply under a key
stays. Each reply is a transaction of its own: when ``put`` returns, a killed process has lost
nothing, and a crash of the machine may lose the last transactions, never the file. The next reply
under the key of an unreadable row replaces it. Prompts and failures are not stored.

It is not in Parquet shards, as other results are, because replies arrive a few at a time:
with batches of 64, shards were 14 to 18 times slower to write, and 2 to 8 times slower to look up.
"""

import json
import sqlite3
import threading
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from decomposerl.chat import ChatReply, FinishReason, Template, Token
from decomposerl.errors import EngineError
from resources.store import chat_replies

REPLIES_FILE = "chat_cache.sqlite"
_READ = "SELECT * FROM replies WHERE key IN (SELECT value FROM json_each(?))"
# A second reply changes nothing, unless it replaces exactly the text that its writer rejected,
# which may be NULL.
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in (*chat_replies.COLUMNS[1:], "digest"))
_WRITE = (
    f"{chat_replies.INSERT} ON CONFLICT (key) DO UPDATE SET {_CHANGED} "
    "WHERE CAST(replies.text AS BLOB) IS ?"
)
_TEXT = chat_replies.COLUMNS.index("text")
# The first fields of a reply, in their order, which is also that of the columns from ``text`` on.
_FIELDS = attrgetter(*list(ChatReply.__dataclass_fields__)[: len(chat_replies.COLUMNS) - 1 - _TEXT])


class ReplyStore(AbstractContextManager["ReplyStore"]):
    """The replies of one model revision, in a file that may hold those of many."""

    def __init__(self, path: Path, model: str, revision: str = "") -> None:
        """The file and its folder are created if missing.

        Raises:
            EngineError: the file is no store of replies, or cannot be opened.
        """
        self.path = path
        """The file."""
        self._model, self._revision = model, revision
        self._damaged: dict[str, bytes | None] = {}
        self._closed = False
        # Writing may wait for another process: reading does not wait for it.
        self._reading, self._writing = threading.Lock(), threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._reader = chat_replies.open_replies(path)
            self._reader.text_factory = bytes  # invalid UTF-8 then affects only its own row
            self._writer = chat_replies.open_replies(path)
        except (sqlite3.Error, OSError, EngineError) as error:
            raise EngineError(chat_replies.what_to_do(path, error)) from error

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def get(self, keys: Sequence[str]) -> dict[str, ChatReply[None]]:
        """The stored replies by key, marked ``cached``; missing keys are left out.

        Raises:
            EngineError: the file cannot be read.
        """
        replies, wanted = dict[str, ChatReply[None]](), set(keys)
        try:
            with self._reading:
                rows = self._reader.execute(_READ, [json.dumps(list(keys))]).fetchall()
        except sqlite3.Error as error:
            raise EngineError(chat_replies.what_to_do(self.path, error)) from error
        for row in rows:
            key = bytes(row[0]).decode("utf-8", "replace")
            if key not in wanted:  # the index led to another row
                raise EngineError(chat_replies.mark_damaged(self.path))
            try:
                replies[key] = _reply(row)
            except (ValueError, TypeError, RecursionError):
                self._damaged[key] = row[_TEXT]
                text = f"a reply in {self.path} is damaged and asked again: {key}"
                warnings.warn(text, chat_replies.DamagedReplyWarning, stacklevel=2)
        return replies

    def put(
        self, key: str, reply: ChatReply[Any], template: Template, replaces: str | None = None
    ) -> bool:
        """Store a reply; false where another one is stored under its key, which then stays.

        ``replaces`` is a stored text that turned out to be unusable: that one does not stay.

        Raises:
            EngineError: the reply cannot be written, or the store was closed.
        """
        tokens = json.dumps([astuple(token) for token in reply.tokens]) if reply.tokens else None
        origin = (key, self._model, self._revision, template.name, template.digest)
        row = (*origin, *_FIELDS(reply), tokens)
        rejected = self._damaged.get(key) if replaces is None else replaces.encode()
        with self._writing:
            if self._closed:
                raise EngineError(f"{self.path} was closed")
            try:
                written = self._writer.execute(
                    _WRITE, (*row, chat_replies.digest_of(row), rejected)
                )
            except sqlite3.Error as error:
                raise EngineError(chat_replies.what_to_do(self.path, error)) from error
            return written.rowcount > 0

    def close(self) -> None:
        """Close the file, after what is being written; idempotent."""
        with self._writing, self._reading:
            if not self._closed:
                self._closed = True
                self._reader.close()
                self._writer.close()


def _reply(stored: Sequence[Any]) -> ChatReply[None]:
    """The reply in a row, whose texts are bytes.

    Raises:
        ValueError, TypeError, RecursionError: a column is damaged.
    """
    row: tuple[Any, ...] = tuple(
        value.decode() if isinstance(value, bytes) else value for value in stored
    )
    *fields, listed, _ = row[_TEXT:]
    if not chat_replies.is_whole(row) or fields[1] not in get_args(FinishReason):
        raise ValueError(f"damaged, or of an unknown finish reason {fields[1]!r}")
    tokens = tuple(
        Token(text, float(logprob), tuple((other, float(number)) for other, number in others))
        for text, logprob, others in (json.loads(listed) if listed else ())
    )
    return replace(ChatReply(*fields), cached=True, tokens=tokens)
