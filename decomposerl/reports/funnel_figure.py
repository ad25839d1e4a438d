"""The whole funnel as one picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import (
    HATCHES,
    INK,
    filled,
    label_text,
    legend,
    new_figure,
    png,
    source_colours,
    source_hatches,
    source_legend,
)
from decomposerl.reports.tables import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STAGE_TITLES: Mapping[str, str] = {
    "claims": "sources",
    "rule_filtered": "rules",
    "difficulty_band": "difficulty band",
    "deduplicated": "deduplicated",
    "decontaminated": "decontaminated",
    "silver_decomposed": "silver questions",
    "training_claims": "training set",
}
_BAR = 0.46
_REASONS = 3
_REASON_CHARACTERS = 28
_SOFT = "#5A5A5A"
_SMALL = 9


@dataclass(frozen=True, slots=True)
class _Level:
    """One bar: rows kept per source, and rows dropped on the way to it."""

    stage: str
    kept: dict[str, int]
    left: int
    reasons: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        return sum(self.kept.values())


@dataclass(frozen=True, slots=True)
class _Canvas:
    """Where to draw; ``widest`` is the size of the widest bar, one unit of x per claim."""

    axes: "Axes"
    widest: int
    colours: dict[str, str]
    hatches: dict[str, str]

    def segments(self, level: _Level) -> dict[str, tuple[float, float]]:
        """Left and right edge of each source's segment, the bar centred."""
        x, edges = (self.widest - level.total) / 2, {}
        for source, rows in level.kept.items():
            edges[source] = (x, x + rows)
            x += rows
        return edges

    def text(self, x: float, y: float, text: str, size: float, weight: str = "normal") -> None:
        """Text at ``x`` bar widths; to the left of the bars it is right-aligned."""
        side, colour = ("right" if x < 0 else "left"), (_SOFT if size == _SMALL else INK)
        self.axes.text(
            x * self.widest,
            y,
            text,
            ha=side,
            va="center",
            fontsize=size,
            color=colour,
            fontweight=weight,
            linespacing=1.35,
        )


def funnel_png(attrition: pl.DataFrame) -> bytes:
    """``funnel_figure`` as a PNG."""
    return png(funnel_figure(attrition))


def funnel_figure(attrition: pl.DataFrame, titles: Mapping[str, str] | None = None) -> "Figure":
    """Draw the funnel from an ``ATTRITION`` table.

    One bar per stage, as wide as its claims, coloured and hatched by source, joined by bands that
    narrow where claims were dropped, with the numbers and reasons beside them.
    ``diversity_selected`` only marks rows and has no bar. An empty table gives an empty picture.
    ``titles`` are those of the sources, by name.
    """
    levels = _levels(attrition)
    rows = max(len(levels), 1)
    figure, axes = new_figure(10.0, 1.4 + 1.02 * rows)
    axes.set_axis_off()
    sources = list(levels[0].kept) if levels else []
    widest = max([level.total for level in levels] or [1]) or 1
    canvas = _Canvas(axes, widest, source_colours(sources), source_hatches(sources))
    axes.set_xlim(-0.38 * widest, 1.72 * widest)
    axes.set_ylim(rows - 0.6, -0.75)
    for index, level in enumerate(levels):
        _bar(canvas, index, level)
        if index:
            _bands(canvas, index, levels[index - 1], level)
    if levels and levels[0].left:
        reading = f"−{levels[0].left:,} while reading\n{_reasons(levels[0])}"
        canvas.text(1.11, -0.5, reading, _SMALL)
    for (name, colour), hatch in zip(source_legend(sources).items(), HATCHES, strict=False):
        axes.fill_between(
            [],
            [],
            facecolor=filled(colour),
            hatch=hatch,
            edgecolor=INK,
            linewidth=0.4,
            label=label_text((titles or {}).get(name, name)),
        )
    legend(figure, axes, columns=4)
    return figure


def _levels(attrition: pl.DataFrame) -> list[_Level]:
    shown = attrition.filter(pl.col("stage").is_in(list(STAGE_TITLES)))
    base = _by_source(shown.filter((pl.col("stage_order") == 0) & (pl.col("outcome") == "kept")))
    order = sorted(base, key=lambda source: (-base[source], source))
    stages = shown.select("stage", "stage_order").unique().sort("stage_order")["stage"]
    return [_level(str(s), shown.filter(pl.col("stage") == s), order) for s in stages]


def _level(stage: str, rows: pl.DataFrame, order: list[str]) -> _Level:
    kept = _by_source(rows.filter(pl.col("outcome") == "kept"))
    left = rows.filter(pl.col("outcome") != "kept")
    reasons = left.group_by("reason").agg(pl.col("rows").sum())
    top = reasons.sort(["rows", "reason"], descending=[True, False]).head(_REASONS)
    return _Level(
        stage=stage,
        kept={source: kept.get(source, 0) for source in order},
        left=int(left["rows"].sum()),
        reasons=tuple((str(reason), int(n)) for reason, n in top.iter_rows()),
    )


def _by_source(rows: pl.DataFrame) -> dict[str, int]:
    summed = rows.group_by("source").agg(pl.col("rows").sum())
    return {str(source): int(n) for source, n in summed.iter_rows()}


def _reasons(level: _Level) -> str:
    """The most frequent reasons and the number of others, two per line."""
    words = [
        f"{one_line(reason, _REASON_CHARACTERS).replace('_', ' ')} {n:,}"
        for reason, n in level.reasons
    ]
    others = level.left - sum(n for _, n in level.reasons)
    words += [f"others {others:,}"] if others else []
    return "\n".join(" · ".join(words[i : i + 2]) for i in range(0, len(words), 2))


def _bar(canvas: _Canvas, y: int, level: _Level) -> None:
    for source, (start, end) in canvas.segments(level).items():
        if end > start:
            canvas.axes.barh(
                y,
                end - start,
                left=start,
                height=_BAR,
                color=filled(canvas.colours[source]),
                hatch=canvas.hatches[source],
                edgecolor=INK,
                linewidth=0.4,
            )
    canvas.text(-0.04, y, STAGE_TITLES[level.stage], 12)
    canvas.text(1.04, y, f"{level.total:,}", 14, "bold")


def _bands(canvas: _Canvas, y: int, before: _Level, after: _Level) -> None:
    top, bottom = y - 1 + _BAR / 2, y - _BAR / 2
    below = canvas.segments(after)
    for source, (start, end) in canvas.segments(before).items():
        to_start, to_end = below[source]
        canvas.axes.fill(
            [start, end, to_end, to_start],
            [top, top, bottom, bottom],
            color=canvas.colours[source],
            alpha=0.28,
            linewidth=0,
        )
    share = f"{100 * after.total / before.total:.0f} % stay" if before.total else ""
    text = f"−{after.left:,}   {share}\n{_reasons(after)}" if after.left else "all stay"
    canvas.text(1.11, y - 0.5, text, _SMALL)
    canvas.axes.annotate(
        "",
        (1.07 * canvas.widest, bottom + 0.02),
        (1.07 * canvas.widest, top - 0.02),
        arrowprops={"arrowstyle": "->", "color": _SOFT, "linewidth": 1.1},
    )
