"""Which tricks a trained policy plays, over its steps: bounds, table and figure.

Beyond the paper, which has no such table. A share of a window of steps has an interval over the
steps, each of which samples other claims; one of held-out claims has one over them.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from decomposerl.evaluation.metrics import Estimate, Numbers, ratio, share, shared_evidence
from decomposerl.reports.figure_style import GREY, PALETTE, Drawn, drawn, legend, new_grid
from decomposerl.reports.tables import markdown_table
from decomposerl.training.curves import TRAIN, smoothed
from studies.trick_scripts import TRICKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = {trick.name: trick.title for trick in TRICKS}
_LEAST_WINDOW = 30
"""Fewer steps have no interval."""
_LINES = 6
"""Tricks in the figure: those that were played most."""
_HELD_OUT = "held_out_sampled"
_WINDOW = 9
_RARE = 0.005
"""Tricks of a smaller share at both ends are left out of the table."""
_ENDS = ("held-out claims before", "after")
_HEIGHTS = (4, 1)
_STYLES = ("-", "--", "-.", ":", "-", "--")


def share_bounds(shown: pl.Series, groups: pl.Series) -> tuple[float, float]:
    """The interval of the share of true values, by groups."""
    evidence = shared_evidence(groups.to_list())
    estimate = share(shown.to_numpy(), np.ones(len(shown)), evidence)
    return estimate.low, estimate.high


def _mean(values: Numbers) -> Estimate:
    return ratio(values, np.ones(len(values)), np.arange(len(values)))


def window_of(steps: int) -> int:
    """Steps at either end of a run that are compared: a fifth of them, at least 30."""
    return max(_LEAST_WINDOW, steps // 5)


def found_markdown(found: pl.DataFrame) -> str:
    """One row per trick of ``_RARE`` of the rollouts or more: its share at both ends of the run.

    The change has an interval; ``advantage`` is the mean over the steps. Held-out claims have
    columns where the run has some.
    """
    train = _tricks(found, TRAIN)
    steps = sorted(set(train["step"].to_list()))
    window = window_of(len(steps))
    held_out = not _tricks(found, _HELD_OUT).is_empty()
    rows = []
    for (name,), part in train.group_by("name", maintain_order=True):
        early = part.filter(pl.col("step").is_in(steps[:window]))["share"].to_numpy()
        late = part.filter(pl.col("step").is_in(steps[-window:]))["share"].to_numpy()
        if max(early.mean(), late.mean()) >= _RARE:
            cells = [_percent(early.mean()), _percent(late.mean()), _change(early, late)]
            held = _held_out(found, str(name)) if held_out else []
            rows.append([_TITLES[str(name)], *cells, _signed(part["advantage"].mean()), *held])
    heads = ["trick", f"first {window} steps", f"last {window}", "change, points", "advantage"]
    return markdown_table([*heads, *_ENDS] if held_out else heads, rows)


def _tricks(found: pl.DataFrame, split: str) -> pl.DataFrame:
    return found.filter(split=split, kind="trick").sort("step", maintain_order=True)


def _change(early: Numbers, late: Numbers) -> str:
    """The change of a share in points, with its interval over steps."""
    before, after = _mean(early), _mean(late)
    half = math.hypot(before.high - before.value, after.high - after.value)
    change = after.value - before.value
    text = f"{100 * change:+.0f}"
    ends = f" ({100 * (change - half):+.0f}..{100 * (change + half):+.0f})"
    return text if math.isnan(half) else text + ends


def _held_out(found: pl.DataFrame, name: str) -> list[str]:
    """The share on held-out claims before the first and after the last step, with intervals."""
    rows = _tricks(found, _HELD_OUT).filter(pl.col("name") == name).rows(named=True)
    return [_bounded(rows[0]), _bounded(rows[-1])] if rows else ["–", "–"]


def _bounded(row: dict[str, float | None]) -> str:
    ends = (row["low"], row["high"])
    shown = "" if None in ends else f" ({_percent(ends[0])}..{_percent(ends[1])})"
    return _percent(row["share"]) + shown


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _signed(value: object) -> str:
    return f"{value:+.2f}" if isinstance(value, float) else "–"


def health_markdown(found: pl.DataFrame) -> str:
    """The steps at which each health rule objected."""
    rules = found.filter(kind="health").group_by("name", maintain_order=True)
    rows = [
        (str(name), part.height, min(part["step"].to_list()), max(part["step"].to_list()))
        for (name,), part in rules
    ]
    steps = _tricks(found, TRAIN)["step"].n_unique()
    if not rows:
        return f"no rule objected in {steps} steps"
    return markdown_table(["health rule", f"steps of {steps}", "first", "last"], rows)


def found_figure(found: pl.DataFrame) -> Drawn:
    """The share of the most-played tricks by step; below it when health rules objected, if any."""
    train = _tricks(found, TRAIN)
    rules = found.filter(kind="health")
    figure, grid = new_grid(9.0, 4.4, 1 if rules.is_empty() else 2, 1)
    above, below = grid[0][0], grid[-1][0]
    spec = above.get_gridspec()
    if spec is not None and above is not below:
        spec.set_height_ratios(_HEIGHTS)
        _draw_rules(below, rules)
    most = train.group_by("name", maintain_order=True).agg(pl.col("share").mean())
    names = most.sort("share", descending=True, maintain_order=True)["name"].head(_LINES).to_list()
    for place, name in enumerate(names):
        part = train.filter(pl.col("name") == name)
        line = np.array(smoothed(part["share"].to_list(), _WINDOW), dtype=float)
        style = (_STYLES[place], PALETTE[(place * 2 + 6) % len(PALETTE)])
        above.plot(part["step"], 100 * line, style[0], color=style[1], label=_TITLES[name])
    above.set_ylabel("% of rollouts")
    above.set_ylim(0, None)
    below.set_xlabel("optimizer steps")
    legend(figure, above, columns=2)
    return drawn(figure)


def _draw_rules(axes: "Axes", rules: pl.DataFrame) -> None:
    names = rules["name"].unique(maintain_order=True).to_list()
    for place, name in enumerate(names):
        steps = rules.filter(pl.col("name") == name)["step"]
        axes.plot(steps, [place] * len(steps), "|", color=GREY, markersize=9)
    axes.set_yticks(range(len(names)), [one.replace("_", " ") for one in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
