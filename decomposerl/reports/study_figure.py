"""The figures of a study of trained policies: its variants beside the paper's, and their curves."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.reports.figure_style import (
    GREY,
    INK,
    PALETTE,
    REST,
    label_text,
    legend,
    new_grid,
)
from decomposerl.training.curves import TRAIN, measure_named, smoothed
from decomposerl.training.studies import Study
from decomposerl.training.study_table import ACCURACY, GREEDY, SAMPLED, SCORED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _HEAD, _ENGINE = 0.34, 2.0, 44
_WINDOW, _COLUMNS = 9, 3
_DRAWN = (*SCORED, "verdict_given", "right_among_given")
_PAPER = {"paper_in_domain": "Paper, in domain", "paper_out_of_domain": "Paper, out of domain"}
_COLOURS = (PALETTE[-1], PALETTE[4], PALETTE[2], PALETTE[5], PALETTE[0], PALETTE[1], INK, REST)
_STYLES = ("-", "--", ":", "-.")


def study_figure(study: Study, table: pl.DataFrame) -> "Figure":
    """A row for each variant, panels for accuracy here and in the paper, and for its own measure.

    Points are means over seeds with 95 % intervals over seeds; a filled point of the last panel
    differs from the first variant beyond claims and seeds. A line marks the first variant. Variants
    that the table lacks are left out.
    """
    study = study.only(set(table["variant"]))
    own = table.filter("own_measure", split=SAMPLED, against=study.against.title)
    panels = [*(_PAPER if study.section else ())]
    count = 1 + len(panels) + (not own.is_empty())
    height = _HEAD + _ROW * len(study.variants)
    figure, ((first, *rest),) = new_grid(3.2 + 2.6 * count, height, 1, count, shared_x=False)
    rows = [_after(table, variant.title) for variant in study.variants]
    _points(first, rows)
    first.set_title(f"Here ({rows[0]['seeds']} seeds)", loc="left", fontsize=11, color=INK)
    engine = fill(f"engine: {label_text(str(table['engine'][0]))}", _ENGINE)
    first.set_xlabel(f"balanced accuracy, %\n{engine}", fontsize=9.5)
    _names(first, [variant.title for variant in study.variants])
    for axes, column in zip(rest, panels, strict=False):
        _published(axes, [row[column] for row in rows], _PAPER[column])
    if not own.is_empty():
        _own(rest[-1], study, own)
    for axes in rest:
        axes.set_ylim(first.get_ylim())
        axes.set_yticks([])
    return figure


def _after(table: pl.DataFrame, title: str) -> dict[str, float | None]:
    """Greedy accuracy of a variant; every row of it has the same mean."""
    row: dict[str, float | None] = table.filter(variant=title, measure=ACCURACY, split=GREEDY).row(
        0, named=True
    )
    return row


def _points(axes: "Axes", rows: Sequence[Mapping[str, float | None]]) -> None:
    for place, row in enumerate(rows):
        mean, low, high = row["mean"], row["low"], row["high"]
        if low is not None and high is not None:
            axes.plot([max(low, 0.0), min(high, 100.0)], [place, place], color=GREY, linewidth=1.6)
        if mean is not None:
            axes.plot([mean], [place], "o", color=PALETTE[-1], markersize=6)
    if rows[0]["mean"] is not None:
        axes.axvline(rows[0]["mean"], color=GREY, linewidth=0.8, linestyle=":")


def _published(axes: "Axes", means: Sequence[float | None], title: str) -> None:
    for place, mean in enumerate(means):
        if mean is not None:
            axes.plot([mean], [place], "D", color=INK, markersize=5)
            axes.annotate(f"{mean:.1f}", (mean, place), (6, 4), textcoords="offset points",
                          fontsize=8.5, color=INK)  # fmt: skip
    if means[0] is not None:
        axes.axvline(means[0], color=GREY, linewidth=0.8, linestyle=":")
    axes.margins(x=0.25)
    axes.locator_params(axis="x", nbins=4)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel("balanced accuracy, %")


def _own(axes: "Axes", study: Study, own: pl.DataFrame) -> None:
    """Differences of what each variant should lower, with the intervals over seeds."""
    places = {variant.title: place for place, variant in enumerate(study.variants)}
    for row in own.drop_nulls("difference").iter_rows(named=True):
        place, mean = places[row["variant"]], row["difference"]
        if row["seeds_low"] is not None:
            axes.plot([row["seeds_low"], row["seeds_high"]], [place] * 2, color=GREY, linewidth=1.6)
        fill = PALETTE[4] if row["resolved"] else "white"
        axes.plot([mean], [place], "s", color=PALETTE[4], markerfacecolor=fill, markersize=6)
    axes.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_title("What it should lower", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("difference of that reward")


def _names(axes: "Axes", titles: Sequence[str]) -> None:
    axes.set_yticks(range(len(titles)), [label_text(one) for one in titles], color=INK)
    axes.set_ylim(len(titles) - 0.5, -0.5)


def study_curves(study: Study, curves: Mapping[str, Sequence[pl.DataFrame]]) -> "Figure":
    """Each reward over the training steps by variant: medians over seeds, smoothed.

    Bands are minimum and maximum over seeds. ``curves`` are ``CURVES``, one frame per seed; a
    variant that does not pay a reward has no line for it.
    """
    from matplotlib.ticker import MaxNLocator

    rows = -(-len(_DRAWN) // _COLUMNS)
    figure, grid = new_grid(11.0, 1.2 + 2.2 * rows, rows, _COLUMNS)
    panels = [axes for line in grid for axes in line]
    for axes, name in zip(panels, _DRAWN, strict=False):
        axes.set_title(measure_named(name).title, loc="left", fontsize=11)
        for place, variant in enumerate(study.variants):
            lines = [_smoothed(one, name) for one in curves.get(variant.title, ())]
            _band(axes, [one for one in lines if len(one)], variant.title, place)
    for axes in panels[len(_DRAWN) :]:
        axes.set_visible(False)
    for axes in panels[len(_DRAWN) - _COLUMNS : len(_DRAWN)]:
        axes.set_xlabel("optimizer steps")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(labelbottom=True)
    legend(figure, panels[0], columns=4)
    return figure


def _band(axes: "Axes", lines: Sequence[NDArray[np.float64]], title: str, place: int) -> None:
    if not lines:
        return
    length = min(map(len, lines))
    stack = np.stack([line[:length] for line in lines])
    steps, colour = np.arange(length), _COLOURS[place % len(_COLOURS)]
    style = _STYLES[place % len(_STYLES)]
    axes.fill_between(steps, stack.min(0), stack.max(0), color=colour, alpha=0.12, linewidth=0)
    middle = np.median(stack, axis=0)
    axes.plot(
        steps,
        middle,
        color=colour,
        linestyle=style,
        linewidth=1.7,
        marker="o" if length == 1 else "",
        label=label_text(title),
    )


def _smoothed(curves: pl.DataFrame, measure: str) -> NDArray[np.float64]:
    """Moving means of a measure's training means, in order of steps."""
    chosen = curves.filter(pl.col("split") == TRAIN, pl.col("measure") == measure).sort("step")
    return np.array(smoothed(chosen["mean"].to_list(), _WINDOW), dtype=float)
