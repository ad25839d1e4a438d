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
import re
import sqlite3
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from decomposerl.claims.passages import with_entities, without_entities
from decomposerl.claims.source import DamagedPage
from decomposerl.errors import SourceFileError
from decomposerl.normal_form import normalised
from resources.store.paths import regular_file

Made = TypeVar("Made")
Layout = Literal["fever", "text", "feverous"]

_BRACKET_CODES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}
# An opening without its end is matched as far as it was read, and kept: linear time.
_LINK = re.compile(r"\[\[[^\]|]*+(?:\|([^\]]*+)(\]\])?)?")
_FORMS: tuple[Literal["NFD", "NFC"], ...] = ("NFD", "NFC")
_CACHED_PAGES, CACHED_CHARACTERS = 512, 20_000_000
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
            # Threads share the connection: every query runs under the lock of a cache.
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            weakref.finalize(self, self._connection.close)
            self._connection.text_factory = _lenient
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_PAGE_BYTES)
            self.layout: Layout = self._recognised()
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or error
            raise SourceFileError(f"page database {path.name}: {why}") from error
        self._page = _RecentCache(self._lookup, lambda _, page: len(page or ""))
        self._json = _RecentCache(_parsed, lambda text, _: len(text))

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The page's sentences, index = native sentence number; None if there is no page.

        Raises:
            DamagedPage: the page exists but cannot be read.
        """
        page = self._page(title)
        if page is None:
            return None
        if self.layout == "fever":
            return _numbered_lines(page)
        if self.layout == "text":
            return tuple(line.strip() for line in page.splitlines())
        return _feverous_sentences(self._json(page))

    def element(self, title: str, element_id: str) -> str | None:
        """The text of one FEVEROUS element of a page, links reduced to their anchor text.

        Elements: ``title``, ``sentence_N``, ``section_N``, ``table_caption_N``, ``table_N``,
        ``list_N``, ``cell_T_R_C``, ``header_cell_T_R_C`` and ``item_L_N``. In the other two
        layouts only ``title`` and ``sentence_N`` exist.

        Raises:
            DamagedPage: the page exists but cannot be read.
        """
        page = self._page(title)
        if page is None:
            return None
        if element_id == "title":
            return title
        if self.layout == "feverous":
            return _feverous_element(self._json(page), element_id)
        kind, _, number = element_id.rpartition("_")
        sentences = self.sentences(title) or ()
        index = _index(number) if kind == "sentence" else None
        return sentences[index] if index is not None and index < len(sentences) else None

    def _recognised(self) -> Layout:
        views = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'view' AND name IN ('wiki', 'documents')"
        ).fetchall()
        if views:
            why = f"{views[0][0]} is a view; the pages must be in a table"
            raise SourceFileError(f"page database {self._path.name}: {why}")
        columns = {
            table: {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
            for table in ("wiki", "documents")
        }
        if {"id", "data"} <= columns["wiki"]:
            return "feverous"
        if {"id", "lines"} <= columns["documents"]:
            return "fever"
        if {"id", "text"} <= columns["documents"]:
            return "text"
        wanted = "documents(id, text[, lines]) or wiki(id, data)"
        raise SourceFileError(f"page database {self._path.name}: no table {wanted}")

    def _lookup(self, title: str) -> str | None:
        column = {"feverous": "data", "fever": "lines", "text": "text"}[self.layout]
        table = "wiki" if self.layout == "feverous" else "documents"
        query = f"SELECT {column} FROM {table} WHERE id = ?"  # noqa: S608 - constants above
        try:
            for spelling in spellings(title):
                row = self._connection.execute(query, (spelling,)).fetchone()
                if row is not None:
                    return self._text(title, row[0])
        except UnicodeEncodeError:
            return None  # a lone surrogate is no part of any title
        except (sqlite3.Error, MemoryError) as error:
            raise DamagedPage(f"{self._path.name}: page {title!r:.80}: {error}") from error
        return None

    def _text(self, title: str, content: object) -> str:
        if content is None:
            return ""
        if isinstance(content, bytes):
            return _lenient(content)
        if isinstance(content, str):
            return content
        kind = type(content).__name__
        raise DamagedPage(f"{self._path.name}: page {title!r:.80} is no text but {kind}")


class _RecentCache(Generic[Made]):
    """A least-recently-used cache, bounded by entries and by characters."""

    def __init__(self, make: Callable[[str], Made], size: Callable[[str, Made], int]) -> None:
        self._make, self._size_of = make, size
        self._kept: OrderedDict[str, tuple[Made, int]] = OrderedDict()
        self._size, self._lock = 0, threading.Lock()

    def __call__(self, key: str) -> Made:
        with self._lock:  # held while a value is made, so that no page is read twice
            if key not in self._kept:
                made = self._make(key)
                self._kept[key] = made, self._size_of(key, made)
                self._size += self._kept[key][1]
            self._kept.move_to_end(key)
            while len(self._kept) > _CACHED_PAGES or (
                self._size > CACHED_CHARACTERS and len(self._kept) > 1
            ):
                self._size -= self._kept.popitem(last=False)[1][1]
            return self._kept[key][0]


def spellings(title: str) -> Iterator[str]:
    """The spellings that a title may have in a database, most literal first, each once."""
    plain, marked = title, title
    for mark, character in _BRACKET_CODES.items():
        plain, marked = plain.replace(mark, character), marked.replace(character, mark)
    swapped = (text.replace(*swap) for text in (plain, marked) for swap in ("_ ", " _"))
    texts = (title, *swapped)
    entities = (change(text) for change in (with_entities, without_entities) for text in texts)
    forms = (
        form
        for text in (*texts, *entities)
        for form in (text, *(normalised(name, text) for name in _FORMS))
    )
    yield from dict.fromkeys(forms)


def _index(number: str) -> int | None:
    """A native sentence number; None where the text is none."""
    return int(number) if number.isdecimal() and len(number) <= _MAX_DIGITS else None


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _numbered_lines(lines: str) -> tuple[str, ...]:
    sentences: dict[int, str] = {}
    for line in lines.split("\n"):
        number, *rest = line.split("\t")
        index = _index(number)
        if index is not None and index < _MAX_SENTENCES:
            sentences.setdefault(index, rest[0].strip() if rest else "")
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
    text = _LINK.sub(lambda m: m[1] if m[2] else m[0], value) if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8").strip()


def _feverous_sentences(page: dict[str, Any]) -> tuple[str, ...]:
    keys = (key.removeprefix("sentence_") for key in page if key.startswith("sentence_"))
    numbers = [index for index in map(_index, keys) if index is not None]
    last = min(max(numbers, default=-1), _MAX_SENTENCES)
    return tuple(_clean(page.get(f"sentence_{index}")) for index in range(last + 1))


def _feverous_element(page: dict[str, Any], element_id: str) -> str | None:
    kind, _, tail = element_id.partition("_")
    number = tail.removeprefix("cell_").partition("_")[0]
    if kind in {"cell", "header"}:
        return _with_id(_cells(page, f"table_{number}"), element_id)
    if kind == "item":
        return _with_id(_items(page, f"list_{number}"), element_id)
    if element_id.startswith("table_caption_"):
        table = f"table_{tail.removeprefix('caption_')}"
        return _clean(_entry(page, table).get("caption")) if table in page else None
    return _whole_entry(page, kind, element_id) if element_id in page else None


def _whole_entry(page: dict[str, Any], kind: str, key: str) -> str | None:
    if kind == "sentence":
        return _clean(page[key])
    if kind == "section":
        return _clean(_entry(page, key).get("value"))
    if kind == "table":
        lines = (" | ".join(_clean(cell.get("value")) for cell in row) for row in _rows(page, key))
        return "\n".join(lines)
    if kind == "list":
        return "\n".join(_clean(item.get("value")) for item in _items(page, key))
    return None


def _entry(page: dict[str, Any], key: str) -> dict[str, Any]:
    entry = page.get(key)
    return entry if isinstance(entry, dict) else {}


def _cells(page: dict[str, Any], table: str) -> list[dict[str, Any]]:
    return [cell for row in _rows(page, table) for cell in row]


def _rows(page: dict[str, Any], table: str) -> list[list[dict[str, Any]]]:
    rows = (row for row in _list(_entry(page, table), "table") if isinstance(row, list))
    return [[cell for cell in row if isinstance(cell, dict)] for row in rows]


def _items(page: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [item for item in _list(_entry(page, key), "list") if isinstance(item, dict)]


def _list(entry: dict[str, Any], key: str) -> list[object]:
    value = entry.get(key)
    return value if isinstance(value, list) else []


def _with_id(entries: list[dict[str, Any]], element_id: str) -> str | None:
    return next((_clean(e.get("value")) for e in entries if e.get("id") == element_id), None)
