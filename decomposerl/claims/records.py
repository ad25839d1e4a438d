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
MAX_INTEGER_BITS = 1_000
"""A longer number is no id, label or count, and Python refuses to print far longer ones."""
# Time is linear: a file that sends the reader back over more than this multiple of its text (and
# this many characters more) is refused.
_AGAIN, _AGAIN_BYTES = 20, 1_000_000
_ENDLESS = "too many quotes that do not close"
_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")  # what such bytes become when they are escaped
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")

# The library's own limit, 128 kB, is a long article; a longer cell has lost its closing quote.
csv.field_size_limit(MAX_LINE_BYTES)


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
    rows = _rows(lines, delimiter)
    taken, header, why = next(rows, ([(1, "")], [], "there is none"))
    if why := _header_fault(header, taken[0][1]) or why:
        yield Reject(path, 0, "", "unreadable_file", f"header: {why}")
        return
    for taken, cells, why_none in rows:
        (number, first), (last, _), why = taken[0], taken[-1], why_none
        if not why and len(cells) != len(header):
            place = f" in lines {number} to {last}" if last > number else ""
            why = f"{len(cells)} cells, not {len(header)}{place}"
        fields = {} if why else dict(zip(header, cells, strict=True))
        if why == _ENDLESS:
            yield Reject(path, 0, "", "unreadable_file", f"line {number}: {why}")
        elif why:
            yield Reject(path, number, "", "malformed_line", f"{why}: {excerpt(first)}")
        elif (name := broken_field(fields)) is not None:
            yield Reject(path, number, name, "broken_encoding", excerpt(str(cells)))
        else:
            yield Record(path, number, fields)


def _rows(
    lines: Iterable[bytes], delimiter: str
) -> Iterator[tuple[list[tuple[int, str]], list[str], str]]:
    """The numbered lines of each row that is not blank, its cells, and why it has none."""
    unread = (
        (number, line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape"))
        for number, line in enumerate(lines, start=1)
    )
    taken, again = list[tuple[int, str]](), deque[tuple[int, str]]()
    read = returned = 0

    def physical() -> Iterator[str]:
        while line := again.popleft() if again else next(unread, None):
            taken.append(line)
            yield line[1]

    rows = csv.reader(physical(), delimiter=delimiter, strict=True)
    while True:
        taken.clear()
        try:
            cells, why = next(rows, None), ""
        except csv.Error as error:
            cells, why = [], str(error)
        if cells is None:
            return
        read += sum(len(line) for _, line in taken)
        if why:  # the lines after the first are read again
            again.extendleft(reversed(taken[1:]))
            returned += sum(len(line) for _, line in taken[1:])
            if returned > _AGAIN * (read - returned) + _AGAIN_BYTES:
                yield taken, [], _ENDLESS
                return
            rows = csv.reader(physical(), delimiter=delimiter, strict=True)
        if cells or why:
            yield taken, cells, why


def _header_fault(names: Sequence[str], line: str) -> str:
    """Why a header cannot name the cells of a row; empty where it can."""
    if "\r" in line.rstrip("\r\n"):
        return "lines end in a carriage return alone"
    if broken_field(dict.fromkeys(names)) is not None:
        return "not UTF-8"
    # Blank names may repeat: spreadsheets write them for empty columns, and nothing reads them.
    twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    return "" if twice is None else f"repeats the column {excerpt(twice)}"
