"""The report's figures of sources, scores, comparisons, reliability and cost.

Each takes a table of ``report_data``. A figure is read without colours: hatches, markers and fills
say what the colours say.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from decomposerl.reports.attrition import STAGES
from decomposerl.reports.figure_style import (
    GREY,
    HATCHES,
    INK,
    PALETTE,
    filled,
    label_text,
    legend,
    new_figure,
    new_grid,
)
from decomposerl.reports.report_data import (
    KEPT,
    SIGNIFICANT,
    TEST_SETS,
    TEST_SETS_CALIBRATED,
    share_bounds,
    shares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RELIABILITY = 8
_NAME = 34
_ROW, _HEAD = 0.3, 1.5
_CHANCE = 50
_WHOLE = 100
"""From here on a number is shown without decimals."""
_STAGE_TITLES = {
    KEPT: "kept",
    "rule_filtered": "rules",
    "difficulty_band": "difficulty band",
    "deduplicated": "duplicate",
    "decontaminated": "in a test set",
    "silver_decomposed": "too few questions",
    "training_claims": "not selected",
}
_READINGS = {
    TEST_SETS: ("o", "-", PALETTE[-1], "test sets"),
    TEST_SETS_CALIBRATED: ("D", "--", PALETTE[4], "test sets, calibrated"),
    "normalised": ("s", ":", INK, "dev split"),
    "calibrated": ("^", "-.", PALETTE[2], "dev split, calibrated"),
}
_COSTS = (
    (("calls_by_claim",), "calls a claim"),
    (("prompt_tokens_by_claim", "completion_tokens_by_claim"), "tokens a claim"),
    (("seconds_by_claim",), "seconds a claim"),
    (("dollars_by_claim",), "US dollars a claim"),
)
_COST_PARTS = {"prompt_tokens_by_claim": "prompt", "completion_tokens_by_claim": "completion"}


def sources_figure(fates: pl.DataFrame, titles: Mapping[str, str]) -> "Figure":
    """One bar a source, in percent of its claims: kept, then what each stage dropped.

    The counts of kept and of all claims stand at its right.
    """
    totals = fates.group_by("source").agg(pl.col("rows").sum())
    totals = totals.sort(["rows", "source"], descending=[True, False])
    sources = totals["source"].to_list()
    rows = {(s, stage): n for s, stage, n in fates.select("source", "stage", "rows").iter_rows()}
    stages = [one for one in (KEPT, *STAGES) if one in set(fates["stage"])]
    figure, axes = new_figure(9.0, _HEAD + _ROW * len(sources))
    left = [0.0] * len(sources)
    counts = [[rows.get((source, stage), 0) for stage in stages] for source in sources]
    widths = [shares(one) for one in counts]
    for place, stage in enumerate(stages):
        part = [each[place] for each in widths]
        axes.barh(
            range(len(sources)),
            part,
            left=left,
            height=0.74,
            color=INK if stage == KEPT else filled(PALETTE[(place - 1) % len(PALETTE)]),
            hatch="" if stage == KEPT else HATCHES[place % len(HATCHES)],
            edgecolor=INK,
            linewidth=0.5,
            label=_STAGE_TITLES.get(stage, stage),
        )
        left = [a + b for a, b in zip(left, part, strict=True)]
    for place, each in enumerate(counts):
        kept = each[stages.index(KEPT)] if KEPT in stages else 0
        axes.text(101, place, f"{kept:,} of {sum(each):,}", va="center", fontsize=9.5, color=INK)
    _names(axes, [titles.get(source, source) for source in sources])
    axes.set_xlim(0, 100)
    axes.set_xlabel("percent of the source's claims")
    legend(figure, axes, columns=4)
    return figure


def scores_figure(bars: pl.DataFrame, titles: Mapping[str, str]) -> "Figure":
    """One panel a mean or test set: each system's score with its interval, best on top.

    A hatched bar is a short run, a dark one a trained policy, a diamond the paper's figure.
    """
    panels = bars["benchmark"].unique(maintain_order=True).to_list()
    first = bars.unique("system", keep="first", maintain_order=True)
    order = {system: place for place, system in enumerate(first["system"])}
    figure, grid = new_grid(10.0, _HEAD + 0.4 + _ROW * len(order), 1, max(len(panels), 1))
    for axes, name in zip(grid[0], panels, strict=False):
        axes.set_title(label_text(titles.get(name, name)), loc="left", fontsize=11, color=INK)
        for row in bars.filter(benchmark=name).iter_rows(named=True):
            _score(axes, order[row["system"]], row)
        axes.axvline(_CHANCE, color=INK, linestyle=":", linewidth=1)
        axes.set_xlim(0, 100)
        axes.set_xlabel("balanced accuracy, percent")
        _names(axes, first["label"].to_list() if axes is grid[0][0] else [""] * len(order))
    _explain_scores(grid[0][0], bars)
    legend(figure, grid[0][0], columns=4)
    return figure


def _score(axes: "Axes", place: int, row: Mapping[str, object]) -> None:
    score, low, high = (row[name] for name in ("score", "low", "high"))
    policy, limited = row["protocol"] == "trace", bool(row["limited"])
    if not isinstance(score, float):
        return
    axes.barh(place, score, height=0.7, **_bar(policy=policy, limited=limited))
    if isinstance(low, float) and isinstance(high, float):
        axes.plot([low, high], [place, place], color="white", linewidth=4.2, solid_capstyle="butt")
        axes.plot([low, high], [place, place], color=INK, linewidth=1.6, marker="|", markersize=7)
    if isinstance(row["paper"], float):
        axes.plot([row["paper"]], [place], **_PAPER)


_PAPER: dict[str, Any] = {
    "marker": "D",
    "markersize": 6,
    "color": PALETTE[4],
    "markeredgecolor": INK,
}


def _bar(*, policy: bool, limited: bool) -> dict[str, Any]:
    return {
        "facecolor": "white" if limited else PALETTE[-1] if policy else "#D3DCE6",
        "hatch": "////" if limited else "",
        "edgecolor": INK,
        "linewidth": 0.6,
    }


def _explain_scores(axes: "Axes", bars: pl.DataFrame) -> None:
    kinds = {
        (one["protocol"] == "trace", bool(one["limited"])) for one in bars.iter_rows(named=True)
    }
    policies = {policy for policy, limited in kinds if not limited}
    for policy, label in ((False, "baseline"), (True, "trained policy")):
        if policy in policies:
            axes.fill_between([], [], **_bar(policy=policy, limited=False), label=label)
    if any(limited for _, limited in kinds):
        axes.fill_between(
            [], [], **_bar(policy=False, limited=True), label="fewer claims: not ranked"
        )
    seeds = " (a mean over seeds: least to greatest)" if (bars["seeds"] > 1).any() else ""
    axes.plot([], [], color=INK, marker="|", label=f"95 % interval{seeds}")
    if bars["paper"].count():
        axes.plot([], [], linestyle="", **_PAPER, label="the paper's figure")
    axes.plot([], [], color=INK, linestyle=":", label="chance")


def pairs_figure(pairs: pl.DataFrame, names: Mapping[str, str]) -> "Figure":
    """One panel a mean or test set: the best system less each other, with its interval.

    A filled marker is significant, an open one not, a cross has no p-value. ``names`` are titles of
    panels and of the best systems, by key.
    """
    panels = pairs.partition_by("benchmark", maintain_order=True)
    most = max([panel.height for panel in panels] or [1])
    figure, grid = new_grid(11.0, _HEAD + 0.4 + _ROW * most, 1, max(len(panels), 1))
    for axes, panel in zip(grid[0], panels, strict=False):
        best, name = panel["best"][0], panel["benchmark"][0]
        axes.set_title(label_text(names.get(name, name)), loc="left", fontsize=11, color=INK)
        axes.set_xlabel(f"{label_text(names.get(best, best), _NAME)} less the other, points")
        for place, row in enumerate(panel.iter_rows(named=True)):
            axes.plot([row["low"], row["high"]], [place, place], color=INK, linewidth=1.4)
            axes.plot([row["difference"]], [place], **_marker(row["p_holm"]))
        axes.axvline(0, color=INK, linestyle=":", linewidth=1)
        _names(axes, panel["label"].to_list())
    for p, label in (
        (0.0, f"p < {SIGNIFICANT} (Holm)"),
        (1.0, f"p ≥ {SIGNIFICANT}"),
        (None, "no p-value"),
    ):
        grid[0][0].plot([], [], **_marker(p), label=label)
    legend(figure, grid[0][0], columns=3)
    return figure


def _marker(p: float | None) -> dict[str, Any]:
    filled = p is not None and p < SIGNIFICANT
    return {
        "marker": "X" if p is None else "o",
        "markersize": 7,
        "markerfacecolor": PALETTE[-1] if filled else "white",
        "markeredgecolor": INK,
        "linestyle": "",
    }


def reliability_figure(bins: pl.DataFrame, titles: Mapping[str, str]) -> "Figure":
    """One panel a system, from ``CALIBRATIONS``: confidence, and how often it was right.

    Points on the diagonal are calibrated; bars are 95 % intervals of the share.
    """
    systems = bins["system"].unique(maintain_order=True).to_list()[:MOST_RELIABILITY]
    columns = min(max(len(systems), 1), 4)
    lines = -(-max(len(systems), 1) // columns)
    figure, grid = new_grid(0.8 + 3.0 * columns, 0.9 + 3.0 * lines, lines, columns)
    panels = [axes for line in grid for axes in line]
    for axes, system in zip(panels, systems, strict=False):
        axes.set_title(label_text(titles.get(system, system), _NAME), loc="left", fontsize=11)
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
        for reading, rows in _by_reading(bins.filter(system=system)):
            _curve(axes, reading, rows)
        axes.set(xlim=(0, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel="confidence")
    panels[0].set_ylabel("share right")
    for axes in panels[len(systems) :]:
        axes.set_visible(False)
    legend(figure, panels[0], columns=2)
    return figure


def _by_reading(bins: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for (reading,), rows in bins.group_by("reading", maintain_order=True):
        yield str(reading), rows.sort("bin")


def _curve(axes: "Axes", reading: str, rows: pl.DataFrame) -> None:
    marker, style, colour, label = _READINGS.get(reading, ("o", "-", INK, reading))
    for row in rows.iter_rows(named=True):
        bounds = share_bounds(row["right"], row["rows"])
        axes.plot([row["confidence"]] * 2, bounds, color=colour, linewidth=0.8, alpha=0.7)
    axes.plot(
        rows["confidence"].to_list(),
        rows["right"].to_list(),
        color=colour,
        marker=marker,
        linestyle=style,
        markersize=5,
        linewidth=1.4,
        label=label,
    )


def cost_figure(costs: pl.DataFrame, titles: Mapping[str, str]) -> "Figure":
    """One panel a unit that was counted: what a claim costs each system; from ``cost_by_claim``."""
    shown = [(parts, label) for parts, label in _COSTS if _any(costs, parts)]
    figure, grid = new_grid(
        11.0, _HEAD + _ROW * costs.height, 1, max(len(shown), 1), shared_x=False
    )
    for axes, (parts, label) in zip(grid[0], shown, strict=False):
        left = [0.0] * costs.height
        for number, part in enumerate(parts):
            widths = costs[part].fill_null(0.0).to_list()
            axes.barh(
                range(costs.height),
                widths,
                left=left,
                height=0.7,
                color=("#D3DCE6", PALETTE[-1])[number],
                hatch=("", "////")[number],
                edgecolor=INK,
                linewidth=0.6,
                label=_COST_PARTS.get(part, ""),
            )
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, whole in enumerate(left):
            value = f"{whole:,.0f}" if whole >= _WHOLE else f"{whole:.2g}" if whole else "–"
            axes.text(whole, place, f" {value}", va="center", fontsize=9, color=INK)
        axes.set_xlim(0, 1.25 * max([*left, 1e-9]))
        axes.set_xlabel(label)
        names = [titles.get(one, one) for one in costs["system"]]
        _names(axes, names if axes is grid[0][0] else [""] * costs.height)
    labelled = [axes for axes in grid[0] if axes.get_legend_handles_labels()[1]]
    legend(figure, (labelled or grid[0])[0], columns=2)
    return figure


def _any(costs: pl.DataFrame, parts: Sequence[str]) -> bool:
    return any((costs[part].fill_null(0.0) > 0).any() for part in parts)


def _names(axes: "Axes", names: Sequence[str]) -> None:
    """The rows' names, first on top."""
    axes.set_yticks(range(len(names)), [label_text(name, _NAME) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
