"""The report of a run: its sections, each with a sentence, figures, a table, and its engine.

Whatever a sentence says is computed from the tables. A part that is not there is a section too: it
says what is missing and which command makes it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from decomposerl.reports.attrition import (
    STAGES,
    TOTAL,
    attrition_markdown,
    attrition_wide,
    drops_by_reason,
)
from decomposerl.reports.evaluation_sections import evaluation_sections
from decomposerl.reports.figures import selection_figure
from decomposerl.reports.funnel_figure import STAGE_TITLES, funnel_figure
from decomposerl.reports.report_data import KEPT, source_fates
from decomposerl.reports.report_figures import sources_figure
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
from decomposerl.reports.tables import frame_markdown, one_line, share
from decomposerl.reports.training_figure import training_figure
from decomposerl.reports.training_report import changes_markdown, duration, seconds_markdown
from decomposerl.training.curves import changes

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
