"""The SQLite file of ``resources.chat.reply_store`` as a table, for an asset and for reports."""

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

from decomposerl.errors import EngineError
from decomposerl.schemas import CHAT_REPLIES

_TYPES = {pl.String(): "text", pl.Int64(): "integer", pl.Float64(): "real"}  # as SQLite has them
_REQUIRED = {name: kind for name, kind in CHAT_REPLIES.schema.items() if name != "tokens"}
_WHOLE = " AND ".join(f"typeof({name}) = '{_TYPES[kind]}'" for name, kind in _REQUIRED.items())
_QUERY = f"SELECT {', '.join(CHAT_REPLIES.schema)} FROM replies WHERE {_WHOLE} ORDER BY key"  # noqa: S608 - the columns are ours


def replies_in(path: Path) -> pl.DataFrame:
    """Every reply of all models and revisions, ordered by key; no row where there is no file.

    A damaged row is left out, or shown with replacement characters for what is not UTF-8.

    Raises:
        EngineError: the file is not a chat cache.
    """
    if not path.is_file():
        return CHAT_REPLIES.empty()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = connection.execute(_QUERY).fetchall()
    except sqlite3.Error as error:
        raise EngineError(f"{path} cannot be read as a chat cache: {error}") from error
    return pl.DataFrame(rows, schema=CHAT_REPLIES.schema, orient="row")
