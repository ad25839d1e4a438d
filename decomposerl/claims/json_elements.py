"""Rows of one big JSON array or object, where one broken element costs only itself.

Elements are decoded one by one, so that a sound file is parsed once and a repeated key of an
object stays visible as a second row. Where an element does not parse, the scanner looks for the
next one: at the balanced end of the broken element, or at the next position that opens an object
with the first key of its siblings. A sound string cannot hold such a position, because a quote in
it would be escaped.

Time is linear in the file: looking beyond the position where reading resumes is paid from
``CREDIT`` steps a file and ``CREDIT_PER_CHAR`` steps a character (a step is about 5 ns). In a file
so broken that it spends them, an element ends where its next sibling opens.
"""

import json
import re
from collections.abc import Iterator

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.json_siblings import STRING, Siblings, balanced_end
from decomposerl.claims.records import broken_field, excerpt, jsonl_records, may_hold_surrogates

CREDIT = 20_000_000
CREDIT_PER_CHAR = 20

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_KEY_NEXT = re.compile(rf",\s*+{STRING}\s*+:", re.DOTALL)
_SCAN_STEPS = 40  # of one character that is scanned for brackets
_WINDOW_CHARS = 4_096
_CUT_CHARS = 16  # an error this near to the end of a window may be due to that end


def array_records(path: str, data: bytes, cut: str | None = None) -> Iterator[Record | Reject]:
    """The elements of a JSON array; ``row`` counts elements from 1.

    ``cut`` gives the reason why the stream ended early, if it did. A file that opens with a
    brace is read as JSON lines, because some corpora are published both ways.
    """
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return jsonl_records(path, data.split(b"\n"))
    return _whole(path, data, cut, keyed=False)


def object_records(path: str, data: bytes, cut: str | None = None) -> Iterator[Record | Reject]:
    """The values of a JSON object; each record gains ``_key``, its key in the object.

    A value that is a plain string becomes ``_value``.
    """
    return _whole(path, data, cut, keyed=True)


def _whole(path: str, data: bytes, cut: str | None, *, keyed: bool) -> Iterator[Record | Reject]:
    try:
        text, broken = data.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        text, broken = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff"), True
    scanner = _Scanner(path, text, keyed=keyed, suspicious=broken or may_hold_surrogates(text))
    last: Record | Reject | None = None
    for last in scanner.elements():
        yield last
    reported = isinstance(last, Reject) and last.reason in {"truncated_file", "unreadable_file"}
    if cut is not None and not reported:
        yield Reject(path, last.row + 1 if last else 1, "", "truncated_file", cut)


class _Scanner:
    """Walks one decoded text element by element."""

    def __init__(self, path: str, text: str, *, keyed: bool, suspicious: bool) -> None:
        self._path, self._text, self._keyed, self._suspicious = path, text, keyed, suspicious
        self._open, self._close = ("{", "}") if keyed else ("[", "]")
        self._siblings = Siblings(text, keyed=keyed)
        self._credit = CREDIT + CREDIT_PER_CHAR * len(text)

    @property
    def _spent(self) -> bool:
        return self._siblings.spent > self._credit

    def elements(self) -> Iterator[Record | Reject]:
        """Every element in order, sound or not."""
        position, row = self._skip(0), 0
        if not self._text.startswith(self._open, position):
            what = "an object" if self._keyed else "an array"
            yield Reject(self._path, 0, "", "unreadable_file", f"not {what} of JSON")
            return
        following: int | None = position + 1
        while following is not None:
            position = self._skip(following)
            if position >= len(self._text):
                yield Reject(self._path, row + 1, "", "truncated_file", "the end is missing")
                return
            if self._text[position] == self._close:
                if self._skip(position + 1) == len(self._text):
                    return
                following = self._sibling(position)
                if following is None:
                    yield self._malformed(row + 1, position, "text after the end")
                continue
            row += 1
            outcome, following = self._element(row, position)
            yield outcome

    def _element(self, row: int, position: int) -> tuple[Record | Reject, int | None]:
        """One element and where the next begins; None where nothing follows."""
        parsed = self._parse(position)
        if parsed is not None:
            key, value, end = parsed
            following = self._after(end)
            if following is not None:
                return self._judge(row, position, end, key, value), following
        following, open_string = self._resume(position)
        if following is None and not (open_string and self._closed()):
            reject = Reject(self._path, row, "", "truncated_file", "ends inside an element")
            return reject, None
        return self._malformed(row, position, "not JSON"), following

    def _parse(self, position: int) -> tuple[str | None, object, int] | None:
        key: object = None
        limit = self._siblings.opening(position)[0] if self._spent else len(self._text)
        if self._keyed:
            parsed = self._value(position, limit)
            key, position = parsed if parsed is not None else (None, position)
            position = self._skip(position)
            if not isinstance(key, str) or not self._text.startswith(":", position):
                return None
            position = self._skip(position + 1)
        parsed = self._value(position, limit)
        return None if parsed is None else (key if isinstance(key, str) else None, *parsed)

    def _value(self, position: int, limit: int) -> tuple[object, int] | None:
        """The JSON value at ``position`` and its end, decoded from windows of growing size."""
        size = _WINDOW_CHARS
        while True:
            window = self._text[position : min(position + size, limit)]
            whole = position + size >= limit
            try:
                value, end = _DECODER.raw_decode(window)
            except json.JSONDecodeError as error:
                open_string = error.msg.startswith("Unterminated")
                self._siblings.spent += size if open_string else error.pos
                if whole or not (open_string or error.pos > size - _CUT_CHARS):
                    return None
            except (ValueError, RecursionError):
                self._siblings.spent += len(window)
                return None
            else:
                if whole or end <= size - _CUT_CHARS:
                    return value, position + end
            size *= 4

    def _after(self, end: int) -> int | None:
        """Where the next element begins after a sound one; None if this was no clean end."""
        position = self._skip(end)
        mark = self._text[position : position + 1]
        if mark == ",":
            # In an array a key cannot follow: the element was closed too early.
            early = not self._keyed and _KEY_NEXT.match(self._text, position)
            return None if early else position + 1
        # Also a missing comma: the element itself is whole.
        return position if mark in {"", self._close, "{"} else None

    def _judge(
        self, row: int, start: int, end: int, key: str | None, value: object
    ) -> Record | Reject:
        if key is not None and isinstance(value, str):  # a word a key, as in answer files
            value = {"_value": value}
        elif not isinstance(value, dict):
            return self._malformed(row, start, "not an object")
        elif value:
            self._siblings.remember(next(iter(value)))
        fields = value if key is None else {**value, "_key": key}
        field = broken_field(fields) if self._suspicious else None
        if field is not None:
            detail = excerpt(self._text[start:end])
            return Reject(self._path, row, field, "broken_encoding", detail)
        return Record(self._path, row, fields)

    def _closed(self) -> bool:
        """Whether the text ends like a complete file: an object, then the bracket."""
        rest = self._text.rstrip()
        return rest.endswith(self._close) and rest[:-1].rstrip().endswith("}")

    def _resume(self, start: int) -> tuple[int | None, bool]:
        """Position of the element after a broken one, or of the closing bracket.

        None where nothing follows; the second value: whether the text ends in a string.
        """
        search = balanced_end(self._siblings, start, self._close, brief=self._spent)
        if search.end is None:
            chosen = search.sibling or self._sibling(start)
        else:
            chosen = self._chosen(start, search.sibling, search.end)
        if chosen is not None:
            self._siblings.spent += _SCAN_STEPS * max(0, search.reach - chosen)
        return chosen, search.open_string

    def _chosen(self, start: int, sibling: int | None, end: int) -> int:
        """The element's balanced end, or a sibling; one before that end may be part of it."""
        following = end + 1 if self._text[end] == "," else end
        if self._sound_next(end):
            return following
        opens = '"' if self._keyed else "{"
        if sibling is None:
            plausible = self._text[end] == "," and self._text.startswith(opens, self._skip(end + 1))
            if not (plausible or self._spent):
                sibling = self._sibling(start)
        return following if sibling is None else sibling

    def _sibling(self, start: int) -> int | None:
        return self._siblings.known(start, self._siblings.own_key(start))

    def _sound_next(self, end: int) -> bool:
        if self._text[end] == self._close:
            return self._skip(end + 1) == len(self._text)
        parsed = self._parse(self._skip(end + 1))
        return parsed is not None and isinstance(parsed[1], dict)

    def _skip(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match else position

    def _malformed(self, row: int, position: int, why: str) -> Reject:
        detail = f"{why}: {excerpt(self._text[position : position + 200])}"
        return Reject(self._path, row, "", "malformed_line", detail)
