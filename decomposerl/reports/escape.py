"""Untrusted text made safe to show: on a terminal line, in a Markdown table.

Takes any string (claims and evidence come from the open web) and gives one printable line.
Left out deliberately: HTML pages; nothing here is meant for an attribute or a script.
"""

import re
import unicodedata
from collections.abc import Sequence

# An underscore inside a word emphasises nothing; names such as ``too_easy`` stay readable.
_MARKDOWN_ACTIVE = re.compile(r"([\\`*{}\[\]()#+!|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_HTML_ACTIVE = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def one_line(text: str, limit: int | None = None) -> str:
    """``text`` on one line, at most ``limit`` characters, the last one ``…`` where cut.

    Control, format (bidirectional overrides, escape sequences) and line-separating
    characters become spaces; runs of white space become one space.
    """
    visible = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in text)
    line = " ".join(visible.split())
    if limit is None or len(line) <= limit:
        return line
    return line[: max(limit - 1, 0)].rstrip() + "…"


def markdown_text(text: str, limit: int | None = None) -> str:
    """``text`` as one line of Markdown that shows as itself.

    Truncation happens before escaping, so ``limit`` counts the characters a reader sees.
    The result holds no ``<``, no line break, and no unescaped ``|``, bracket or emphasis.
    """
    line = one_line(text, limit)
    escaped = _MARKDOWN_ACTIVE.sub(r"\\\1", line)
    return "".join(_HTML_ACTIVE.get(c, c) for c in escaped)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A GitHub-style table; numbers and shares right-aligned, null as ``–``.

    Every cell is escaped; floats are shown as they are formatted by the caller (strings).
    """
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(headers))]
    lines = [
        _row([markdown_text(header) for header in headers]),
        _row(["---:" if right else "---" for right in numeric]),
    ]
    lines += [_row([_cell(value) for value in row]) for row in rows]
    return "\n".join(lines)


def count(value: int | None) -> str:
    """A row count for a reader: ``12,345``, or ``–`` where there is none."""
    return "–" if value is None else f"{value:,}"


def share(part: int, whole: int) -> str:
    """``part`` of ``whole`` in percent, one decimal; ``–`` where ``whole`` is 0."""
    return "–" if whole == 0 else f"{100 * part / whole:.1f} %"


def _cell(value: object) -> str:
    if value is None or isinstance(value, int):
        return count(value)
    return markdown_text(str(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | None) or str(value).endswith(" %")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
