"""Wikipedia pages from the SQLite databases that are published with the corpora (read-only).

Three layouts, recognised by their tables:

- FEVER: ``documents(id, text, lines)``; ``lines`` holds one native sentence a line as
  ``number<TAB>sentence<TAB>links``; titles carry ``-LRB-`` and underscores.
- HoVer and Ex-FEVER: ``documents(id, text)``; no sentence marks, so each line of the text is
  one entry (HoVer's text is one introductory paragraph a page; its native sentence numbers
  come from a parser that the database does not hold).
- FEVEROUS: ``wiki(id, data)``; ``data`` is the page as JSON with an ``order`` list and
  ``sentence_N``, ``section_N``, ``table_N`` and ``list_N`` entries.

A title is looked up as given, then with spaces for underscores and the other way round, with real
brackets for FEVER's marks and the other way round, with ``&amp;`` for ``&`` as HotpotQA's dump has
it and the other way round, decomposed (NFD, as the databases were built) and composed (NFC).

A page that cannot be read (its JSON is broken or nested too deeply, it is a number, it is
longer than ``MAX_PAGE_BYTES``, its part of the file is damaged) is a ``DamagedPage``, which
rejects the row that needs it. A null page is empty. Views are refused: their rows may never end.
"""

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.claims.passages import TREEBANK, with_entities, without_entities, without_links
from decomposerl.claims.source import DamagedPage
from decomposerl.errors import SourceFileError
from decomposerl.normal_form import normalised
from resources.store.paths import regular_file

_COLUMNS: Mapping[str, tuple[str, str]] = {
    "feverous": ("wiki", "data"),
    "fever": ("documents", "lines"),
    "text": ("documents", "text"),
}
"""Table and column of the pages of each layout, in the order in which it is looked for."""
CACHED_PAGES = 8
"""As many as a claim names, and few enough that the longest ones fit into memory."""
_MAX_SENTENCES = 20_000  # a damaged number must not inflate a page
_MAX_DIGITS = 18  # a longer number is no index of a sentence
MAX_PAGE_BYTES = 20_000_000


class SqlitePages:
    """One page database; implements ``Pages`` of ``decomposerl/claims/source.py``."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` read-only and recognise its layout.

        Raises:
            SourceFileError: the file is no SQLite database or has another layout.
        """
        self._path = path
        try:
            uri = f"{regular_file(path).resolve().as_uri()}?mode=ro"
            # Threads share the connection: every query runs under the lock.
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            weakref.finalize(self, self._connection.close)
            self._connection.text_factory = _lenient
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_PAGE_BYTES)
            self.layout = self._recognised()
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or error
            raise SourceFileError(f"page database {path.name}: {why}") from error
        self._lock = threading.Lock()
        self._page = lru_cache(CACHED_PAGES)(self._lookup)
        self._elements = lru_cache(CACHED_PAGES)(_elements)

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The page's sentences, index = native sentence number; None if there is no page.

        Raises:
            DamagedPage: the page exists but cannot be read.
        """
        page = self._page(title)
        if page is None:
            return None
        if self.layout == "fever":
            lines = (line.split("\t") for line in page.split("\n"))
            return _in_order((number, "".join(rest[:1]).strip()) for number, *rest in lines)
        if self.layout == "text":
            return tuple(line.strip() for line in page.splitlines())
        keys = ((key.partition("sentence_"), text) for key, text in self._elements(page).items())
        return _in_order((key[2], _clean(*text)) for key, text in keys if not key[0])

    def element(self, title: str, element_id: str) -> str | None:
        """The text of one FEVEROUS element of a page, links reduced to their anchor text.

        Elements: ``sentence_N``, ``section_N``, ``table_caption_N``, ``list_N``, ``cell_T_R_C``,
        ``header_cell_T_R_C`` and ``item_L_N``. The other two layouts have none.

        Raises:
            DamagedPage: the page exists but cannot be read.
        """
        page = self._page(title) if self.layout == "feverous" else None
        elements = {} if page is None else self._elements(page)
        return "\n".join(map(_clean, elements[element_id])) if element_id in elements else None

    def _recognised(self) -> str:
        tables = dict(self._connection.execute("SELECT name, type FROM sqlite_master"))
        for layout, (table, column) in _COLUMNS.items():
            described = self._connection.execute(f"PRAGMA table_info({table})")
            # The rows of a view may never end.
            if {"id", column} <= {row[1] for row in described} and tables.get(table) != "view":
                return layout
        wanted = "documents(id, text[, lines]) or wiki(id, data)"
        raise SourceFileError(f"page database {self._path.name}: no table {wanted}")

    def _lookup(self, title: str) -> str | None:
        table, column = _COLUMNS[self.layout]
        query = f"SELECT {column} FROM {table} WHERE id = ?"  # noqa: S608 - constants above
        try:
            for spelling in spellings(title):
                with self._lock:
                    row = self._connection.execute(query, (spelling,)).fetchone()
                if row is not None:
                    return self._text(title, row[0])
        except UnicodeEncodeError:
            return None  # a lone surrogate is no part of any title
        except (sqlite3.Error, MemoryError) as error:
            raise DamagedPage(f"{self._path.name}: page {title!r:.80}: {error}") from error
        return None

    def _text(self, title: str, content: object) -> str:
        if isinstance(content, bytes):
            return _lenient(content)
        if content is None or isinstance(content, str):
            return content or ""
        kind = type(content).__name__
        raise DamagedPage(f"{self._path.name}: page {title!r:.80} is no text but {kind}")


def spellings(title: str) -> Iterator[str]:
    """The spellings that a title may have in a database, most literal first, each once."""
    plain, marked = title, title
    for mark, character in TREEBANK.items():
        plain, marked = plain.replace(mark, character), marked.replace(character, mark)
    swapped = (text.replace(*swap) for text in (plain, marked) for swap in ("_ ", " _"))
    texts = [title, *swapped]
    texts += [change(text) for change in (with_entities, without_entities) for text in texts]
    forms = ((text, normalised("NFD", text), normalised("NFC", text)) for text in texts)
    yield from dict.fromkeys(chain.from_iterable(forms))


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _in_order(numbered: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The sentences by their native number, blank where one is missing; odd numbers are none."""
    sentences: dict[int, str] = {}
    for number, text in numbered:
        if number.isdecimal() and len(number) <= _MAX_DIGITS and int(number) < _MAX_SENTENCES:
            sentences.setdefault(int(number), text)
    return tuple(sentences.get(index, "") for index in range(max(sentences, default=-1) + 1))


def _parsed(data: str) -> dict[str, Any]:
    try:
        page = json.loads(data) if data else {}
    except (ValueError, RecursionError) as error:
        raise DamagedPage(f"the page is not JSON: {error!s:.80}") from error
    if not isinstance(page, dict):
        raise DamagedPage(f"the page is no JSON object but {type(page).__name__}")
    return page


def _clean(value: object) -> str:
    text = without_links(value) if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8").strip()


def _elements(page: str) -> dict[str, list[object]]:
    """The texts of each element of a FEVEROUS page by its id; several are the lines of one."""
    elements: dict[str, list[object]] = {}
    for name, entry in _parsed(page).items():
        kind, _, number = name.rpartition("_")
        known = entry if isinstance(entry, dict) else {}
        rows = known[kind] if isinstance(known.get(kind), list) else []
        cells = [cell for row in rows for cell in (row if isinstance(row, list) else [row])]
        cells = [cell for cell in cells if isinstance(cell, dict)]
        elements |= {str(cell.get("id")): [cell.get("value")] for cell in cells}
        whole: dict[str, tuple[str, list[object]]] = {
            "sentence": (name, [entry]),
            "section": (name, [known.get("value")]),
            "table": (f"table_caption_{number}", [known.get("caption")]),
            "list": (name, [cell.get("value") for cell in cells]),
        }
        if kind in whole:
            elements.update([whole[kind]])
    return elements
