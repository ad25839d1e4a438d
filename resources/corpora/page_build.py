"""Builds a page database from a public dump in one pass; neither memory nor disk holds the dump.

A dump is a tar or zip archive, plain or compressed, a folder of its files, or one file. Its members
are ``wiki_00.bz2``, ``wiki-001.jsonl`` and the like, each plain, ``.bz2`` or ``.gz``. Rows go into
a temporary file that is renamed when all are in: a build that was ended begins again.
"""

import bz2
import gzip
import io
import re
import shutil
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.claims.page_dumps import PageSet, Row, megabytes, needed_bytes, row_of, title_key
from decomposerl.errors import ConfigError, SourceError, SourceFileError
from decomposerl.progress import Bar, bar
from resources.corpora.pages import MAX_PAGE_BYTES
from resources.corpora.transfer import FULL
from resources.store.run_lock import file_lock, lock_path
from resources.store.temporary import aside, put_in_place

_NAME = re.compile(r"wiki[-_]?\d+(?:\.jsonl)?(?:\.bz2|\.gz)?")
_DATABASE = re.compile(r"(?!\._).*\.db")
_DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, NotImplementedError)
_NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_IOERR")
_MOST_UNREADABLE = 0.05
_MB, _CHUNK, _LINES_A_MOVE = 1_000_000, 1 << 20, 500
# Without a journal: a file that is not whole is never read again.
_BEGIN = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-65536")
_Stream = Any
"""A binary stream of bz2, gzip, tarfile, zipfile or a file."""


@dataclass(frozen=True, slots=True)
class BuiltPages:
    """``pages`` rows are in ``target``, a file of ``size`` bytes.

    ``repeated`` titles were left out (the first page stays), ``unreadable`` lines too. ``needed``
    pages were wanted (None: all); those in ``missing`` are not in the dump.
    """

    target: Path
    dump: str
    pages: int
    size: int
    repeated: int
    unreadable: int
    needed: int | None
    missing: tuple[str, ...]


def build_pages(
    pages: PageSet,
    dump: Path,
    target: Path,
    needed: Mapping[str, str] | None = None,
    *,
    replace: bool = False,
) -> BuiltPages:
    """Build ``target`` from ``dump``; ``needed`` limits it to these pages (``named_pages``).

    Raises:
        ConfigError: the target is there, and it is not to ``replace``.
        SourceFileError: the dump is damaged, or no dump of these pages.
        SourceError: the disk is full; the message says how much is needed.
        DecomposeRLError: another process builds it.
    """
    if target.exists() and not replace:
        raise ConfigError(f"{target} is there already; --replace builds it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(lock_path(target.parent, target.name), str(target)), aside(target) as partial:
        build = _Build(pages, dump, partial, needed)
        with bar(f"{pages.name} pages", build.dump_size // _MB, "MB") as shown:
            try:
                build.run(shown)
                count = build.checked_rows()
            except (*_DAMAGE, OSError, RuntimeError, sqlite3.Error) as error:
                raise build.explained(error) from error
        built = BuiltPages(
            target,
            dump.name,
            count,
            partial.stat().st_size,
            build.repeated,
            build.unreadable,
            None if needed is None else len(needed),
            tuple(sorted(title for key, title in (needed or {}).items() if key not in build.keys)),
        )
        put_in_place(partial, target)
    return built


def dump_bytes(dump: Path) -> int:
    """The bytes of the file, or of all files of the folder."""
    files = dump.rglob("*") if dump.is_dir() else [dump]
    return sum(path.stat().st_size for path in files if path.is_file())


class _Build:
    """One pass over a dump into ``partial``: where it is, and what it has counted."""

    def __init__(
        self, pages: PageSet, dump: Path, partial: Path, needed: Mapping[str, str] | None
    ) -> None:
        self.pages, self.dump, self.partial, self.needed = pages, dump, partial, needed
        self.dump_size = dump_bytes(dump)
        self.lines = self.rows = self.repeated = self.unreadable = 0
        self.keys = set[str]()
        self._member, self._why = "", ""
        self._raw: _Stream = None
        self._before = 0  # bytes of the folder's files that are done
        self._written = (0, 0)  # bytes of the database, and of the dump that they are from

    def run(self, shown: Bar) -> None:
        """Fill ``partial``."""
        with closing(self._members()) as members:
            first = next(members, None)
            if first is not None and self._member.endswith(".db"):
                self._unpack(first)
            else:
                self._fill(chain([first] if first else [], members), shown)
        shown.move(shown.total)

    def explained(self, error: Exception) -> Exception:
        """A damaged dump, or a full disk, as an error that says what to do."""
        code: int | None = getattr(error, "errno", None)
        if code in FULL or getattr(error, "sqlite_errorname", "").startswith(_NOT_WRITTEN):
            written, read = self._written
            whole = needed_bytes(self.pages, self.dump_size)
            whole = written * self.dump_size // read if read else whole
            free = shutil.disk_usage(self.partial.parent).free + self.partial.stat().st_size
            return SourceError(
                f"the database of {self.pages.name} cannot be written ({error}): it needs about "
                f"{megabytes(whole)}, the disk of {self.partial.parent} has {megabytes(free)}; "
                "make room and run the same command again"
            )
        # bz2's error of damaged data has no number; zipfile's of a password is a RuntimeError.
        if code is not None:
            return error
        where = f"{self.dump}: {self._member}" if self._member else str(self.dump)
        return SourceFileError(
            f"{where}: damaged, or not of {self.pages.name}: {error}; download the dump again"
        )

    def checked_rows(self) -> int:
        """The rows of the database, after SQLite's own check."""
        with bar("checking the database", 1, "files"), closing(_connected(self.partial)) as opened:
            fault = opened.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if fault != "ok":
                raise sqlite3.DatabaseError(fault)
            rows = opened.execute(f"SELECT count(*) FROM {self.pages.table_name}")  # noqa: S608 - a constant
            return int(rows.fetchone()[0])

    def _unpack(self, packed: _Stream) -> None:
        """FEVEROUS also publishes an archive whose one member is the database."""
        if self.needed is not None:
            raise ConfigError(
                f"{self.dump} holds the whole database, which cannot be read in parts; for "
                f"--only-needed take {self.pages.dumps[0].file}"
            )
        with self.partial.open("wb") as file:
            shutil.copyfileobj(packed, file, _CHUNK)

    def _fill(self, members: Iterator[_Stream], shown: Bar) -> None:
        """Write the rows of all members; the first row of a title stays."""
        with closing(_connected(self.partial)) as database:
            for statement in (*_BEGIN, f"CREATE TABLE {self.pages.table}", "BEGIN"):
                database.execute(statement)
            for stream in members:
                database.executemany(self.pages.insert, self._rows(stream, shown))
                count, size = (
                    database.execute(f"PRAGMA page_{what}").fetchone()[0]
                    for what in ("count", "size")
                )
                self._written = count * size, self._position()
                self._refuse_other_dump()
            database.execute("COMMIT")
            if not database.total_changes:
                files = " or ".join(each.file for each in self.pages.dumps)
                why = "none of the pages that the claims name" if self.lines else "no file of pages"
                raise SourceFileError(f"{self.dump} holds {why}; expected {files}")
            self.repeated = self.rows - database.total_changes
            if self.needed is not None:
                ids = database.execute(f"SELECT id FROM {self.pages.table_name}")  # noqa: S608 - a constant
                self.keys = {title_key(row[0]) for row in ids}

    def _rows(self, stream: _Stream, shown: Bar) -> Iterator[Row]:
        for number, line in enumerate(_lines(stream), 1):
            self.lines += 1
            if number % _LINES_A_MOVE == 0:
                shown.move(self._position() // _MB)
            try:
                row = row_of(self.pages, _whole(line), self.needed)
            except ValueError as error:
                self.unreadable += 1
                self._why = self._why or f"line {number}: {error}"
                continue
            if row is not None:
                self.rows += 1
                yield row

    def _refuse_other_dump(self) -> None:
        if self.unreadable > _MOST_UNREADABLE * self.lines:
            raise SourceFileError(
                f"{self.dump}: {self._member}: {self.unreadable:,} of {self.lines:,} lines are no "
                f"pages for {self.pages.name}: {self._why}"
            )

    def _position(self) -> int:
        """The bytes of the dump that were read so far."""
        return self._before + (0 if self._raw.closed else self._raw.tell())

    def _members(self) -> Generator[_Stream, None, None]:
        """The files that hold pages, unpacked, or the database that a zip holds in their place.

        Each is read before the next one is taken.

        Raises:
            SourceFileError: the file is no dump.
        """
        dump = self.dump
        if dump.is_dir() or _NAME.fullmatch(dump.name):
            for file in sorted(dump.rglob("*")) if dump.is_dir() else [dump]:
                if file.is_file() and _NAME.fullmatch(file.name):
                    with file.open("rb") as self._raw:
                        yield self._taken(file.name, self._raw)
                    self._before += file.stat().st_size
            return
        with dump.open("rb", _CHUNK) as self._raw:
            if zipfile.is_zipfile(dump):
                yield from self._zip_members()
            elif {".tar", ".tbz", ".tbz2", ".tgz"} & set(dump.suffixes) or tarfile.is_tarfile(dump):
                yield from self._tar_members()
            else:
                raise SourceFileError(
                    f"{dump}: neither a zip nor a tar archive of pages (a database needs no build; "
                    "a .zip file may lack its end: download it again)"
                )

    def _zip_members(self) -> Iterator[_Stream]:
        with zipfile.ZipFile(self._raw) as archive:
            files = sorted(archive.infolist(), key=lambda info: info.header_offset)
            of_pages, databases = (
                [info for info in files if names.fullmatch(Path(info.filename).name)]
                for names in (_NAME, _DATABASE)
            )
            for info in of_pages or databases[:1]:
                self._member = info.filename
                with archive.open(info) as stream:
                    yield self._taken(info.filename, stream)

    def _tar_members(self) -> Iterator[_Stream]:
        stream = _unpacked(self.dump.name, self._raw)
        archive = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115 - the stream is closed
        while (info := archive.next()) is not None:
            vars(archive)["members"].clear()  # thousands, none needed again
            if info.isfile() and _NAME.fullmatch(Path(info.name).name):
                yield self._taken(info.name, archive.extractfile(info))
        # tarfile takes an archive that is cut between two members for a whole one.
        if stream.tell() != archive.offset + tarfile.BLOCKSIZE:
            raise EOFError("it ends in the middle")

    def _taken(self, name: str, packed: _Stream) -> _Stream:
        self._member = name
        return _unpacked(name, packed)


def _unpacked(name: str, raw: _Stream) -> _Stream:
    if name.endswith((".bz2", ".tbz", ".tbz2")):
        return bz2.BZ2File(raw)
    return gzip.GzipFile(fileobj=raw) if name.endswith((".gz", ".tgz")) else raw


def _lines(stream: _Stream) -> Iterator[bytes]:
    """Lines that are not blank; one above ``MAX_PAGE_BYTES`` is cut there."""
    buffered = isinstance(stream, io.BufferedReader)
    reader = stream if buffered else io.BufferedReader(stream, _CHUNK)
    while line := reader.readline(MAX_PAGE_BYTES):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = reader.readline(MAX_PAGE_BYTES)
        if line.strip():
            yield line


def _whole(line: bytes) -> bytes:
    if len(line) >= MAX_PAGE_BYTES:
        raise ValueError(f"longer than {megabytes(MAX_PAGE_BYTES)}")
    return line


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)
