"""The style of all figures: palette (Okabe and Ito's), hatches, small multiples, legend, PNG, SVG.

``pyplot`` and its global state are not used, so figures can be drawn in any thread. Whatever a
colour says, a hatch, a marker or a line style says too, so that a print without colours is read.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from decomposerl.reports.tables import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222222"
GREY = "#8A8A8A"
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#CC79A7", "#0072B2")
REST = "#B5B5B5"
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "oo", "||||")
"""One for each colour of the palette, and the last for what has no colour."""
_DPI = 100
_COLOURS = 128
_LIGHTER = 0.35
_SALT = "decomposerl"
"""Of the ids in an SVG, which matplotlib else draws at random."""


class Drawn(NamedTuple):
    """A figure in both formats; equal figures give equal bytes with the same matplotlib."""

    svg: bytes
    png: bytes


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """An empty figure, size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    return figure, quiet_axes(figure.add_subplot())


def new_grid(
    width: float, height: float, rows: int, columns: int, *, shared_x: bool = True
) -> "tuple[Figure, list[list[Axes]]]":
    """An empty figure of small multiples, row by row; size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=shared_x, squeeze=False)
    return figure, [[quiet_axes(axes) for axes in line] for line in grid]


def quiet_axes(axes: "Axes") -> "Axes":
    """The same axes in the house's style."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(labelsize=10, colors=INK, length=3)
    axes.xaxis.label.set(size=11, color=INK)
    axes.yaxis.label.set(size=11, color=INK)
    axes.xaxis.set_major_formatter(thousands)
    return axes


def thousands(value: float, _position: float = 0) -> str:
    """A tick label: ``12,000`` (an axis of names keeps its own labels)."""
    return f"{value:,.10g}"


def label_text(text: str, limit: int | None = None) -> str:
    """A name as a figure's label: one line, no mathematics; □ for what the font lacks."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    line = "".join(c if font.get_char_index(ord(c)) else "□" for c in one_line(text, limit))
    return line.replace("$", r"\$")


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """A legend above the axes, where it hides no data; a label of several axes appears once."""
    if axes.get_legend_handles_labels()[1]:
        drawn = [each.get_legend_handles_labels() for each in figure.axes]
        marks = {
            label: mark
            for marks, labels in drawn
            for mark, label in zip(marks, labels, strict=True)
        }
        figure.legend(
            [*marks.values()],
            [*marks],
            loc="outside upper left",
            ncols=columns,
            fontsize=9.5,
            frameon=False,
        )


def source_colours(sources: Sequence[str]) -> dict[str, str]:
    """A colour for each source, by size; beyond the palette they share one grey."""
    return {s: PALETTE[i] if i < len(PALETTE) else REST for i, s in enumerate(sources)}


def source_legend(sources: Sequence[str]) -> dict[str, str]:
    """Labels of the legend with their colours; the grey sources share one label."""
    named = dict(list(source_colours(sources).items())[: len(PALETTE)])
    rest = len(sources) - len(named)
    return named | ({f"{rest} smaller sources": REST} if rest > 0 else {})


def source_hatches(sources: Sequence[str]) -> dict[str, str]:
    """A hatch for each source, beside its colour; beyond the palette they share the last."""
    return {s: HATCHES[min(i, len(PALETTE))] for i, s in enumerate(sources)}


def filled(colour: str) -> str:
    """The colour for an area, lighter than for a line, so that its hatch is seen."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + _LIGHTER * (255 - part)):02X}" for part in parts)


def drawn(figure: "Figure") -> Drawn:
    """The figure as SVG and as PNG."""
    return Drawn(_svg(figure), png(figure))


def _svg(figure: "Figure") -> bytes:
    """Letters are outlines, so that no font is needed; a reader's text is an image's ``alt``."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = _SALT  # the same in every thread
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    return picture.getvalue()


def png(figure: "Figure") -> bytes:
    """The figure as a PNG of few colours; equal figures give equal bytes."""
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    picture = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    picture.save(packed, format="png", optimize=True)
    return packed.getvalue()
