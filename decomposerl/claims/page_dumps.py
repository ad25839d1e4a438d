"""The page databases of the Wikipedia corpora, and the public dumps that they are made from.

A dump is an archive of JSON lines, one page a line; a page becomes one row of the layout that the
corpus publishes (``resources/corpora/pages.py`` reads it). Ids are decomposed (NFD), as upstream
writes them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from decomposerl.claims.benchmarks import fever
from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.passages import page_title, without_entities
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form
from decomposerl.claims.sources import ex_fever, feverous, hover
from decomposerl.normal_form import normalised

Row = tuple[str, ...]
_STRING = rb'("(?:[^"\\]++|\\.)*+")'
_GB = 1_000_000_000
_BARE_PAGE = 2  # keys of a FEVEROUS page without content: title and order


@dataclass(frozen=True, slots=True)
class Dump:
    """A published archive: ``size`` is its bytes, ``database`` about those of all its pages."""

    file: str
    address: str
    size: int
    database: int
    license: str


@dataclass(frozen=True, slots=True)
class PageSet:
    """One page database: ``target`` and ``places`` (of a dump) are below the corpora folder.

    ``table`` creates it; ``row`` makes a row of a line's JSON object, None for a page without
    content, and raises ``ValueError`` for anything else; ``title`` finds the page's name at the
    beginning of a line, so that a page that is not needed is not parsed.
    """

    name: str
    target: str
    table: str
    row: Callable[[dict[str, Any]], Row | None]
    title: re.Pattern[bytes]
    dumps: tuple[Dump, ...]
    places: tuple[str, ...]

    @property
    def table_name(self) -> str:
        """The name of the table that ``table`` creates."""
        return self.table.partition("(")[0]

    @property
    def insert(self) -> str:
        """The statement that adds a row unless its id is there."""
        marks = ", ".join("?" * (self.table.count(",") + 1))
        return f"INSERT OR IGNORE INTO {self.table_name} VALUES ({marks})"  # noqa: S608 - constants


def needed_bytes(pages: PageSet, dump_bytes: int) -> int:
    """About the size of all pages of a dump, from the published sizes."""
    return dump_bytes * pages.dumps[0].database // pages.dumps[0].size


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
    if needed is not None and not _may_be_needed(pages, line, needed):
        return None
    try:
        page = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(page, dict):
        raise ValueError(f"no JSON object but {type(page).__name__}")  # noqa: TRY004 - as json's
    row = pages.row(page)
    if row is None or (needed is not None and title_key(row[0]) not in needed):
        return None
    return tuple(map(_storable, row))


def named_pages(corpora: Iterable[Source | Benchmark], files: CorpusFiles) -> dict[str, str]:
    """The pages that the claims of these corpora name, of every label: key to title."""
    claims = _WithoutPages(files)
    named: dict[str, str] = {}
    for corpus in corpora:
        for file in dict.fromkeys(_claim_files(corpus)):
            for draft in corpus.read(claims, in_form(files, file)):
                titles = draft.documents if isinstance(draft, Draft) else ()
                named.update((title_key(title), title) for title in titles)
    return named


def _claim_files(corpus: Source | Benchmark) -> tuple[NativeFile, ...]:
    if isinstance(corpus, Source):
        return (*corpus.files, *corpus.extra)
    return (*corpus.files, *corpus.shared, *corpus.claim_lists)


@dataclass(frozen=True, slots=True)
class _WithoutPages:
    """The corpora folder, as if it had no page database."""

    files: CorpusFiles

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        return self.files.records(file)

    def pages(self, path: str) -> None:  # noqa: ARG002 - of the protocol
        return None


def _may_be_needed(pages: PageSet, line: bytes, needed: Mapping[str, str]) -> bool:
    found = pages.title.match(line)
    try:
        return found is None or title_key(json.loads(found[1])) in needed
    except ValueError:
        return True  # parsed whole, and rejected there


def _storable(text: str) -> str:
    """Without lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _text(page: Mapping[str, Any], key: str) -> str:
    value = page.get(key)
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is no text" if key in page else f"no '{key}'")  # noqa: TRY004
    return value


def _introduction(page: dict[str, Any]) -> Row | None:
    """A page of HotpotQA's introductions: sentences with their own leading spaces."""
    title, sentences = _text(page, "title"), page.get("text")
    if not isinstance(sentences, list) or not all(isinstance(one, str) for one in sentences):
        raise ValueError("'text' is no list of sentences")
    return (normalised("NFD", title), "".join(sentences)) if title else None


def _fever_page(page: dict[str, Any]) -> Row | None:
    name = _text(page, "id")  # the dump has a page without a name
    row = normalised("NFD", name), _text(page, "text"), _text(page, "lines")
    return row if name else None


def _feverous_page(page: dict[str, Any]) -> Row | None:
    title = _text(page, "title")
    if "order" not in page:
        raise ValueError("no 'order'")
    if not title or len(page) <= _BARE_PAGE:
        return None
    return normalised("NFD", title), normalised("NFD", json.dumps(page, ensure_ascii=False))


def _first(*before: bytes, key: bytes) -> re.Pattern[bytes]:
    """A string under ``key`` at the beginning of an object, after plain values of ``before``."""
    other = b"|".join(before)
    plain = rb'(?:"(?:' + other + rb')":\s*(?:\d++|"[^"\\]*+"),\s*)*+' if before else b""
    return re.compile(rb"\s*\{" + plain + rb'"' + key + rb'":\s*' + _STRING)


_HOVER = PageSet(
    name="hover",
    target=hover.PAGES,
    table="documents(id PRIMARY KEY, text)",
    row=_introduction,
    title=_first(b"id", b"url", key=b"title"),
    dumps=(
        Dump(
            "enwiki-20171001-pages-meta-current-withlinks-abstracts.tar.bz2",
            "https://hotpotqa.github.io/wiki-readme.html",
            size=1_553_565_403,
            database=2_200_000_000,
            license="CC BY-SA 4.0",
        ),
    ),
    places=("hover", "ex_fever"),
)
PAGE_SETS: tuple[PageSet, ...] = (
    _HOVER,
    replace(_HOVER, name="ex_fever", target=ex_fever.PAGES, places=("ex_fever", "hover")),
    PageSet(
        name="fever",
        target=fever.PAGES,
        table="documents(id PRIMARY KEY, text, lines)",
        row=_fever_page,
        title=_first(key=b"id"),
        dumps=(
            Dump(
                "wiki-pages.zip",
                "https://fever.ai/dataset/fever.html",
                size=1_713_485_474,
                database=7_700_000_000,
                license="CC BY-SA 3.0 / Wikipedia terms",
            ),
        ),
        places=("fever",),
    ),
    PageSet(
        name="feverous",
        target=feverous.PAGES,
        table="wiki(id PRIMARY KEY, data json)",
        row=_feverous_page,
        title=_first(key=b"title"),
        dumps=tuple(
            Dump(
                name,
                "https://fever.ai/dataset/feverous.html",
                size=size,
                database=53_500_000_000,
                license="CC BY-SA 3.0",
            )
            for name, size in (
                ("feverous-wiki-pages.zip", 9_906_569_155),
                ("feverous-wiki-pages-db.zip", 10_400_000_000),  # the database itself
            )
        ),
        places=("feverous",),
    ),
)
