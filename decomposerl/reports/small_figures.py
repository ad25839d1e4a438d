"""Bars, curves and tables in under ``UNFOLDED`` characters of Markdown, which Dagster's pages show.

Longer Markdown is behind a click there. An image is an SVG inside the text, in black and white,
330 px wide: the room that a page has at 1280 px.
"""

from collections.abc import Sequence

from decomposerl.reports.tables import count, markdown_table, markdown_text, one_line

UNFOLDED = 990
"""Most characters of Markdown that are shown without a click; Dagster folds from 1,000 on."""
_WIDTH, _LEFT, _ROW = 330, 176, 16
_LABEL = 24
_PLOT = 90
_POINTS = 40
_ESCAPED = frozenset('%<>#"&\\`{}|^[]')
_DASHES = ("", " stroke-dasharray='5 3'")


def rows_markdown(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with as many of the rows as fit, and how many more there are."""
    for shown in range(len(rows), 0, -1):
        rest = f"\n\nand {len(rows) - shown:,} more" * (shown < len(rows))
        table = markdown_table(headers, rows[:shown]) + rest
        if len(table) <= UNFOLDED:
            return table
    return markdown_table(headers, [])


def bars_markdown(rows: Sequence[tuple[str, int]], alt: str, dark: int = 1) -> str:
    """A bar for each name and count, the first ``dark`` filled and the others outlined.

    Where they do not fit, the last ones are one bar. Counts are at least 0.
    """
    for shown in range(len(rows), 0, -1):
        rest = rows[shown:]
        merged = [(f"{len(rest)} others", sum(n for _, n in rest))] if rest else []
        image = _image(_bars([*rows[:shown], *merged], dark), _ROW * (shown + bool(rest)), alt)
        if len(image) <= UNFOLDED:
            return image
    return markdown_text(alt)


def _bars(rows: Sequence[tuple[str, int]], dark: int) -> str:
    most = max((n for _, n in rows), default=0) or 1
    texts, paths = [], ["", ""]
    for row, (name, number) in enumerate(rows):
        label = f"{one_line(name, _LABEL)} {count(number)}"
        texts.append(f"<text y='{_ROW * row + 12}'>{_xml(label)}</text>")
        wide = max(round((_WIDTH - _LEFT - 1) * number / most), 1 if number else 0)
        paths[row >= dark] += f"M{_LEFT} {_ROW * row + 3}h{wide}v10h-{wide}z"
    drawn = [f"<path d='{paths[0]}'/>", f"<path d='{paths[1]}' fill='none' stroke='black'/>"]
    return "".join([*texts, *(one for one, path in zip(drawn, paths, strict=True) if path)])


def curves_markdown(curves: Sequence[tuple[str, Sequence[float]]], alt: str) -> str:
    """One or two lines over equal steps, the second dashed, each on a scale of its own.

    Least, greatest and last value are below. A longer line is drawn through every n-th step.
    """
    kept = [(name, values) for name, values in curves if values]
    parts = [
        f"<path d='{_line(values)}' fill='none' stroke='black'{dashes}/>"
        for (_, values), dashes in zip(kept, _DASHES, strict=False)
    ]
    for row, (name, values) in enumerate(kept[: len(_DASHES)]):
        dashed = " (dashed)" * (row > 0)
        ends = f"{min(values):.3g} to {max(values):.3g}, last {values[-1]:.3g}"
        label = f"{one_line(name, _LABEL)}{dashed}: {ends}"
        parts.append(f"<text y='{_PLOT + _ROW * row + 14}'>{_xml(label)}</text>")
    return _image("".join(parts), _PLOT + _ROW * len(kept) + 4, alt)


def _line(values: Sequence[float]) -> str:
    every = -(-len(values) // _POINTS)
    shown = [*values[::-1][::every]][::-1]  # the last one always
    low, high = min(values), max(values)
    scale = (high - low) or 1
    across = (_WIDTH - 4) / max(len(shown) - 1, 1)
    points = [
        f"{round(2 + across * place)} {round(_PLOT - 4 - (_PLOT - 8) * ((value - low) / scale))}"
        for place, value in enumerate(shown)
    ]
    return "M" + "L".join(points)


def _image(parts: str, height: int, alt: str) -> str:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' "
        f"style='background:white' font-family='sans-serif' font-size='12'>{parts}</svg>"
    )
    return f"![{markdown_text(alt)}](<data:image/svg+xml,{_quoted(svg)}>)"


def _quoted(text: str) -> str:
    """Percent-encoded where a link in Markdown or a URL needs it, and no further."""
    return "".join(
        c
        if c.isascii() and c.isprintable() and c not in _ESCAPED
        else "".join(f"%{byte:02X}" for byte in c.encode())
        for c in text
    )


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
