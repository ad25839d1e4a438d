"""Stored chat replies as a table: what each model answered, and what it cost.

Reads the file that ``resources.chat.reply_store`` writes, also while it is in use. It holds no
prompts.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.errors import EngineError
from decomposerl.schemas import CHAT_REPLIES
from resources.chat.reply_store import REPLIES_FILE
from resources.store.paths import LocalPath
from resources.store.profile_defaults import ProfileDefaults

_TYPES = {pl.String(): "text", pl.Int64(): "integer", pl.Float64(): "real"}  # as SQLite has them


def replies_in(path: Path) -> pl.DataFrame:
    """Every reply of all models and revisions, ordered by key; no row where there is no file.

    A damaged row is left out, or shown with replacement characters for what is not UTF-8.

    Raises:
        EngineError: the file is not a chat cache.
    """
    if not path.is_file():
        return CHAT_REPLIES.empty()
    columns = ", ".join(CHAT_REPLIES.schema)
    whole = " AND ".join(f"typeof({name}) = '{_TYPES[kind]}'" for name, kind in _required())
    query = f"SELECT {columns} FROM replies WHERE {whole} ORDER BY key"  # noqa: S608 - ours
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows = connection.execute(query).fetchall()
    except sqlite3.Error as error:
        raise EngineError(f"{path} cannot be read as a chat cache: {error}") from error
    return pl.DataFrame(rows, schema=CHAT_REPLIES.schema, orient="row")


def _required() -> Iterator[tuple[str, pl.DataType]]:
    """The columns of which a reply has a value, and their types."""
    return ((name, kind) for name, kind in CHAT_REPLIES.schema.items() if name != "tokens")


class ChatCacheFile(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The replies of a profile's chat clients, for the asset that shows them."""

    results_dir: LocalPath = Field(description="folder of stored engine results")

    def replies(self) -> pl.DataFrame:
        """Every stored reply, as ``replies_in``."""
        return replies_in(Path(self.results_dir) / REPLIES_FILE)
