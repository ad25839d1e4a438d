"""The report of a run: its sections, each with a sentence, figures, a table, and its engine.

Whatever a sentence says is computed from the tables. A part that is not there is a section too: it
says what is missing and which command makes it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT
from decomposerl.reports.attrition import (
    STAGES,
    TOTAL,
    attrition_markdown,
    attrition_wide,
    drops_by_reason,
)
from decomposerl.reports.figures import selection_figure
from decomposerl.reports.funnel_figure import STAGE_TITLES, funnel_figure
from decomposerl.reports.report_data import (
    KEPT,
    SIGNIFICANT,
    against_best,
    calibration_gap,
    confidence_bins,
    cost_by_claim,
    score_bars,
    source_fates,
)
from decomposerl.reports.report_figures import (
    MOST_RELIABILITY,
    cost_figure,
    pairs_figure,
    reliability_figure,
    scores_figure,
    sources_figure,
)
from decomposerl.reports.report_parts import (
    RUN,
    Picture,
    ReportData,
    Section,
    StudyPicture,
    TrainedRun,
    picture,
    slug,
)
from decomposerl.reports.study_tables import PAPER_SECTIONS, STUDY_TABLES, study_engine
from decomposerl.reports.system_report import comparison_markdown, leaderboard_page
from decomposerl.reports.tables import frame_markdown, markdown_table, one_line, share
from decomposerl.reports.training_figure import training_figure
from decomposerl.reports.training_report import changes_markdown, duration, seconds_markdown
from decomposerl.schemas import CALIBRATIONS
from decomposerl.training.curves import changes

_BOARD = Section("leaderboard", "Leaderboard", paper="its tables 1 and 2 and their bar charts")
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
        table=leaderboard_page(data.leaderboard, data.benchmark_titles, markdown=True),
    )


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
        said += f" ({best['low']:.1f} to {best['high']:.1f}, n {best['rows']:,})"
    if others.height:
        said += f", and the intervals of {reach} of {others.height} others reach its own"
    short = panel.height - whole.height
    left_out = f"; {short:,} scored on fewer claims are not ranked" if whole.height else ""
    return f"{said}{left_out if short else ''}."


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


_FUNNEL = Section("funnel", "The funnel", paper="the figure of the data-curation funnel")
_SOURCES = Section("sources", "Attrition by source", paper="the table of rows by source and stage")
_SELECTION = Section("selection", "Selection", paper="the coverage of the submodular selector")
_TRAINING = Section("training", "Learning curves")
_STUDIES = Section("studies", "Studies", paper="the figures of its ablations")
_REASONS = ["stage", "step", "reason", TOTAL]
_COUNTS = "the funnel's counts"
_COUNT = f"{RUN} attrition --upstream"
_STUDY = f"{RUN} study/selectors"
_CURVES = "_curves"  # the second figure of a study of trained policies
_HELD_OUT = ("held_out_greedy/balanced_accuracy", "held_out_sampled/total")


def report_sections(data: ReportData) -> list[Section]:
    """All sections in order."""
    return [
        funnel_section(data),
        sources_section(data),
        selection_section(data),
        *training_sections(data),
        *evaluation_sections(data),
        *study_sections(data),
    ]


def funnel_section(data: ReportData) -> Section:
    """The funnel as one picture, and the paper's table of it."""
    if data.attrition is None or data.attrition.is_empty():
        return replace(_FUNNEL, missing=_COUNTS, command=_COUNT)
    figure = funnel_figure(data.attrition, data.source_titles)
    return replace(
        _FUNNEL,
        sentence=_funnel_sentence(data.attrition),
        engine=_step_engines(data.runs),
        pictures=(picture("funnel", "claims by stage and source", figure),),
        table=frame_markdown(drops_by_reason(data.attrition).select(_REASONS)),
    )


def _funnel_sentence(attrition: pl.DataFrame) -> str:
    kept = attrition.filter(outcome=KEPT).group_by("stage", "stage_order")
    counts = kept.agg(pl.col("rows").sum()).sort("stage_order")
    first, last = (int(counts["rows"][end]) for end in (0, -1)) if counts.height else (0, 0)
    left = attrition.filter(pl.col("outcome") != KEPT, pl.col("stage_order") > 0)
    cuts = left.group_by("stage").agg(pl.col("rows").sum()).sort("rows", "stage", descending=True)
    at = STAGE_TITLES.get(cuts["stage"][0], cuts["stage"][0]) if cuts.height else ""
    largest = f"; the largest cut is at stage '{at}', {cuts['rows'][0]:,} claims" if at else ""
    end = counts["stage"][-1] if counts.height else STAGES[0]
    reached = f"{last:,} ({share(last, first)}) are left at stage '{STAGE_TITLES.get(end, end)}'"
    return f"Of {first:,} claims of the sources, {reached}{largest}."


def sources_section(data: ReportData) -> Section:
    """What became of each source's claims."""
    fates = None if data.attrition is None else source_fates(data.attrition)
    if data.attrition is None or fates is None or fates.is_empty():
        return replace(_SOURCES, missing=_COUNTS, command=_COUNT)
    wide = attrition_wide(data.attrition, data.paper_raw, data.source_titles)
    totals = pl.col("rows").sum()
    kept = pl.col("rows").filter(pl.col("stage") == KEPT).sum()
    by_source = fates.group_by("source").agg(kept=kept, of=totals)
    ranked = by_source.sort(pl.col("kept") / pl.col("of"), "source", descending=[True, False])
    most, least = (
        f"{data.source_titles.get(row['source'], row['source'])} {what} "
        f"({share(row['kept'], row['of'])})"
        for row, what in (
            (ranked.row(0, named=True), "keeps the largest share of its claims"),
            (ranked.row(-1, named=True), "the smallest"),
        )
    )
    return replace(
        _SOURCES,
        sentence=f"Of {ranked.height} sources, {most}, {least}.",
        engine=_step_engines(data.runs),
        pictures=(
            picture("sources", "share kept by source", sources_figure(fates, data.source_titles)),
        ),
        table=attrition_markdown(wide),
    )


def selection_section(data: ReportData) -> Section:
    """How well the selected claims cover their cells."""
    if data.selected is None or data.cells is None or data.cells.is_empty():
        command = f"{RUN} diversity_selected --upstream"
        return replace(_SELECTION, missing="the selection's cells", command=command)
    cells = data.cells
    cover = float(cells.select(pl.col("objective").sum() / pl.col("available").sum()).item())
    figure = selection_figure(data.selected, cells, data.source_titles)
    return replace(
        _SELECTION,
        sentence=(
            f"{cells['selected'].sum():,} of {cells['available'].sum():,} claims are picked in "
            f"{cells.height:,} cell{'s' * (cells.height > 1)} of source and label; a claim's mean "
            f"cosine to its nearest pick is {cover:.2f}."
        ),
        engine=_engine_of(data.runs, ["diversity_selected"]),
        pictures=(picture("selection", "cover of each cell by its picks", figure),),
    )


def training_sections(data: ReportData) -> list[Section]:
    """The learning curves of each run."""
    if not data.trained:
        return [replace(_TRAINING, missing="a training run", command="decomposerl train RECIPE")]
    return [_training(run) for run in data.trained]


def _training(run: TrainedRun) -> Section:
    measured = changes(run.before, run.after)
    said = [
        f"{change.measure.title.lower()} on held-out claims went from {change.before:.2f} to "
        f"{change.after:.2f}"
        for change in measured
        if f"{change.split}/{change.measure.name}" in _HELD_OUT
        and change.before is not None
        and change.after is not None
    ]
    took = duration(sum(run.seconds.values())) if run.seconds else ""
    steps = run.steps or int(run.curves["step"].cast(pl.Int64).max() or 0)  # type: ignore[arg-type]
    in_time = f" in {took}" if took else ""
    tables = [changes_markdown(measured), seconds_markdown(run.seconds)]
    return Section(
        key=f"training-{slug(run.name)}",
        title=f"Learning curves: {run.name}",
        sentence=f"{'; '.join([f'{steps:,} optimizer steps{in_time}', *said])}.",
        engine=run.engine,
        pictures=(
            picture(f"training-{slug(run.name)}", "curves by step", training_figure(run.curves)),
        ),
        table="\n\n".join(tables),
    )


def study_sections(data: ReportData) -> list[Section]:
    """Each study with its figures, sentence and table; one section without any names a command."""
    figures: dict[str, list[StudyPicture]] = {}
    for one in data.studies:
        of = one.name.removesuffix(_CURVES)
        figures.setdefault(of if of in data.study_tables else one.name, []).append(one)
    known = [name for name in STUDY_TABLES if name in {*figures, *data.study_tables}]
    names = dict.fromkeys([*known, *figures])
    if not names:
        return [replace(_STUDIES, missing="results of studies", command=_STUDY)]
    return [
        _study(f"study-{number}", name, figures.get(name, []), data.study_tables.get(name))
        for number, name in enumerate(names, 1)
    ]


def _study(
    key: str, name: str, figures: Sequence[StudyPicture], table: pl.DataFrame | None
) -> Section:
    said = one_line(figures[0].sentence) if figures else ""
    return Section(
        key=f"{key}-{slug(name)}",
        title=f"Study: {one_line(name)}",
        sentence=said or "Made by a study; its page in docs/ explains it.",
        engine="that of the study" if table is None else study_engine(table),
        paper=PAPER_SECTIONS.get(name, ""),
        pictures=tuple(
            Picture(f"{key}-{slug(one.name)}", one_line(one.name), one.drawn) for one in figures
        ),
        table="" if table is None else STUDY_TABLES[name](table),
    )


def _step_engines(runs: pl.DataFrame | None) -> str:
    """The engine of each step of the funnel, as its stages recorded them."""
    if runs is None:
        return ""
    steps: dict[str, str] = {}
    for stage in STAGES:
        for text in runs.filter(stage=stage)["step_engines"].drop_nulls():
            steps |= json.loads(text)
    return " · ".join(f"{step}: {engine}" for step, engine in steps.items())


def _engine_of(runs: pl.DataFrame | None, stages: Iterable[str]) -> str:
    if runs is None:
        return ""
    named = runs.filter(pl.col("stage").is_in(list(stages)))["engine"].drop_nulls()
    return ", ".join(named.unique(maintain_order=True))
