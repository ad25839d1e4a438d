"""The page databases of the Wikipedia corpora, and the public dumps that they are made from.

A dump is an archive of JSON lines, one page a line; a page becomes one row of the layout that the
corpus publishes (``resources/corpora/pages.py`` reads it). Ids are decomposed (NFD), as upstream
writes them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.passages import page_title, without_entities
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form
from decomposerl.claims.sources import fever, feverous, hover, row_by_row
from decomposerl.normal_form import normalised

Row = tuple[str, ...]
_GB = 1_000_000_000
_BARE_PAGE = 2  # keys of a FEVEROUS page without content: title and order


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSet:
    """One page database, and the published dump that it can be made from.

    ``target`` and ``places`` (of the dump) are below the corpora folder. ``table`` creates the
    table; ``row`` makes a row of a line's JSON object, None for a page without content, and raises
    ``ValueError`` for anything else. ``size`` is that of the dump, ``database`` about that of all
    its pages, in bytes.
    """

    name: str
    target: str
    table: str
    row: Callable[[dict[str, Any]], Row | None]
    file: str
    address: str
    size: int
    database: int
    license: str
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
    return dump_bytes * pages.database // pages.size


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
    named: dict[str, str] = {}
    for corpus in corpora:
        more = ("extra",) if isinstance(corpus, Source) else ("shared", "claim_lists")
        native = (file for each in ("files", *more) for file in getattr(corpus, each))
        for file in dict.fromkeys(native):
            for draft in corpus.read(_WithoutPages(files), in_form(files.exists, file)):
                titles = draft.documents if isinstance(draft, Draft) else ()
                named.update((title_key(title), title) for title in titles)
    return named


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


_HOVER = PageSet(
    name="hover",
    target=hover.PAGES,
    table="documents(id PRIMARY KEY, text)",
    row=_introduction,
    file="enwiki-20171001-pages-meta-current-withlinks-abstracts.tar.bz2",
    address="https://hotpotqa.github.io/wiki-readme.html",
    size=1_553_565_403,
    database=2_200_000_000,
    license="CC BY-SA 4.0",
    places=("hover", "ex_fever"),
)
PAGE_SETS: tuple[PageSet, ...] = (
    _HOVER,
    replace(_HOVER, name="ex_fever", target=row_by_row.GOLDEN_PAGES, places=("ex_fever", "hover")),
    PageSet(
        name="fever",
        target=fever.PAGES,
        table="documents(id PRIMARY KEY, text, lines)",
        row=_fever_page,
        file="wiki-pages.zip",
        address="https://fever.ai/dataset/fever.html",
        size=1_713_485_474,
        database=7_700_000_000,
        license="CC BY-SA 3.0 / Wikipedia terms",
        places=("fever",),
    ),
    PageSet(
        name="feverous",
        target=feverous.PAGES,
        table="wiki(id PRIMARY KEY, data json)",
        row=_feverous_page,
        file="feverous-wiki-pages.zip",
        address="https://fever.ai/dataset/feverous.html",
        size=9_906_569_155,
        database=53_500_000_000,
        license="CC BY-SA 3.0",
        places=("feverous",),
    ),
)
