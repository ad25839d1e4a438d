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
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from decomposerl.claims.page_dumps import PageSet, Row, megabytes, needed_bytes, row_of, title_key
from decomposerl.errors import ConfigError, SourceError, SourceFileError
from decomposerl.progress import Bar, bar
from resources.corpora.pages import MAX_PAGE_BYTES
from resources.corpora.transfer import FULL
from resources.store.run_lock import file_lock, lock_path
from resources.store.temporary import aside, put_in_place

_NAME = re.compile(r"wiki[-_]?\d+(?:\.jsonl)?(?:\.bz2|\.gz)?")
_DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, NotImplementedError)
_NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_IOERR")
_MOST_UNREADABLE = 0.05
_MB, _CHUNK, _LINES_A_MOVE = 1_000_000, 1 << 20, 500
# Without a journal: a file that is not whole is never read again.
_BEGIN = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-65536")
_Stream = Any
"""A binary stream of bz2, gzip, tarfile, zipfile or a file."""


@dataclass(slots=True, kw_only=True)
class BuiltPages:
    """What was built from a dump; it is filled in during the build.

    ``pages`` rows are in ``target``, a file of ``size`` bytes. ``repeated`` titles were left out
    (the first page stays), ``unreadable`` lines too. ``needed`` pages were wanted (None: all);
    those in ``missing`` are not in the dump.
    """

    target: Path
    dump: str
    pages: int = 0
    size: int = 0
    repeated: int = 0
    unreadable: int = 0
    needed: int | None = None
    missing: tuple[str, ...] = ()


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
    members, built = _Members(dump), BuiltPages(target=target, dump=dump.name)
    if needed is not None:
        built.needed, built.missing = len(needed), tuple(needed)
    with file_lock(lock_path(target.parent, target.name), str(target)), aside(target) as partial:
        try:
            with (
                bar(f"{pages.name} pages", dump_bytes(dump) // _MB, "MB") as shown,
                closing(sqlite3.connect(partial, isolation_level=None)) as database,
            ):
                for statement in (*_BEGIN, f"CREATE TABLE {pages.table}", "BEGIN"):
                    database.execute(statement)
                database.executemany(pages.insert, _rows(pages, members, needed, built, shown))
                database.execute("COMMIT")
                built.pages = database.total_changes
            put_in_place(partial, target)
        except (*_DAMAGE, OSError, RuntimeError, sqlite3.Error) as error:
            raise _explained(error, pages, members, partial) from error
    built.size, built.repeated = target.stat().st_size, built.repeated - built.pages
    return built


def dump_bytes(dump: Path) -> int:
    """The bytes of the file, or of all files of the folder."""
    files = dump.rglob("*") if dump.is_dir() else [dump]
    return sum(path.stat().st_size for path in files if path.is_file())


def _rows(
    pages: PageSet,
    members: "_Members",
    needed: Mapping[str, str] | None,
    built: BuiltPages,
    shown: Bar,
) -> Iterator[Row]:
    """The rows of a dump, counted in ``built``; few lines may be unreadable.

    Raises:
        SourceFileError: many are, or there is no row.
    """
    lines, rows, why, missing = 0, 0, "", dict(needed or {})
    for stream in members:
        for number, line in enumerate(_lines(stream), 1):
            lines += 1
            if number % _LINES_A_MOVE == 0:
                shown.move(members.position // _MB)
            try:
                row = row_of(pages, line, needed)
            except ValueError as error:
                built.unreadable += 1
                why = why or f"line {number}: {error}"
                continue
            if row is not None:
                rows += 1
                if needed is not None:
                    missing.pop(title_key(row[0]), None)
                yield row
        if built.unreadable > _MOST_UNREADABLE * lines:
            raise SourceFileError(
                f"{members.where}: {built.unreadable:,} of {lines:,} lines are no pages for "
                f"{pages.name}: {why}"
            )
    if not rows:
        what = "none of the pages that the claims name" if lines else "no file of pages"
        raise SourceFileError(f"{members.dump} holds {what}; expected {pages.file}")
    built.repeated, built.missing = rows, tuple(sorted(missing.values()))


def _explained(error: Exception, pages: PageSet, members: "_Members", partial: Path) -> Exception:
    """An error of this project for one of the archive, the disk or the database."""
    code = getattr(error, "errno", None)
    if code in FULL or getattr(error, "sqlite_errorname", "").startswith(_NOT_WRITTEN):
        whole, free = (
            needed_bytes(pages, dump_bytes(members.dump)),
            shutil.disk_usage(partial.parent),
        )
        return SourceError(
            f"the database of {pages.name} cannot be written ({error}): all pages need about "
            f"{megabytes(whole)}, the disk of {partial.parent} has {megabytes(free.free)} beside "
            "what was written; make room and run the same command again"
        )
    # bz2's error of damaged data has no number; zipfile's of a password is a RuntimeError.
    if code is not None:
        return error
    return SourceFileError(
        f"{members.where}: damaged, or not of {pages.name}: {error}; download the dump again"
    )


class _Members:
    """The files of pages in a dump, unpacked; each is read before the next one is taken.

    ``position`` are the bytes of the dump that were read, ``where`` is the file that is being read.
    """

    def __init__(self, dump: Path) -> None:
        self.dump, self.where = dump, str(dump)
        self._before = 0
        self._raw: IO[bytes] = io.BytesIO()

    @property
    def position(self) -> int:
        return self._before + self._raw.tell()

    def __iter__(self) -> Iterator[_Stream]:
        """Each as a binary stream."""
        dump = self.dump
        if dump.is_dir() or _NAME.fullmatch(dump.name):
            for file in sorted(dump.rglob("*")) if dump.is_dir() else [dump]:
                if file.is_file() and _NAME.fullmatch(file.name):
                    with file.open("rb") as self._raw:
                        yield self._unpacked(file.name, self._raw)
                    self._before, self._raw = self._before + file.stat().st_size, io.BytesIO()
            return
        packed = zipfile.is_zipfile(dump)
        if not packed and ".tar" not in dump.suffixes and not tarfile.is_tarfile(dump):
            raise SourceFileError(
                f"{dump}: neither a zip nor a tar archive of pages (a database needs no build; "
                "a .zip file may lack its end: download it again)"
            )
        with dump.open("rb", _CHUNK) as self._raw:
            yield from self._zipped() if packed else self._tarred()

    def _zipped(self) -> Iterator[_Stream]:
        with zipfile.ZipFile(self._raw) as archive:
            for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
                if _NAME.fullmatch(Path(info.filename).name):
                    with archive.open(info) as stream:
                        yield self._unpacked(info.filename, stream)

    def _tarred(self) -> Iterator[_Stream]:
        with tarfile.open(fileobj=self._raw) as archive:
            for info in archive:
                if info.isfile() and _NAME.fullmatch(Path(info.name).name):
                    yield self._unpacked(info.name, archive.extractfile(info))
            # tarfile takes an archive that is cut between two members for a whole one.
            if archive.fileobj.tell() != archive.offset + tarfile.BLOCKSIZE:
                raise EOFError("it ends in the middle")

    def _unpacked(self, name: str, packed: _Stream) -> _Stream:
        self.where = str(self.dump) if self.dump.name == name else f"{self.dump}: {name}"
        if name.endswith(".bz2"):
            return bz2.BZ2File(packed)
        return gzip.GzipFile(fileobj=packed) if name.endswith(".gz") else packed


def _lines(stream: _Stream) -> Iterator[bytes]:
    """Lines that are not blank; one above ``MAX_PAGE_BYTES`` is cut there, so it is no JSON."""
    buffered = isinstance(stream, io.BufferedReader)
    reader = stream if buffered else io.BufferedReader(stream, _CHUNK)
    while line := reader.readline(MAX_PAGE_BYTES):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = reader.readline(MAX_PAGE_BYTES)
        if line.strip():
            yield line
