"""The selector study as a table, a figure and a sentence.

The paper's appendix "Diversity Selector Ablation": (a) where picks lie on the pool's principal
plane, (b) how far claims are from the pick nearest to them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from decomposerl.funnel.selector_comparison import BINS, Pool, SelectorComparison
from decomposerl.kernels.selectors import Rows
from decomposerl.reports.figure_style import (
    GREY,
    INK,
    PALETTE,
    filled,
    legend,
    new_grid,
    quiet_axes,
)
from decomposerl.reports.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {
    "facility_location": "facility location",
    "apricot": "apricot",
    "k_means": "k-means",
    "farthest_point": "farthest point",
    "random": "random",
}
_LOOKS: Mapping[str, tuple[str, Any]] = {
    "facility_location": (PALETTE[4], "-"),
    "apricot": (PALETTE[5], (0, (1, 3))),
    "k_means": (PALETTE[-1], "--"),
    "farthest_point": (PALETTE[0], "-."),
    "random": (PALETTE[2], ":"),
}
"""Colour and line style."""
_OCCUPIED = "#E3E3E3"
_COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("bins", "bins, %", 1),
    ("distance_median", "median distance", 3),
    ("distance_95", "95th percentile", 3),
    ("isolated", "isolated, %", 1),
    ("source_entropy", "entropy, bits", 2),
    ("mean_cover", "f(S) / n", 4),
    ("shared", "shared, %", 1),
    ("seconds", "seconds", 2),
    ("core_seconds", "core-seconds", 2),
    ("largest_seconds", "largest cell: seconds", 2),
    ("largest_core_seconds", "core-seconds", 2),
)
_NUMBERS = [name for name, _, _ in _COLUMNS]


def selectors_markdown(table: pl.DataFrame) -> str:
    """``SELECTOR_STUDY`` as a table: of several seeds the median (least to greatest).

    The paper's rows say so beside their engine.
    """
    headers = ["selector", "engine", *(title for _, title, _ in _COLUMNS)]
    groups = table.group_by("origin", "selector", "engine", maintain_order=True)
    rows = [
        [
            _TITLES.get(str(selector), str(selector)),
            f"{engine}{' (paper)' if origin == 'paper' else ''}",
            *(_figure(runs[name].drop_nulls().to_list(), places) for name, _, places in _COLUMNS),
        ]
        for (origin, selector, engine), runs in groups
    ]
    return markdown_table(headers, rows)


def selectors_sentence(table: pl.DataFrame) -> str:
    """Pool, budget, largest cell, runs and engine of the rows made here."""
    here = table.filter(origin="here")
    if here.is_empty():
        return "No selector was run."
    first = here.row(0, named=True)
    seeds = here["seed"].n_unique() - here["seed"].has_nulls()
    drawn = f"; k-means and random with {seeds} seeds" if seeds > 1 else ""
    return (
        f"{first['selected']:,} of {first['pool']:,} claims under the same quotas, "
        f"{first['largest_budget']:,} of {first['largest_cell']:,} in the largest cell{drawn}; "
        f"vectors by {first['engine']}."
    )


def _figure(values: Sequence[float], places: int) -> str | None:
    """The median, with the range of several runs; None for no value."""
    if not values:
        return None
    middle, low, high = (f"{one:.{places}f}" for one in _three(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return float(np.median(values)), min(values), max(values)


def selectors_figure(compared: SelectorComparison) -> "Figure":
    """(a) The picks on the pool's principal plane, (b) distances to the nearest pick.

    A panel of (a) is the 50 × 50 grid: occupied bins in light grey, those with picks in the
    selector's colour, darker for more of them, with the percent of occupied bins. A dotted line
    of (b) is a 95th percentile. Of several seeds the first one is drawn.
    """
    figure, grid = new_grid(13.0, 6.2, 2, 5, shared_x=False)
    density = [axes for line in grid for axes in line[:3]]
    wide = quiet_axes(figure.add_subplot(density[0].get_gridspec()[:, 3:]))  # type: ignore[index]
    for axes in (*grid[0][3:], *grid[1][3:]):
        axes.remove()
    panels = [("(a) pool", np.arange(len(compared.pool.bins)), INK), *_panels(compared)]
    for axes, (title, rows, colour) in zip(density, panels, strict=False):
        _density(axes, compared.pool, rows, colour)
        axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    for axes in density[len(panels) :]:
        axes.set_axis_off()
    _cumulative(wide, compared)
    legend(figure, wide, columns=len(panels))
    return figure


def _panels(compared: SelectorComparison) -> list[tuple[str, Rows, str]]:
    first = compared.table.filter(origin="here").unique("selector", keep="first")
    bins = dict(first.select("selector", "bins").iter_rows())
    return [
        (f"{_TITLES[method]}: {bins[method]:.1f} % of bins", picks, _LOOKS[method][0])
        for method, picks in compared.picks.items()
    ]


def _density(axes: "Axes", pool: Pool, rows: Rows, colour: str) -> None:
    """Rows a bin on a logarithmic scale, above the bins that the pool occupies."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm

    every, counts = (
        np.bincount(pool.bins[chosen], minlength=BINS**2).reshape(BINS, BINS).T
        for chosen in (np.arange(len(pool.bins)), rows)
    )
    scale = LogNorm(1, max(int(every.max(initial=1)), 2))
    shades = LinearSegmentedColormap.from_list("rows", [filled(colour), colour, "black"])
    occupied = np.ma.masked_less(np.minimum(every, 1), 1)
    axes.imshow(occupied, cmap=ListedColormap([_OCCUPIED]), origin="lower")
    axes.imshow(np.ma.masked_less(counts, 1), cmap=shades, norm=scale, origin="lower")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GREY)


def _cumulative(axes: "Axes", compared: SelectorComparison) -> None:
    for method, distances in compared.distances.items():
        colour, style = _LOOKS[method]
        ordered = np.sort(distances)
        shares = np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
        axes.plot(ordered, shares, color=colour, linestyle=style, label=_TITLES[method])
        if len(ordered):
            end = float(np.quantile(ordered, 0.95))
            axes.axvline(end, color=colour, linestyle=":", linewidth=0.9)
    axes.set_title("(b) distance to the nearest pick", loc="left", fontsize=10.5, color=INK)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.01)
    axes.set_xlabel("cosine distance (0: the claim is a pick)")
    axes.set_ylabel("share of the sampled claims")
