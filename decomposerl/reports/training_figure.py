"""The learning curves of a training run as one picture of small multiples.

A panel for each reward, then the weighted sum, held-out accuracy, loss, lengths and shares. A panel
shows the steps (faint), their moving mean (strong), the spread over a step's rollouts as a band,
and measures on held-out claims as points. Measures without a value get no panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import GREY, INK, PALETTE, legend, new_grid, png
from decomposerl.reports.small_figures import curves_markdown
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.curves import TRAIN, measure_named, smoothed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = (
    *(reward.name for reward in REWARDS),
    "total",
    "balanced_accuracy",
    "questions",
    "completion_tokens",
    "truncated",
    "zero_spread_groups",
    "judge_failures",
    "pseudo_label_agreement",
    "loss",
)
_COLUMNS = 4
_WIDTH, _ROW = 12.0, 2.15
_LINE, _SAMPLED, _GREEDY = PALETTE[-1], PALETTE[4], PALETTE[2]
_MARGIN = 0.06
_MOST_POINTS = 400
"""A longer line is drawn through every n-th step, which keeps the picture small."""


@dataclass(frozen=True, slots=True)
class _MeasureSeries:
    """One measure of one split: steps, means and spreads, oldest first; every step has a mean."""

    steps: Sequence[int]
    means: Sequence[float]
    spreads: Sequence[float | None]


def training_png(curves: pl.DataFrame, window: int | None = None) -> bytes:
    """``training_figure`` as a PNG."""
    return png(training_figure(curves, window))


def training_curve(curves: pl.DataFrame) -> str:
    """The weighted sum and the verification reward by step, as a small figure in Markdown."""
    steps = curves.filter(split=TRAIN).sort("step")
    shown = {"total": "sum of rewards", "verification": "verification"}
    lines = [
        (title, steps.filter(pl.col("mean").is_finite(), measure=name)["mean"].to_list())
        for name, title in shown.items()
    ]
    return curves_markdown(lines, "rewards of the training steps")


def training_figure(curves: pl.DataFrame, window: int | None = None) -> "Figure":
    """Draw the curves; ``window`` steps make the moving mean (default: a twentieth of them)."""
    measured = curves.filter(pl.col("mean").is_not_null() & pl.col("mean").is_finite())
    present = set(measured["measure"])
    names = [name for name in _PANELS if name in present]
    rows = max(-(-len(names) // _COLUMNS), 1)
    figure, grid = new_grid(_WIDTH, 0.9 + _ROW * rows, rows, _COLUMNS)
    panels = [axes for line in grid for axes in line]
    for axes, name in zip(panels, names, strict=False):
        _panel(axes, measured.filter(pl.col("measure") == name), name, window)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    _label_steps(panels, len(names))
    _explain(figure, panels[0], measured)
    return figure


def _panel(axes: "Axes", rows: pl.DataFrame, name: str, window: int | None) -> None:
    measure = measure_named(name)
    unit = f" ({measure.unit})" if measure.unit else ""
    axes.set_title(measure.title + unit, loc="left", fontsize=11, color=INK)
    train = _line(rows, "train")
    if train.steps:
        _training(axes, train, window or max(len(train.steps) // 20, 1))
    for split, colour, marker in (
        ("held_out_sampled", _SAMPLED, "o"),
        ("held_out_greedy", _GREEDY, "D"),
    ):
        points = _line(rows, split)
        axes.plot(
            points.steps,
            points.means,
            color=colour,
            marker=marker,
            markersize=5,
            linestyle=":",
            linewidth=1.2,
        )
    if measure.unit == "share":
        axes.set_ylim(-_MARGIN, 1 + _MARGIN)
    axes.margins(x=0.03)


def _training(axes: "Axes", line: _MeasureSeries, window: int) -> None:
    means = [mean for mean in smoothed(line.means, window) if mean is not None]
    spreads = smoothed(line.spreads, window)
    every = -(-len(line.steps) // _MOST_POINTS)
    axes.plot(line.steps[::every], line.means[::every], color=_LINE, alpha=0.25, linewidth=0.8)
    band = [
        (step, mean - spread, mean + spread)
        for step, mean, spread in zip(line.steps, means, spreads, strict=True)
        if spread is not None
    ][::every]
    if band:
        steps, low, high = zip(*band, strict=True)
        axes.fill_between(steps, low, high, color=_LINE, alpha=0.14, linewidth=0)
    axes.plot(line.steps[::every], means[::every], color=_LINE, linewidth=1.8)


def _line(rows: pl.DataFrame, split: str) -> _MeasureSeries:
    chosen = rows.filter(pl.col("split") == split).sort("step")
    return _MeasureSeries(
        chosen["step"].to_list(), chosen["mean"].to_list(), chosen["spread"].to_list()
    )


def _label_steps(panels: "Sequence[Axes]", used: int) -> None:
    """Label the x axis of the lowest used panel of each column."""
    for axes in panels[max(used - _COLUMNS, 0) : used]:
        axes.set_xlabel("optimizer steps")
        axes.tick_params(labelbottom=True)


def _explain(figure: "Figure", axes: "Axes", measured: pl.DataFrame) -> None:
    splits = set(measured["split"])
    if "train" in splits:
        axes.plot([], [], color=_LINE, linewidth=1.8, label="training claims, moving mean")
        axes.fill_between([], [], color=_LINE, alpha=0.14, label="± spread over a step's rollouts")
    for split, colour, marker, label in (
        ("held_out_sampled", _SAMPLED, "o", "held-out claims, sampled"),
        ("held_out_greedy", _GREEDY, "D", "held-out claims, greedy"),
    ):
        if split in splits:
            axes.plot([], [], color=colour, marker=marker, linestyle=":", label=label)
    if not splits:
        axes.set_axis_on()
        axes.text(0.5, 0.5, "nothing was measured", color=GREY, ha="center", fontsize=11)
    legend(figure, axes, columns=4)
