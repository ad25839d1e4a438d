"""Native bytes to records: the rows of JSON lines, and what all formats share.

Readers take lines or bytes and give ``Record | Reject`` in file order. A row that cannot be
parsed is quarantined alone; every row beside it survives. Other formats: ``json_elements`` and
``delimited``; files are opened in ``resources/corpora/folder.py``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from decomposerl.claims.claim import Record, Reject

EXCERPT_CHARS = 120
MAX_LINE_BYTES = 64_000_000
"""A longer physical line is one reject; a reader may discard the rest of the line."""
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Cut:
    """The last item of a stream of lines that ended in the middle.

    ``rest`` holds the bytes after the last whole line; ``detail`` gives the cause.
    """

    rest: bytes
    detail: str


Line = bytes | Cut


def excerpt(text: str) -> str:
    """The first characters of ``text`` on one line, safe to store as UTF-8."""
    short = text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS] + "…"
    return " ".join(short.encode("utf-8", "replace").decode("utf-8").split())


def broken_field(fields: Mapping[str, object]) -> str | None:
    """The first field whose text UTF-8 cannot hold (a lone surrogate); None if all can."""
    for name, value in fields.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode("utf-8")
        except (UnicodeEncodeError, RecursionError):  # nested too deeply to look into
            return excerpt(name)
    return None


def may_hold_surrogates(text: str) -> bool:
    """Whether parsing this JSON text may give lone surrogates (a cheap test)."""
    return _ESCAPED_SURROGATE.search(text) is not None


def jsonl_records(path: str, lines: Iterable[Line]) -> Iterator[Record | Reject]:
    """One JSON object per line; blank lines are no rows, but count in line numbers."""
    for row, line in enumerate(lines, start=1):
        if isinstance(line, Cut):
            yield from _cut_line(path, row, line)
        elif line.strip():
            yield _json_line(path, row, line)


def _cut_line(path: str, row: int, cut: Cut) -> Iterator[Record | Reject]:
    # A JSON object ends itself, so a rest that parses is a whole row without its line break.
    whole = _json_line(path, row, cut.rest)
    if isinstance(whole, Record):
        yield whole
        row += 1
    yield Reject(path, row, "", "truncated_file", cut.detail)


def _json_line(path: str, row: int, line: bytes) -> Record | Reject:
    if len(line) > MAX_LINE_BYTES:
        return Reject(path, row, "", "malformed_line", f"longer than {MAX_LINE_BYTES:,} bytes")
    try:
        text = line.decode("utf-8-sig" if row == 1 else "utf-8")
    except UnicodeDecodeError as error:
        return Reject(path, row, _field_of_broken_bytes(line), "broken_encoding", str(error.reason))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Reject(path, row, "", "malformed_line", f"{error}: {excerpt(text)}")
    if not isinstance(value, dict):
        return Reject(path, row, "", "malformed_line", f"not an object: {excerpt(text)}")
    field = broken_field(value) if may_hold_surrogates(text) else None
    if field is not None:
        return Reject(path, row, field, "broken_encoding", "lone surrogate escape")
    return Record(path, row, value)


def _field_of_broken_bytes(line: bytes) -> str:
    try:
        value = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return ""
    return (broken_field(value) or "") if isinstance(value, dict) else ""
