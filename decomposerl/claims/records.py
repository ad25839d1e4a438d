"""Native bytes to records: JSON lines, JSON arrays and objects, comma- or tab-separated text.

Readers take lines or bytes and give ``Record | Reject`` in file order. A broken line is one reject
and its neighbours are read. A broken array or object is one reject of the file (row 0) with the
place where it breaks: what follows such a place cannot be told from what belongs to it. Files are
opened in ``resources/corpora/folder.py``.
"""

import csv
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from decomposerl.claims.claim import Record, Reject, RejectReason

EXCERPT_CHARS = 120
MAX_LINE_BYTES = 64_000_000
"""A longer physical line is one reject; a reader may discard the rest of the line."""
MAX_ROW_LINES = 1_000_000
"""A row of more lines, or of more than ``MAX_LINE_BYTES``, has lost its closing quote."""
MAX_INTEGER_BITS = 1_000
"""A longer number is no id, label or count, and Python refuses to print far longer ones."""
# Time is linear: a file that sends the reader back over more than this multiple of its bytes (and
# this many bytes more) is refused.
_AGAIN, _AGAIN_BYTES = 20, 1_000_000
_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")  # what such bytes become when they are escaped
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")

csv.field_size_limit(MAX_LINE_BYTES)  # the library's own limit, 128 kB, is a long article


def excerpt(text: str) -> str:
    """The first characters of ``text`` on one line, safe to store as UTF-8."""
    short = text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS] + "…"
    return " ".join(short.encode("utf-8", "replace").decode("utf-8").split())


def broken_field(fields: Mapping[str, object]) -> str | None:
    """The first field whose text UTF-8 cannot hold (a lone surrogate); None if all can."""
    for name, value in fields.items():
        if isinstance(value, str) and value.isascii() and name.isascii():
            continue
        try:
            json.dumps([name, value], ensure_ascii=False).encode("utf-8")
        except (UnicodeEncodeError, RecursionError):  # nested too deeply to look into
            return excerpt(name)
    return None


def jsonl_records(path: str, lines: Iterable[bytes]) -> Iterator[Record | Reject]:
    """One JSON object per line; blank lines are no rows, but count in line numbers."""
    for row, line in enumerate(lines, start=1):
        if line.strip():
            yield _json_line(path, row, line)


def _json_line(path: str, row: int, line: bytes) -> Record | Reject:
    if len(line) > MAX_LINE_BYTES:
        return Reject(path, row, "", "malformed_line", f"longer than {MAX_LINE_BYTES:,} bytes")
    text = line.decode("utf-8-sig" if row == 1 else "utf-8", "surrogateescape")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason: RejectReason = "broken_encoding" if _NOT_UTF8.search(text) else "malformed_line"
        return Reject(path, row, "", reason, f"{error}: {excerpt(text)}")
    return _json_row(path, row, value, suspicious=_SURROGATE.search(text) is not None)


def _json_row(path: str, row: int, value: object, *, suspicious: bool) -> Record | Reject:
    if not isinstance(value, dict):
        kind = type(value).__name__
        return Reject(path, row, "", "malformed_line", f"not an object but {kind}")
    field = broken_field(value) if suspicious else None
    if field is not None:
        return Reject(path, row, field, "broken_encoding", "not UTF-8, or half a surrogate pair")
    return Record(path, row, value)


def json_records(path: str, data: bytes, *, keyed: bool = False) -> Iterator[Record | Reject]:
    """The elements of a JSON array, or the values of an object that is ``keyed``, from row 1.

    Each record of an object gains ``_key``, its key in the object; a value that is a plain string
    becomes ``_value``, and a repeated key is a second row. Where an array was promised, a file that
    opens with a brace is read as JSON lines, because some corpora are published both ways.
    """
    if not keyed and data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        yield from jsonl_records(path, data.split(b"\n"))
        return
    text = data.decode("utf-8-sig", "surrogateescape")
    pairs: list[tuple[str, object]] = []

    def remember(made: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal pairs
        pairs = made  # the last object that ends is the outermost
        return dict(made)

    try:
        whole = json.loads(text, object_pairs_hook=remember if keyed else None)
    except (ValueError, RecursionError) as error:
        yield Reject(path, 0, "", "unreadable_file", f"not JSON: {error}")
        return
    if not isinstance(whole, dict if keyed else list):
        what = "an object" if keyed else "an array"
        yield Reject(path, 0, "", "unreadable_file", f"not {what} of JSON")
        return
    suspicious = _SURROGATE.search(text) is not None
    for row, value in enumerate(map(_keyed, pairs) if keyed else whole, start=1):
        yield _json_row(path, row, value, suspicious=suspicious)


def _keyed(pair: tuple[str, object]) -> object:
    key, value = pair
    if isinstance(value, str):  # a word a key, as in answer files
        value = {"_value": value}
    return {**value, "_key": key} if isinstance(value, dict) else value


def delimited_records(
    path: str, lines: Iterable[bytes], delimiter: str
) -> Iterator[Record | Reject]:
    """One record per row, keyed by the header's names; every cell is text.

    ``row`` is the number of the physical line on which a row begins, so the header is row 1. Blank
    lines are no rows. A row whose quotes do not close is rejected alone: reading goes on with the
    line after the one that opened it.
    """
    text = _Lines(lines)
    rows = _cells(text, delimiter)
    header, why = next(rows, ([], "there is none"))
    if why := _header_fault(header, "".join(line for _, line in text.taken[:1])) or why:
        yield Reject(path, 0, "", "unreadable_file", f"header: {why}")
        return
    for cells, why_none in rows:
        (number, first), last, why = text.taken[0], text.taken[-1][0], why_none
        if why and not text.read_again():
            detail = f"line {number}: too many quotes that do not close"
            yield Reject(path, 0, "", "unreadable_file", detail)
            return
        if not why and len(cells) != len(header):
            place = f" in lines {number} to {last}" if last > number else ""
            why = f"{len(cells)} cells, not {len(header)}{place}"
        fields = {} if why else dict(zip(header, cells, strict=True))
        if why:
            yield Reject(path, number, "", "malformed_line", f"{why}: {excerpt(first)}")
        elif (name := broken_field(fields)) is not None:
            yield Reject(path, number, name, "broken_encoding", excerpt(str(cells)))
        else:
            yield Record(path, number, fields)


def _cells(text: "_Lines", delimiter: str) -> Iterator[tuple[list[str], str]]:
    """The cells of each row that is not blank, and why it is none."""
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    while True:
        text.taken.clear()
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield [], str(error)
            continue
        if cells is None:
            return
        if cells:
            yield cells, ""


def _header_fault(names: Sequence[str], line: str) -> str:
    """Why a header cannot name the cells of a row; empty where it can."""
    if "\r" in line.rstrip("\r\n"):
        return "lines end in a carriage return alone"
    if broken_field(dict.fromkeys(names)) is not None:
        return "not UTF-8"
    # Blank names may repeat: spreadsheets write them for empty columns, and nothing reads them.
    twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    return "" if twice is None else f"repeats the column {excerpt(twice)}"


class _Lines:
    """Physical lines as text; ``taken`` are those of the row that is being read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = enumerate(lines, start=1)
        self._waiting: deque[tuple[int, str]] = deque()
        self._credit, self._chars = _AGAIN_BYTES, 0
        self.taken: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._waiting:
            number, line = next(self._lines)
            self._credit += _AGAIN * len(line)
            text = line.decode("utf-8", "surrogateescape")
            self._waiting.append((number, text.removeprefix("\ufeff") if number == 1 else text))
        self._chars = self._chars if self.taken else 0
        self.taken.append(self._waiting.popleft())
        text = self.taken[-1][1]
        self._chars += len(text)
        if self._chars > MAX_LINE_BYTES or len(self.taken) > MAX_ROW_LINES:
            raise csv.Error("a long line or an unclosed quote")
        return text

    def read_again(self) -> bool:
        """Give back the lines after a row's first; false once that would take too long."""
        self._waiting.extendleft(reversed(self.taken[1:]))
        self._credit -= sum(len(line) for _, line in self.taken[1:])
        return self._credit >= 0
