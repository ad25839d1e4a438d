"""Tables as Markdown and as aligned text, and untrusted text made safe to show in them.

Claims and evidence come from the open web: they are shown as one printable line without active
Markdown. Nothing here is safe in an HTML attribute or a script.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

import polars as pl
from polars import selectors

# An underscore inside a word emphasises nothing; names such as ``too_easy`` stay readable.
_MARKDOWN_ACTIVE = re.compile(r"([\\`*{}\[\]()#+!|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_FRACTIONS = selectors.float().map_elements("{:.1f}".format, pl.String)
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
    """``text`` as one line of Markdown that is shown literally.

    Truncation happens before escaping, so ``limit`` counts the characters a reader sees.
    The result has no ``<``, no line break, and no unescaped ``|``, bracket or emphasis.
    """
    line = one_line(text, limit)
    escaped = _MARKDOWN_ACTIVE.sub(r"\\\1", line)
    return "".join(_HTML_ACTIVE.get(c, c) for c in escaped)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A GitHub-style table; counts and percentages right-aligned, null as ``–``.

    Every cell is escaped. Format floats before: they are shown as ``str`` gives them.
    """
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(headers))]
    aligned = ("---:" if right else "---" for right in numeric)
    lines = [_row(map(markdown_text, headers)), _row(aligned)]
    lines += [_row(map(_markdown_cell, row)) for row in rows]
    return "\n".join(lines)


def text_table(
    rows: Sequence[Sequence[str]], right: Sequence[bool], rules: Sequence[int] = (1,)
) -> str:
    """Rows as aligned text, columns flagged in ``right`` to the right.

    ``rules`` are row numbers, negative from the end, above which a line is drawn.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]
    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    for number in sorted((n if n >= 0 else len(rows) + n for n in rules), reverse=True):
        lines.insert(number, rule)
    return "\n".join(lines)


def frame_markdown(frame: pl.DataFrame) -> str:
    """A small frame as a Markdown table, fractions to one decimal."""
    return markdown_table(frame.columns, frame.with_columns(_FRACTIONS).rows())


def frame_text(frame: pl.DataFrame, *, last_is_total: bool = False) -> str:
    """A small frame as aligned text, numbers to the right, fractions to one decimal."""
    rows = [
        [_text_cell(value) for value in row] for row in frame.with_columns(_FRACTIONS).iter_rows()
    ]
    right = [dtype.is_numeric() for dtype in frame.dtypes]
    return text_table([frame.columns, *rows], right, (1, -1) if last_is_total else (1,))


def count(value: int | None) -> str:
    """A row count: ``12,345``, or ``–`` where there is none."""
    return "–" if value is None else f"{value:,}"


def share(part: int, whole: int) -> str:
    """``part`` of ``whole`` in percent, one decimal; ``–`` where ``whole`` is 0."""
    return "–" if whole == 0 else f"{100 * part / whole:.1f} %"


def _text_cell(value: object) -> str:
    return count(value) if isinstance(value, int | None) else one_line(str(value))


def _markdown_cell(value: object) -> str:
    return count(value) if isinstance(value, int | None) else markdown_text(str(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | None) or str(value).endswith(" %")


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
