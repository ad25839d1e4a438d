"""Builds a page database of a Wikipedia corpus from its public dump, in one pass.

A dump is a tar or zip archive, plain or compressed, a folder of its files, or one file. Its members
are ``wiki_00.bz2``, ``wiki-001.jsonl`` and the like, each plain, ``.bz2`` or ``.gz``: JSON lines,
one page a line. A page becomes one row of the layout that the corpus publishes (``pages.py`` reads
it). Neither memory nor disk holds the dump. Rows go into a temporary file that is renamed when all
are in: a build that was ended begins again.
"""

import bz2
import gzip
import io
import json
import os
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from errno import ENOSPC
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import JsonObject
from decomposerl.claims.passages import page_title, without_entities
from decomposerl.claims.source import Corpus, FieldError, in_form
from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.normal_form import normalised
from decomposerl.progress import Bar, bar
from resources.corpora.archives import DAMAGE, Member, archive_members
from resources.corpora.folder import FolderCorpora, physical_lines
from resources.corpora.pages import MAX_PAGE_BYTES
from resources.store.run_lock import file_lock, lock_path
from resources.store.temporary import aside, put_in_place

_NAME = re.compile(r"wiki[-_]?\d+(?:\.jsonl)?(?:\.bz2|\.gz)?")
_NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_IOERR")
_MOST_UNREADABLE = 0.05
_MB, _GB, _CHUNK = 1_000_000, 1_000_000_000, 1 << 20
_UNPACK: Mapping[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open}
# Without a journal: a file that is not whole is never read again.
_BEGIN = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-65536")
_BARE_PAGE = 2  # keys of a FEVEROUS page without content: title and order
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSet:
    """One page database, and the published dump that it can be made from.

    ``target`` and ``places`` (of the dump) are below the corpora folder. ``table`` creates the
    table, ``insert`` adds a row unless its id is there. ``row`` makes one of a line's JSON object,
    None for a page without content, and raises ``FieldError`` for anything else. ``size`` is that
    of the dump, ``database`` about that of all its pages, in bytes.
    """

    name: str
    target: str
    table: str
    insert: str
    row: Callable[[JsonObject], Row | None]
    file: str
    address: str
    size: int
    database: int
    license: str
    places: Sequence[str]


@dataclass(slots=True)
class BuiltPages:
    """What was built from a dump; it is filled in during the build.

    ``pages`` rows are in ``target``, a file of ``size`` bytes. ``repeated`` titles were left out
    (the first page stays), ``unreadable`` lines too. Those in ``missing`` were needed and are not
    in the dump.
    """

    target: Path
    pages: int = 0
    size: int = 0
    repeated: int = 0
    unreadable: int = 0
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
        OSError: the disk is full.
        DecomposeRLError: another process builds it.
    """
    if target.exists() and not replace:
        raise ConfigError(f"{target} is there already; --replace builds it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    built = BuiltPages(target)
    with file_lock(lock_path(target.parent, target.name), str(target)), aside(target) as partial:
        try:
            with (
                bar(f"{pages.name} pages", bytes_in(dump) // _MB, "MB") as shown,
                closing(sqlite3.connect(partial, isolation_level=None)) as database,
            ):
                for statement in (*_BEGIN, f"CREATE TABLE {pages.table}", "BEGIN"):
                    database.execute(statement)
                database.executemany(pages.insert, _rows(pages, dump, needed, built, shown))
                database.execute("COMMIT")
                built.pages = database.total_changes
            put_in_place(partial, target)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "").startswith(_NOT_WRITTEN):
                raise OSError(ENOSPC, os.strerror(ENOSPC), str(target)) from error
            raise
    built.size, built.repeated = target.stat().st_size, built.repeated - built.pages
    return built


def _rows(
    pages: PageSet, dump: Path, needed: Mapping[str, str] | None, built: BuiltPages, shown: Bar
) -> Iterator[Row]:
    """The rows of a dump, counted in ``built``; few lines may be unreadable.

    Raises:
        SourceFileError: many are, there is no row, or the dump is damaged.
    """
    lines, rows, why, where, missing = 0, 0, "", str(dump), dict(needed or {})
    try:
        for path, _, position, opened in _members(dump):
            if not _NAME.fullmatch(path.name):
                continue
            where = str(dump) if dump.name == path.name else f"{dump}: {path}"
            shown.move(position // _MB)
            for number, line in enumerate(_lines(opened, path.suffix), 1):
                lines += 1
                try:
                    row = row_of(pages, line, needed)
                except ValueError as error:
                    built.unreadable += 1
                    why = why or f"line {number}: {error}"
                    continue
                if row is not None:
                    rows += 1
                    missing.pop(title_key(row[0]) if needed else "", None)
                    yield row
            if built.unreadable > _MOST_UNREADABLE * lines:
                raise SourceFileError(
                    f"{where}: {built.unreadable:,} of {lines:,} lines are no pages for "
                    f"{pages.name}: {why}"
                )
    except DAMAGE as error:
        if getattr(error, "errno", None) is not None:  # of the disk, not of what is packed
            raise
        raise SourceFileError(
            f"{where}: damaged, or not of {pages.name}: {error}; download the dump again"
        ) from error
    if not rows:
        what = "none of the pages that the claims name" if lines else "no file of pages"
        raise SourceFileError(f"{dump} holds {what}; expected {pages.file}")
    built.repeated, built.missing = rows, tuple(sorted(missing.values()))


def _members(dump: Path) -> Iterator[Member]:
    """The files of a dump, one after another."""
    if dump.is_file() and not _NAME.fullmatch(dump.name):
        yield from archive_members(dump)
        return
    position = 0
    for path in _files(dump):
        size = path.stat().st_size
        yield path, size, position, partial(path.open, "rb")
        position += size


def _lines(opened: Callable[[], Any], ending: str) -> Iterator[bytes]:
    """Lines that are not blank; a very long one is cut, so it is no JSON."""
    with opened() as packed:
        unpack = _UNPACK.get(ending)
        stream = io.BufferedReader(unpack(packed) if unpack else packed, _CHUNK)
        yield from filter(bytes.strip, physical_lines(stream, MAX_PAGE_BYTES))


def _files(dump: Path) -> Iterator[Path]:
    return filter(Path.is_file, [dump, *sorted(dump.rglob("*"))])


def bytes_in(dump: Path) -> int:
    """The size of the file, or of all files of the folder."""
    return sum(path.stat().st_size for path in _files(dump))


def megabytes(size: int) -> str:
    """A size in words: ``2.2 GB``, ``35.0 MB``."""
    return f"{size / 1e9:,.1f} GB" if size >= _GB else f"{size / 1e6:,.1f} MB"


def title_key(title: str) -> str:
    """One key for all spellings under which a page is looked up."""
    while (plain := without_entities(title)) != title:
        title = plain
    return normalised("NFC", page_title(title))


def row_of(pages: PageSet, line: bytes, needed: Mapping[str, str] | None) -> Row | None:
    """The row of one line; None where it has no content, or its key is not among ``needed``.

    Raises:
        ValueError: the line is no page of this dump.
    """
    try:
        row = pages.row(JsonObject({"line": json.loads(line)}).mapping("line"))
    except (FieldError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if row is None or (needed is not None and title_key(row[0]) not in needed):
        return None
    # Lone surrogates, which UTF-8 cannot hold, become question marks.
    return tuple(text.encode("utf-8", "replace").decode("utf-8") for text in row)


def named_pages(corpora: Sequence[Corpus], root: Path) -> dict[str, str]:
    """The pages that the claims of corpora in a folder name, of every label: key to title.

    Raises:
        ConfigError: there are none.
    """
    folder, named = _ClaimsAlone(root), dict[str, str]()
    native = {file: corpus for corpus in corpora for file in corpus.native_files}
    for file, corpus in native.items():
        for draft in corpus.read(folder, in_form(folder.exists, file)):
            titles = draft.documents if isinstance(draft, Draft) else ()
            named.update((title_key(title), title) for title in titles)
    if not named:
        paths = ", ".join(dict.fromkeys(file.path for file in native))
        raise ConfigError(f"--only-needed: no claim in {root} names a page; looked in {paths}")
    return named


class _ClaimsAlone(FolderCorpora):
    """A corpora folder as if it had no page database, so that its claims name their pages."""

    __slots__ = ()

    def pages(self, path: str) -> None:
        """None is there."""


def _introduction(page: JsonObject) -> Row | None:
    """A page of HotpotQA's introductions: sentences with their own leading spaces."""
    title, sentences = page.text("title"), page.strings("text")
    return (normalised("NFD", title), "".join(sentences)) if title else None


def _fever_page(page: JsonObject) -> Row | None:
    name = page.text("id")  # the dump has a page without a name
    row = normalised("NFD", name), page.text("text"), page.text("lines")
    return row if name else None


def _feverous_page(page: JsonObject) -> Row | None:
    title, _ = page.text("title"), page.value("order")
    if not title or len(page.raw) <= _BARE_PAGE:
        return None
    return normalised("NFD", title), normalised("NFD", json.dumps(page.raw, ensure_ascii=False))


_ROWS = {
    "hover": _introduction,
    "ex_fever": _introduction,
    "fever": _fever_page,
    "feverous": _feverous_page,
}
_TABLES = tomllib.loads(files(__package__).joinpath("page_sets.toml").read_text("utf-8"))
PAGE_SETS: Mapping[str, PageSet] = {
    name: PageSet(name=name, row=_ROWS[name], **table) for name, table in _TABLES.items()
}
"""By the name of the corpus."""
