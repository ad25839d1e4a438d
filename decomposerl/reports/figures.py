"""The funnel's figures as PNG bytes, small enough to be inlined in a page.

Equal frames give equal bytes with the same matplotlib.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import (
    INK,
    REST,
    label_text,
    legend,
    new_figure,
    png,
    source_colours,
    source_legend,
    thousands,
)
from decomposerl.reports.funnel_figure import funnel_png
from decomposerl.reports.stage_tally import counts_by
from decomposerl.schemas import LABELS, VERDICTS, WRITTEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "data_uri",
    "funnel_png",
    "selection_curve_png",
    "selection_figure",
]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", ".")
"""One for each colour of the palette, and the last for what has no colour."""
_LINES: Mapping[str, str] = dict(zip(VERDICTS, ("-", "--", ":"), strict=True))


def selection_curve_png(selected: pl.DataFrame, cells: pl.DataFrame) -> bytes:
    """``selection_figure`` as a PNG."""
    return png(selection_figure(selected, cells))


def selection_figure(
    selected: pl.DataFrame, cells: pl.DataFrame, titles: Mapping[str, str] | None = None
) -> "Figure":
    """How well each selection cell is covered after each of its picks.

    ``selected`` needs ``bucket``, ``selection_rank`` and ``selection_gain``; rows without a rank
    are left out. ``cells`` (``SELECTION_CELLS``) has the size n of each cell, so that cells of all
    sizes share one axis: f(S) / n is the mean cosine of the cell's claims to their nearest pick.
    Colours and markers are sources, shown by ``titles``; Refuted is dashed, a third label dotted.
    """
    curves = _cover_curves(selected, cells)
    sources = list(counts_by(curves, "source"))
    colours = source_colours(sources)
    figure, axes = new_figure(8.0, 4.2)
    by_cell = curves.partition_by("source", "label", as_dict=True, maintain_order=True)
    for (source, label), cell in sorted(by_cell.items(), key=lambda cell: cell[1].height):
        place = min(sources.index(str(source)), len(_MARKERS) - 1)
        axes.plot(
            cell["picked"].to_list(),
            cell["cover"].to_list(),
            linestyle=_LINES[str(label)],
            marker=_MARKERS[place],
            color=colours[str(source)],
            linewidth=1.6,
            markersize=6,
            markevery=[-1],
        )
    for (name, colour), marker in zip(source_legend(sources).items(), _MARKERS, strict=False):
        shown = label_text((titles or {}).get(name, name))
        axes.plot([], [], marker=marker, color=colour, linewidth=3, label=shown)
    for label in [one for one in VERDICTS if one in LABELS or one in set(curves["label"])]:
        axes.plot([], [], _LINES[label], color=INK, label=WRITTEN[label])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(thousands)
    axes.set_xlabel("claims picked in the cell, logarithmic")
    axes.set_ylabel("mean cosine to nearest pick")
    axes.set_ylim(0, 1.02)
    axes.grid(axis="y", color=REST, linewidth=0.5, alpha=0.6)
    legend(figure, axes, columns=4)
    return figure


def _cover_curves(selected: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """``source``, ``label``, ``picked`` and f(S) / n as ``cover``, cell by cell, by source."""
    picks = selected.select("bucket", "selection_rank", "selection_gain").drop_nulls()
    return (
        picks.join(cells.select("bucket", "label", "source", "available"), on="bucket")
        .sort("source", "label", "selection_rank")
        .select(
            "source",
            "label",
            picked=pl.col("selection_rank") + 1,
            cover=(pl.col("selection_gain").cum_sum() / pl.col("available")).over("bucket"),
        )
    )


def data_uri(picture: bytes, alt: str = "figure") -> str:
    """The picture as a Markdown image with the bytes inline."""
    return f"![{alt}](data:image/png;base64,{base64.b64encode(picture).decode('ascii')})"
