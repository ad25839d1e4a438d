"""The funnel's figures as PNG bytes, small enough to be inlined in a page.

Equal frames give equal bytes with the same matplotlib.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import (
    HATCHES,
    INK,
    PALETTE,
    REST,
    filled,
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
    "drops_by_source_png",
    "drops_figure",
    "funnel_png",
    "selection_curve_png",
    "selection_figure",
    "token_histogram_png",
]

_KEPT = PALETTE[-1]
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", ".")
"""One for each colour of the palette, and the last for what has no colour."""
_LINES: Mapping[str, str] = dict(zip(VERDICTS, ("-", "--", ":"), strict=True))


def drops_by_source_png(rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame) -> bytes:
    """One bar per source, stacked: kept, then each drop reason, most frequent first.

    ``rows_in`` and ``kept`` need ``source``; ``drops`` needs ``source`` and ``reason``. Each has
    the rows, or counts of them (``rows``).
    """
    return png(drops_figure(rows_in, kept, drops))


def drops_figure(rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame) -> "Figure":
    """The figure of ``drops_by_source_png``; it is read without its colours too."""
    sources = list(counts_by(rows_in, "source"))
    reasons = list(counts_by(drops, "reason"))
    figure, axes = new_figure(8.0, 1.6 + 0.32 * max(len(sources), 1))
    left = [0] * len(sources)
    for index, part in enumerate(["kept", *reasons]):
        rows = kept if part == "kept" else drops.filter(pl.col("reason") == part)
        counts = counts_by(rows, "source")
        widths = [counts.get(source, 0) for source in sources]
        colour, hatch = _look(index)
        axes.barh(
            sources,
            widths,
            left=left,
            color=colour,
            hatch=hatch,
            edgecolor=INK,
            linewidth=0.5,
            label=f"{part.replace('_', ' ')} ({sum(widths):,})",
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    stayed = counts_by(kept, "source")
    for row, (source, entered) in enumerate(zip(sources, left, strict=True)):
        said = f" {stayed.get(source, 0):,} of {entered:,} kept"
        axes.annotate(said, (entered, row), va="center", fontsize=9, color=INK)
    axes.margins(x=0.22)
    axes.invert_yaxis()
    axes.set_xlabel("claims that entered the stage: kept, then by reason as in the legend")
    legend(figure, axes, columns=3)
    return figure


def _look(part: int) -> tuple[str, str]:
    """Colour and hatch of a part: kept is dark and plain; each reason has a hatch of its own."""
    if part == 0:
        return _KEPT, ""
    hatches = HATCHES[1:]
    again, place = divmod(part - 1, len(hatches))
    return filled(PALETTE[(part - 1) % 6]), hatches[place] + hatches[(place + again) % 7] * again


def token_histogram_png(
    frame: pl.DataFrame, bounds: tuple[int, int] = (200, 10_000), bins: int = 40
) -> bytes:
    """Evidence length of each claim on a logarithmic axis, with the rule's two bounds.

    ``frame`` needs ``evidence_tokens``; its unit is read from ``token_unit`` if present. The axis
    says how many claims were not counted because cheaper bounds decided.
    """
    tokens = frame["evidence_tokens"].drop_nulls().cast(pl.Float64()).clip(lower_bound=1)
    low = min(float(str(tokens.min() or bounds[0])), bounds[0]) * 0.8
    high = max(float(str(tokens.max() or bounds[1])), bounds[1]) * 1.25
    edges = [low * (high / low) ** (i / bins) for i in range(bins + 1)]
    figure, axes = new_figure(8.0, 3.2)
    axes.hist(tokens.to_numpy(), bins=edges, color=_KEPT, edgecolor="white", linewidth=0.5)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    for bound, side in zip(bounds, ("right", "left"), strict=True):
        axes.axvline(bound, color=PALETTE[4], linestyle="--", linewidth=1.4)
        axes.annotate(
            f" {bound:,} ",
            (bound, 0.97),
            xycoords=("data", "axes fraction"),
            ha=side,
            va="top",
            color=PALETTE[4],
            fontsize=10,
        )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    unit = frame["token_unit"][0] if "token_unit" in frame.columns and frame.height else "tokens"
    left_out = frame["evidence_tokens"].null_count()
    uncounted = f"; {left_out:,} claims inside the bounds not counted" if left_out else ""
    axes.set_xlabel(f"evidence length ({unit}), logarithmic{uncounted}")
    axes.yaxis.set_major_formatter(thousands)
    axes.set_ylabel("claims")
    return png(figure)


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
