"""The report's sections of the evaluation: leaderboard, comparisons, reliability, cost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT
from decomposerl.reports.comparison_report import comparison_markdown
from decomposerl.reports.leaderboard_report import leaderboard_markdown
from decomposerl.reports.report_data import (
    SIGNIFICANT,
    against_best,
    calibration_gap,
    confidence_bins,
    cost_by_claim,
    score_bars,
)
from decomposerl.reports.report_figures import (
    MOST_RELIABILITY,
    cost_figure,
    pairs_figure,
    reliability_figure,
    scores_figure,
)
from decomposerl.reports.report_parts import RUN, ReportData, Section, picture
from decomposerl.reports.tables import markdown_table
from decomposerl.reports.three_way_report import three_way_markdown, three_way_sentence
from decomposerl.reports.training_report import duration
from decomposerl.schemas import CALIBRATIONS

_BOARD = Section("leaderboard", "Leaderboard", paper="its tables 1 and 2 and their bar charts")
_THREE = Section("three_way", "Three-way verdicts")
_PAIRS = Section("comparison", "Paired comparisons")
_RELIABILITY = Section("reliability", "Reliability of the confidences")
_COST = Section("cost", "Cost")
_EVALUATE = f"decomposerl evaluate SYSTEM, then {RUN} leaderboard comparison"
_CALIBRATE = "dagster job execute -m dagster_project.definitions -j calibrate"
_PANELS = {MEAN_IN: "Mean in domain", MEAN_OUT: "Mean out of domain"}
_CLEAREST = 15
_TIME = "Wall time is of each last run; what was stored already took none."


def evaluation_sections(data: ReportData) -> list[Section]:
    """All of them in order."""
    return [
        leaderboard_section(data),
        *three_way_sections(data),
        comparison_section(data),
        reliability_section(data),
        cost_section(data),
    ]


def leaderboard_section(data: ReportData) -> Section:
    """Each system's means with intervals, and the paper's tables of all test sets."""
    bars = None if data.leaderboard is None else score_bars(data.leaderboard)
    if data.leaderboard is None or bars is None or bars.is_empty():
        return replace(_BOARD, missing="scores of a system", command=_EVALUATE)
    titles = {**data.benchmark_titles, **_PANELS}
    figure = scores_figure(bars, titles)
    return replace(
        _BOARD,
        sentence=_board_sentence(bars, titles),
        engine=_engines(bars),
        pictures=(picture("leaderboard", "scores with intervals", figure),),
        table=leaderboard_markdown(data.leaderboard, data.benchmark_titles),
    )


def three_way_sections(data: ReportData) -> list[Section]:
    """The board over three labels, where systems were evaluated on it."""
    board = data.three_way
    if board is None or board.drop_nulls("score").is_empty():
        return []
    engines = ", ".join(board["engine"].unique().sort())
    table = three_way_markdown(board, data.benchmark_titles)
    return [replace(_THREE, sentence=three_way_sentence(board), engine=engines, table=table)]


def _board_sentence(bars: pl.DataFrame, titles: Mapping[str, str]) -> str:
    name = bars["benchmark"][0]
    panel = bars.filter(benchmark=name)
    whole = panel.filter(~pl.col("limited"))
    best = (whole if whole.height else panel).row(0, named=True)
    others = whole.filter(pl.col("system") != best["system"])
    low = best["low"] if best["low"] is not None else best["score"]
    reach = others.filter(pl.col("high") >= low).height
    said = f"{titles.get(name, name)}: {best['label']} is best with {best['score']:.1f}"
    if best["low"] is not None and best["high"] is not None:
        said += f" ({best['low']:.1f} to {best['high']:.1f})"
    if others.height:
        said += f", and the intervals of {reach} of {others.height} others reach its own"
    short = panel.height - whole.height
    runs = "a short run is" if short == 1 else f"{short} short runs are"
    return f"{said}; {runs} not counted." if short and whole.height else f"{said}."


def comparison_section(data: ReportData) -> Section:
    """The best system less each other one, on the same claims."""
    if data.comparison is None or data.leaderboard is None:
        return replace(_PAIRS, missing="comparisons", command=_EVALUATE)
    bars = score_bars(data.leaderboard)
    pairs = against_best(data.comparison, bars)
    if pairs.is_empty():
        return replace(_PAIRS, missing="two systems on the same claims", command=_EVALUATE)
    labels = dict(bars.select("system", "label").iter_rows())
    name, best = pairs.row(0, named=True)["benchmark"], pairs["best"][0]
    panel = pairs.filter(benchmark=name)
    ahead = panel.filter(pl.col("difference") > 0).height
    clear = panel.filter(pl.col("difference") > 0, pl.col("p_holm") < SIGNIFICANT).height
    titles = {**data.benchmark_titles, **_PANELS}
    figure = pairs_figure(pairs, {**titles, **labels})
    used = data.comparison.filter((pl.col("system") == best) | (pl.col("other") == best))
    return replace(
        _PAIRS,
        sentence=(
            f"{titles.get(name, name)}: {labels.get(best, best)} is ahead of {ahead} of "
            f"{panel.height} other systems on the same claims, of {clear} significantly "
            f"(p < {SIGNIFICANT} after Holm's correction)."
        ),
        engine=_named(pl.concat([used["engine"], used["other_engine"]])),
        pictures=(picture("comparison", "differences to the best system", figure),),
        table=comparison_markdown(data.comparison, _CLEAREST),
    )


def reliability_section(data: ReportData) -> Section:
    """How often a verdict of some confidence is right."""
    known = CALIBRATIONS.empty() if data.calibrations is None else data.calibrations
    ours = CALIBRATIONS.empty() if data.verdicts is None else confidence_bins(data.verdicts)
    bins = pl.concat([ours, CALIBRATIONS.conform(known)])
    if bins.is_empty():
        missing = "verdicts with a confidence"
        return replace(_RELIABILITY, missing=missing, command=f"{_EVALUATE}; or {_CALIBRATE}")
    read = _readings(bins, data.system_titles)
    worst = max(read, key=lambda one: (one.error, one.system))
    further = bins["system"].n_unique() - MOST_RELIABILITY
    left_out = f" {further:,} further systems are in the table." if further > 0 else ""
    figure = reliability_figure(bins, data.system_titles)
    head = ["system", "reading", "verdicts", "confidence %", "right %", "error %"]
    return replace(
        _RELIABILITY,
        sentence=(
            f"{worst.system} ({worst.reading}) is furthest from its confidence: {worst.sure:.1f} % "
            f"sure and {worst.right:.1f} % right over {worst.verdicts:,} verdicts, a calibration "
            f"error of {worst.error:.1f} %.{left_out}"
        ),
        engine=_engines(bins),
        pictures=(picture("reliability", "confidence and share right", figure),),
        table=markdown_table(
            head, [(*one[:3], *(f"{percent:.1f}" for percent in one[3:])) for one in read]
        ),
    )


class _Reading(NamedTuple):
    """A system's confidences of one kind; confidence, share right and error are percent."""

    system: str
    reading: str
    verdicts: int
    sure: float
    right: float
    error: float


def _readings(bins: pl.DataFrame, titles: Mapping[str, str]) -> list[_Reading]:
    read = []
    for (key, reading), rows in bins.group_by("system", "reading", maintain_order=True):
        (sure, right), error = _mean(rows), calibration_gap(rows)
        system, verdicts = titles.get(str(key), str(key)), int(rows["rows"].sum())
        percent = 100 * sure, 100 * right, 100 * error
        read.append(_Reading(system, str(reading), verdicts, *percent))
    return read


def _mean(bins: pl.DataFrame) -> tuple[float, float]:
    weights = pl.col("rows") / pl.col("rows").sum()
    sure, right = bins.select(
        (pl.col("confidence") * weights).sum(), (pl.col("right") * weights).sum()
    ).row(0)
    return float(sure), float(right)


def cost_section(data: ReportData) -> Section:
    """Calls, tokens, money and time of each system, of the funnel's stages and of replies."""
    costs = None if data.calls is None else cost_by_claim(data.calls)
    if costs is None or costs.is_empty():
        return replace(_COST, missing="the calls of a system", command=_EVALUATE)
    most, titles = costs.row(0, named=True), data.system_titles
    calls, tokens = (
        int(costs[list(names)].sum_horizontal().sum())
        for names in (("calls",), ("prompt_tokens", "completion_tokens"))
    )
    money = costs["dollars"].drop_nulls()
    dollars = f" and {money.sum():,.2f} US dollars" if len(money) else ""
    return replace(
        _COST,
        sentence=(
            f"{costs.height} system{'s' * (costs.height > 1)} took {calls:,} calls, "
            f"{tokens:,} tokens{dollars}; "
            f"{titles.get(most['system'], most['system'])} asks most, "
            f"{most['calls_by_claim']:.1f} calls a claim."
        ),
        engine=_engines(costs),
        pictures=(picture("cost", "cost of a claim by system", cost_figure(costs, titles)),),
        table="\n\n".join(
            part
            for part in (_by_system(costs, titles), _by_stage(data.runs), _by_model(data.replies))
            if part
        ),
    )


def _by_system(costs: pl.DataFrame, titles: Mapping[str, str]) -> str:
    rows = [
        (
            titles.get(row["system"], row["system"]),
            *(row[name] for name in ("claims", "calls", "prompt_tokens", "completion_tokens")),
            "–" if row["dollars"] is None else f"{row['dollars']:,.2f}",
            duration(row["seconds"]),
        )
        for row in costs.iter_rows(named=True)
    ]
    head = ["system", "claims", "calls", "tokens in", "tokens out", "US dollars", "wall time"]
    return f"{markdown_table(head, rows)}\n\n{_TIME}"


def _by_stage(runs: pl.DataFrame | None) -> str:
    """The stages that asked an engine, but those of systems, which have a table of their own."""
    if runs is None:
        return ""
    asked = pl.col("engine_calls") + pl.col("engine_hits") > 0
    shown = runs.filter(asked, ~pl.col("stage").str.contains("^(predictions|calibrations)/"))
    rows = [
        (
            row["stage"],
            row["engine"] or "–",
            row["engine_calls"],
            row["engine_hits"],
            duration(row["seconds"]),
        )
        for row in shown.sort("stage").iter_rows(named=True)
    ]
    return markdown_table(["stage", "engine", "asked", "reused", "wall time"], rows) if rows else ""


def _by_model(replies: pl.DataFrame | None) -> str:
    """The chat models' replies of the whole folder, by model and template."""
    if replies is None or replies.is_empty():
        return ""
    sums = replies.group_by("model", "template").agg(
        pl.len().cast(pl.Int64).alias("replies"),
        pl.col("prompt_tokens").sum().alias("tokens in"),
        pl.col("completion_tokens").sum().alias("tokens out"),
    )
    return markdown_table(sums.columns, sums.sort("model", "template").rows())


def _engines(rows: pl.DataFrame) -> str:
    return _named(rows["engine"])


def _named(engines: pl.Series) -> str:
    """The engines, each once."""
    return " · ".join(str(one) for one in engines.drop_nulls().unique().sort())
