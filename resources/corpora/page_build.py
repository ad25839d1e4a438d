"""Builds a page database from a public dump; a build that was killed continues where it was.

Rows are written to ``<target>.partial`` (``partial_pages``). When all are in, the database is
checked and renamed. Memory does not grow with the dump.
"""

import errno
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from decomposerl.claims.page_dumps import PageSet, Row, row_of
from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.progress import Bar, bar
from resources.corpora.dump_members import Member, dump_bytes, dump_members, packed_database
from resources.corpora.pages import MAX_PAGE_BYTES, SqlitePages
from resources.corpora.partial_pages import (
    MemberNote,
    PartialPages,
    integrity_fault,
    megabytes,
    needed_bytes,
    no_room,
    publish,
)
from resources.store.run_lock import file_lock, lock_path

COMMIT_S = 15.0
"""A killed build repeats at most this long and one member of the dump."""
_MOST_UNREADABLE = 0.05
_MB, _LINES_A_MOVE = 1_000_000, 500
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class BuiltPages:
    """``pages`` rows are in ``target``, a file of ``size`` bytes.

    ``repeated`` titles were left out (the first page stays), ``unreadable`` lines too.
    ``continued`` members of the dump had been read by an earlier call. ``needed`` pages were
    wanted (None: all); those in ``missing`` are not in the dump.
    """

    target: Path
    dump: str
    pages: int
    size: int
    repeated: int = 0
    unreadable: int = 0
    continued: int = 0
    needed: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How to build. ``replace``: an existing target is replaced when the new one is whole."""

    replace: bool = False
    commit_s: float = COMMIT_S


def build_pages(
    pages: PageSet,
    dump: Path,
    target: Path,
    needed: Mapping[str, str] | None = None,
    settings: BuildSettings = BuildSettings(),
) -> BuiltPages:
    """Build ``target`` from ``dump``; ``needed`` limits it to these pages (``named_pages``).

    Raises:
        ConfigError: the target is there, or an unfinished build was begun from something else.
        SourceFileError: the dump is damaged, or no dump of these pages.
        SourceError: the disk is full; the message says how much is needed.
        DecomposeRLError: another process builds it.
    """
    if target.exists() and not settings.replace:
        raise ConfigError(f"{target} is there already; --replace builds it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    with file_lock(lock_path(target.parent, target.name), str(target)):
        with packed_database(dump) as packed:
            if packed is not None:
                return _unpack(pages, packed, target, limited=needed is not None)
        wanted = "all" if needed is None else _digest(needed)
        with PartialPages(partial, pages, wanted, dump_bytes(dump)) as database:
            with database.explained():
                if not database.finished:
                    _fill(database, dump, needed, settings.commit_s)
                database.check()
            built = _built(database, target, needed)
        publish(partial, target)
    return built


def _fill(
    database: PartialPages, dump: Path, needed: Mapping[str, str] | None, commit_s: float
) -> None:
    """Read the members that are not yet done, and finish."""
    members = dump_members(dump)
    _pass_done(database, dump, members)
    total, known = dump_bytes(dump) // _MB, database.position // _MB
    with bar(f"{database.pages.name} pages", total, "MB", known) as one:
        for member in members:
            note = MemberNote(member.name, member.size)
            database.add(_rows(database.pages, member, needed, note, one), note)
            _refuse_other_dump(database, dump, note)
            database.commit(commit_s)
    if not database.finish(dump.name):
        files = " or ".join(each.file for each in database.pages.dumps)
        why = "none of the pages that the claims name" if database.lines else "no file of pages"
        raise SourceFileError(f"{dump} holds {why}; expected {files}")


def _pass_done(database: PartialPages, dump: Path, members: Iterator[Member]) -> None:
    """Take the members that are done off the iterator; they must be the same as then."""
    what, total = f"passing what {database.path.name} has", database.position // _MB
    with bar(what, total, "MB") as one:
        for before in database.notes():
            member = next(members, None)
            now = None if member is None else (member.name, member.size, member.checksum())
            if member is None or now != before:
                raise ConfigError(
                    f"{dump}: {before[0]} is not as it was when the build began; delete "
                    f"{database.path} to begin again"
                )
            one.move(min(total, member.position() // _MB))


def _rows(
    pages: PageSet, member: Member, needed: Mapping[str, str] | None, note: MemberNote, one: Bar
) -> Iterator[Row]:
    for line in member.lines():
        if isinstance(line, int):
            note.crc = line
            continue
        note.lines += 1
        if note.lines % _LINES_A_MOVE == 0:
            one.move(member.position() // _MB)
        try:
            row = row_of(pages, _whole(line), needed)
        except ValueError as error:
            note.unreadable += 1
            note.why = note.why or f"line {note.lines}: {error}"
            continue
        if row is not None:
            note.rows += 1
            yield row
    note.position = member.position()
    one.move(note.position // _MB)


def _refuse_other_dump(database: PartialPages, dump: Path, note: MemberNote) -> None:
    if database.unreadable > _MOST_UNREADABLE * database.lines:
        raise SourceFileError(
            f"{dump}: {note.name}: {note.unreadable:,} of {note.lines:,} lines are no pages for "
            f"{database.pages.name}: {note.why}"
        )


def _built(database: PartialPages, target: Path, needed: Mapping[str, str] | None) -> BuiltPages:
    found = set() if needed is None else database.title_keys()
    missing = sorted(title for key, title in (needed or {}).items() if key not in found)
    return BuiltPages(
        target=target,
        dump=database.state("dump"),
        pages=database.state("pages"),
        size=database.path.stat().st_size,
        repeated=database.state("repeated"),
        unreadable=database.state("unreadable"),
        continued=database.done,
        needed=None if needed is None else len(needed),
        missing=tuple(missing),
    )


def _unpack(pages: PageSet, packed: Member, target: Path, *, limited: bool) -> BuiltPages:
    """Unpack an archive whose member is the database; bytes that are there are compared."""
    if limited:
        raise ConfigError(
            f"{packed.dump} holds the whole database, which cannot be read in parts; for "
            f"--only-needed take {pages.dumps[0].file}"
        )
    partial = target.with_name(f"{target.name}.partial")
    total = dump_bytes(packed.dump)
    with bar(f"{pages.name} pages", total // _MB, "MB") as one:
        try:
            _copy(packed, partial, one)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise no_room(partial, needed_bytes(pages, total), error) from error
    rows = _checked_database(pages, partial)
    built = BuiltPages(target, packed.dump.name, rows, partial.stat().st_size)
    publish(partial, target)
    return built


def _copy(packed: Member, partial: Path, one: Bar) -> None:
    there, at = partial.stat().st_size if partial.exists() else 0, 0
    with partial.open("r+b" if there else "wb") as file:
        for chunk in packed.chunks():
            kept = min(len(chunk), max(0, there - at))
            if kept and file.read(kept) != chunk[:kept]:
                raise ConfigError(f"{partial} is of another dump; delete it to begin again")
            file.write(chunk[kept:])
            at += len(chunk)
            one.move(packed.position() // _MB)
        file.truncate()


def _checked_database(pages: PageSet, partial: Path) -> int:
    """The rows of an unpacked database, after its integrity check."""
    layout = SqlitePages(partial).layout
    table = pages.table.partition("(")[0]
    if ("wiki" if layout == "feverous" else "documents") != table:
        raise SourceFileError(
            f"{partial} is no database of {pages.name} but of {layout}; delete it"
        )
    opened = sqlite3.connect(f"{partial.resolve().as_uri()}?mode=ro", uri=True)
    with bar("checking the database", 1, "files"), closing(opened):
        if fault := integrity_fault(opened):
            raise SourceFileError(f"{partial} is damaged: {fault}; delete it to begin again")
        return int(opened.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608


def _whole(line: bytes | None) -> bytes:
    if line is None:
        raise ValueError(f"longer than {megabytes(MAX_PAGE_BYTES)}")
    return line


def _digest(needed: Mapping[str, str]) -> str:
    return hashlib.sha256("\n".join(sorted(needed)).encode()).hexdigest()
