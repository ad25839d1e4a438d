"""The page database while it is built: ``<target>.partial``.

A transaction holds rows and the note of the dump's members that gave them, so after a kill both
are there or neither. ``build`` keeps what the database was made from; ``build_members`` is dropped
at the end. Nothing here reads a dump.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from decomposerl.claims.page_dumps import PageSet, Row, title_key
from decomposerl.errors import ConfigError, SourceError, SourceFileError
from decomposerl.progress import bar
from resources.store.temporary import flush

_CACHE_KIB = 65_536
_GB = 1_000_000_000
_NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_IOERR")
_TABLES = (
    "build (key PRIMARY KEY, value)",
    """build_members (number INTEGER PRIMARY KEY, name, size, crc, position, lines, pages, repeated,
    unreadable)""",
)


@dataclass(slots=True)
class MemberNote:
    """A member of the dump that is done: ``position`` is the bytes of the dump up to its end.

    ``rows`` were offered, ``unreadable`` lines were not; ``why`` is the first one's fault.
    """

    name: str
    size: int
    crc: int = 0
    position: int = 0
    lines: int = 0
    rows: int = 0
    unreadable: int = 0
    why: str = ""


class PartialPages:
    """The unfinished database; ``done`` members, ``lines`` and ``position`` are of all calls."""

    def __init__(self, path: Path, pages: PageSet, wanted: str, dump_bytes: int) -> None:
        """Open it, undoing what a killed process left half written.

        Raises:
            ConfigError: it was begun with another ``wanted``.
            SourceFileError: it is damaged.
        """
        self.path, self.pages, self._dump_bytes = path, pages, dump_bytes
        self.table = pages.table.partition("(")[0]
        self._connection = sqlite3.connect(path, isolation_level=None)
        try:
            with self.explained():
                self._prepare(wanted)
                sums = "count(*), max(position), sum(lines), sum(unreadable)"
                notes = f"SELECT {sums} FROM build_members"  # noqa: S608 - constants
                found = [0] * 4 if self.finished else self._one(notes)
        except BaseException:
            self._connection.close()
            raise
        self.done, self.position, self.lines, self.unreadable = (one or 0 for one in found)
        self._began, self._size = time.monotonic(), self._bytes()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; a transaction that is open is undone."""
        self._connection.close()

    @property
    def finished(self) -> bool:
        """Whether all rows are in."""
        return bool(self.state("pages"))

    def state(self, key: str) -> Any:  # noqa: ANN401 - a text or a number
        """A note in ``build``; empty where there is none."""
        row = self._one("SELECT value FROM build WHERE key = ?", key)
        return "" if row is None else row[0]

    def notes(self) -> Iterator[tuple[str, int, int]]:
        """Name, size and checksum of each member that is done, in order."""
        query = "SELECT name, size, crc FROM build_members ORDER BY number"
        yield from self._connection.execute(query).fetchall()

    def add(self, rows: Iterable[Row], note: MemberNote) -> None:
        """Write the rows of one member, which fill in its ``note`` as they are taken.

        The first row of an id stays.
        """
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
            self._began = time.monotonic()
        before = self._connection.total_changes
        self._connection.executemany(self.pages.insert, rows)
        added = self._connection.total_changes - before
        self._connection.execute(
            "INSERT INTO build_members VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(note.name, note.size, note.crc, note.position),
                *(note.lines, added, note.rows - added, note.unreadable),
            ),
        )
        self.lines, self.unreadable = self.lines + note.lines, self.unreadable + note.unreadable
        self.position, self._size = note.position, self._bytes()

    def commit(self, every_s: float = 0.0) -> None:
        """Keep what was added, if the transaction is at least this old."""
        if self._connection.in_transaction and time.monotonic() - self._began >= every_s:
            self._connection.execute("COMMIT")

    def finish(self, dump: str) -> int:
        """Note the totals and drop the notes of the members; the number of pages."""
        self.commit()
        count, repeated = self._one("SELECT sum(pages), sum(repeated) FROM build_members")
        if count:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DROP TABLE build_members")
            self._note(dump=dump, pages=count, repeated=repeated, unreadable=self.unreadable)
            self._connection.execute("COMMIT")
        return int(count or 0)

    def check(self) -> None:
        """SQLite's integrity check, and as many rows as were counted.

        Raises:
            SourceFileError: the database is damaged.
        """
        with bar("checking the database", 1, "files"):
            fault = integrity_fault(self._connection)
            rows, counted = self._one(f"SELECT count(*) FROM {self.table}")[0], self.state("pages")  # noqa: S608 - of the layouts
        if fault or rows != counted:
            why = fault or f"{rows} rows instead of {counted}"
            raise SourceFileError(f"{self.path} is damaged: {why}; delete it to begin again")

    def title_keys(self) -> set[str]:
        """The keys of all pages."""
        rows = self._connection.execute(f"SELECT id FROM {self.table}")  # noqa: S608 - as above
        return {title_key(row[0]) for row in rows}

    @contextmanager
    def explained(self) -> Iterator[None]:
        """A failure of the database in the block as an error that says what to do.

        Raises:
            SourceError: the disk is full; how much the database needs is an estimate from the
                share of the dump that was read.
            SourceFileError: the database is damaged.
        """
        try:
            yield
        except sqlite3.Error as error:
            name: str = getattr(error, "sqlite_errorname", "")
            if not name.startswith(_NOT_WRITTEN):
                why = f"{self.path}: {error}; delete it to begin again"
                raise SourceFileError(why) from error
            whole = needed_bytes(self.pages, self._dump_bytes)
            if self.position:
                whole = self._size * self._dump_bytes // self.position
            raise no_room(self.path, whole, error) from error

    def _prepare(self, wanted: str) -> None:
        for setting in ("synchronous=NORMAL", f"cache_size=-{_CACHE_KIB}"):
            self._connection.execute(f"PRAGMA {setting}")
        if self._one("SELECT name FROM sqlite_master WHERE name = 'build'") is None:
            self._connection.execute("BEGIN IMMEDIATE")
            for table in (*_TABLES, self.pages.table):
                self._connection.execute(f"CREATE TABLE {table}")
            self._note(set=self.pages.name, wanted=wanted)
            self._connection.execute("COMMIT")
        if (self.state("set"), self.state("wanted")) != (self.pages.name, wanted):
            raise ConfigError(
                f"{self.path} was begun for other pages (--only-needed or the claims have "
                "changed); delete it to begin again"
            )

    def _bytes(self) -> int:
        """The size with what is still in memory."""
        return int(self._one("PRAGMA page_count")[0] * self._one("PRAGMA page_size")[0])

    def _note(self, **values: object) -> None:
        insert = "INSERT OR REPLACE INTO build VALUES (?, ?)"
        self._connection.executemany(insert, values.items())

    def _one(self, query: str, *values: object) -> Any:  # noqa: ANN401 - a row or None
        return self._connection.execute(query, values).fetchone()


def integrity_fault(connection: sqlite3.Connection) -> str:
    """What SQLite's integrity check finds first; empty where the database is whole."""
    found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if found == "ok" else found


def needed_bytes(pages: PageSet, dump_bytes: int) -> int:
    """About the size of all pages of a dump, from the published sizes."""
    return dump_bytes * pages.dumps[0].database // pages.dumps[0].size


def no_room(path: Path, whole: int, error: Exception) -> SourceError:
    """That ``path``, which needs ``whole`` bytes, cannot be written."""
    written, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    whole = max(whole, written)
    return SourceError(
        f"{path} cannot be written ({error}; {megabytes(free)} free on the disk): the database "
        f"needs about {megabytes(whole)}, of which {megabytes(written)} are written; make room for "
        f"about {megabytes(whole - written)} and run the same command again"
    )


def publish(partial: Path, target: Path) -> None:
    """Flush the file and rename it."""
    flush(partial)
    partial.replace(target)
    flush(target.parent)


def megabytes(size: int) -> str:
    """A size in words: ``2.2 GB``, ``35.0 MB``."""
    return f"{size / _GB:,.1f} GB" if size >= _GB else f"{size / 1e6:,.1f} MB"
