"""Rows of comma- or tab-separated text with quoted cells; every cell is text.

``row`` is the number of the physical line on which a row begins, so the header is row 1. Quotes
count only at the start of a cell and are doubled inside it. A row whose quotes do not close is
rejected alone: reading resumes on the physical line after the one that opened it (the standard
library's reader would swallow all later rows into one cell). Memory holds one row: at most
``MAX_LINE_BYTES`` and ``MAX_ROW_LINES``.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from decomposerl.claims.claim import Record, Reject, RejectReason
from decomposerl.claims.records import MAX_LINE_BYTES, Cut, Line, broken_field, excerpt

MAX_ROW_LINES = 1_000_000
"""A row of more lines, or of more than ``MAX_LINE_BYTES``, has lost its closing quote."""
# Time is linear: once the reader was sent back over more than this multiple of the bytes read
# (and this many bytes more), the file is read line by line.
_AGAIN, _AGAIN_BYTES = 20, 1_000_000

Numbered = tuple[int, Line]


def delimited_records(
    path: str, lines: Iterable[Line], delimiter: str
) -> Iterator[Record | Reject]:
    """One record per row, keyed by the header's names; blank lines are no rows."""
    reader = _DelimitedReader(path, lines, delimiter)
    header = reader.header()
    if isinstance(header, Reject):
        yield header
        return
    while (outcome := reader.next_row(header)) is not None:
        yield outcome


class _StrayQuoteError(ValueError):
    """Text follows a closing quote before the next delimiter."""


@dataclass(slots=True)
class _PartialRow:
    """One row under construction from physical lines."""

    delimiter: str
    cells: list[str] = field(default_factory=list)
    inside: list[str] | None = None  # the pieces of an open quoted cell

    def take(self, line: str) -> bool:
        """Add one physical line with its line break; true once the row is complete."""
        body = line.rstrip("\r\n")
        if self.inside is None and '"' not in body:
            self.cells.extend(body.split(self.delimiter))
            return True
        position = 0
        while True:
            if self.inside is not None:
                position = self._quoted(line, position)
                if position < 0 or position >= len(body):
                    return position >= 0
                if body[position] != self.delimiter:
                    raise _StrayQuoteError
                position += 1
            elif body.startswith('"', position):
                self.inside, position = [], position + 1
            else:
                end = body.find(self.delimiter, position)
                self.cells.append(body[position:] if end < 0 else body[position:end])
                if end < 0:
                    return True
                position = end + 1

    def _quoted(self, line: str, position: int) -> int:
        """Read on inside quotes; the index after the closing one, or -1 if still open."""
        pieces = self.inside if self.inside is not None else []
        while True:
            quote = line.find('"', position)
            if quote < 0:
                pieces.append(line[position:])
                return -1
            if not line.startswith('""', quote):
                pieces.append(line[position:quote])
                self.cells.append("".join(pieces))
                self.inside = None
                return quote + 1
            pieces.append(line[position : quote + 1])
            position = quote + 2


class _DelimitedReader:
    """Physical lines in, rows out; the lines of a broken row are read again."""

    def __init__(self, path: str, lines: Iterable[Line], delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        self._lines: Iterator[Numbered] = iter(enumerate(lines, start=1))
        self._given_back: deque[Numbered] = deque()
        self._read, self._again = 0, 0  # bytes taken from the file, bytes given back

    def header(self) -> list[str] | Reject:
        """The column names, or the reject of the file as a whole."""
        outcome = self._cells(width=None)
        if outcome is None or isinstance(outcome, Reject):
            why = "no header" if outcome is None else f"header: {outcome.detail}"
            return Reject(self._path, 0, "", "unreadable_file", why)
        names = [name.removeprefix("\ufeff") for name in outcome[1]]
        fault = _header_fault(names)
        return names if fault is None else Reject(self._path, 0, *fault)

    def next_row(self, header: Sequence[str]) -> Record | Reject | None:
        """The next row; None at the end of the file."""
        outcome = self._cells(width=len(header))
        if outcome is None or isinstance(outcome, Reject):
            return outcome
        number, cells = outcome
        fields = dict(zip(header, cells, strict=True))
        if not all(cell.isascii() for cell in cells):
            name = broken_field(fields)
            if name is not None:
                return Reject(self._path, number, name, "broken_encoding", excerpt(str(cells)))
        return Record(self._path, number, fields)

    def _cells(self, width: int | None) -> tuple[int, list[str]] | Reject | None:
        row, taken, chars = _PartialRow(self._delimiter), list[tuple[int, bytes]](), 0
        while True:
            numbered = self._next_line(inside=bool(taken))
            if numbered is None or isinstance(numbered[1], Cut):
                return self._ended(taken, numbered, width)
            number, line = numbered[0], numbered[1]
            taken.append((number, line))
            chars += len(line)
            if chars > MAX_LINE_BYTES or len(taken) > MAX_ROW_LINES:
                return self._rejected(taken, "a long line or an unclosed quote", resume=True)
            try:
                complete = row.take(_text(number, line))
            except _StrayQuoteError:
                return self._rejected(taken, "text after a closing quote", resume=True)
            if complete:
                break
            if self._again > _AGAIN_BYTES + _AGAIN * self._read:
                return self._rejected(taken, "unclosed quote", resume=False)
        if width is not None and len(row.cells) != width:
            resume = self._row_among(taken[1:], width)
            return self._rejected(taken, f"{len(row.cells)} cells, not {width}", resume=resume)
        return taken[0][0], row.cells

    def _next_line(self, *, inside: bool) -> Numbered | None:
        while True:
            if self._given_back:
                numbered: Numbered | None = self._given_back.popleft()
            else:
                numbered = next(self._lines, None)
                if numbered is not None and isinstance(numbered[1], bytes):
                    self._read += len(numbered[1])
            blank = numbered is not None and numbered[1] in {b"\n", b"\r\n", b""}
            if inside or not blank:
                return numbered

    def _ended(
        self, taken: list[tuple[int, bytes]], last: Numbered | None, width: int | None
    ) -> Reject | None:
        cut = last[1] if last is not None and isinstance(last[1], Cut) else None
        if last is not None and cut is not None and not taken:
            return Reject(self._path, last[0], "", "truncated_file", cut.detail)
        if not taken:
            return None
        resume = width is not None and self._row_among(taken[1:], width)
        if last is not None and cut is not None:
            if not resume:
                return Reject(self._path, taken[0][0], "", "truncated_file", cut.detail)
            self._given_back.append(last)
        return self._rejected(taken, "unclosed quote", resume=resume)

    def _row_among(self, lines: Sequence[tuple[int, bytes]], width: int) -> bool:
        """Whether a line is a complete row: then a quote was left open before it."""
        return any(_stands_alone(_text(*line), self._delimiter, width) for line in lines)

    def _rejected(self, taken: list[tuple[int, bytes]], why: str, *, resume: bool) -> Reject:
        if resume:
            self._given_back.extendleft(reversed(taken[1:]))
            self._again += sum(len(line) for _, line in taken[1:])
        number, line = taken[0]
        detail = f"{why}: {excerpt(_text(number, line))}"
        return Reject(self._path, number, "", "malformed_line", detail)


def _header_fault(names: Sequence[str]) -> tuple[str, RejectReason, str] | None:
    """Field, reason and detail of a header that cannot name the cells of a row."""
    if broken_field(dict.fromkeys(names)) is not None:
        return "", "unreadable_file", "header: not UTF-8"
    if any("\r" in name.replace("\r\n", "") for name in names):
        return "", "unreadable_file", "header: lines end in a carriage return alone"
    # Blank names may repeat: spreadsheets write them for empty columns, and nothing reads them.
    twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    if twice is not None:
        return excerpt(twice), "unreadable_file", f"header: repeats the column {excerpt(twice)}"
    return None


def _text(number: int, line: bytes) -> str:
    text = line.decode("utf-8", "surrogateescape")
    return text.removeprefix("\ufeff") if number == 1 else text


def _stands_alone(line: str, delimiter: str, width: int) -> bool:
    row = _PartialRow(delimiter)
    if line.count('"') % 2:  # the end of a quoted cell, not a line of its own
        return False
    try:
        return row.take(line) and len(row.cells) == width
    except _StrayQuoteError:
        return False
