"""``docs/reference/tables.md``: the columns of every table, and the views of the catalogue."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import polars as pl

from decomposerl import schemas
from decomposerl.claims.claim import RejectReason
from decomposerl.funnel.lineage import STAGE_TABLES
from decomposerl.table import Column, Table
from resources.catalogue.database import build_catalogue, open_catalogue
from studies.reference.files import paths_of
from studies.reference.markdown import MADE, code, paragraphs, table

_STAGES = tuple({one.name: one for one in STAGE_TABLES.values()}.values())
TABLES: tuple[Table, ...] = (
    schemas.CLAIMS,
    schemas.BENCHMARK_CLAIMS,
    *_STAGES,
    schemas.DROPS,
    schemas.REJECTS,
    schemas.DOUBTFUL,
    schemas.PAIRS,
    schemas.SELECTION_CELLS,
    schemas.ROLLOUTS,
    schemas.REWARDS,
    schemas.JUDGE_CALLS,
    schemas.CURVES,
    schemas.PREDICTIONS,
    schemas.CALLS,
    schemas.SCORES,
    schemas.CALIBRATIONS,
    schemas.LEADERBOARD,
    schemas.COMPARISON,
    schemas.ATTRITION,
    schemas.CHAT_REPLIES,
    schemas.JUDGE_EXAMPLES,
    schemas.JUDGE_AGREEMENT,
    schemas.JUDGE_STUDY,
    schemas.SELECTOR_STUDY,
    schemas.TRAINING_STUDY,
    schemas.STAGE_RUNS,
)
"""In the order of the page."""
VIEWS: dict[str, str] = {
    "claims": "the claims of every training corpus",
    "benchmarks": "the claims of every test set",
    **{
        one.name: f"the table [{one.name}](#{one.name})"
        for one in (
            *_STAGES,
            schemas.PAIRS,
            schemas.SELECTION_CELLS,
            schemas.CHAT_REPLIES,
            schemas.ATTRITION,
            schemas.STAGE_RUNS,
            schemas.LEADERBOARD,
            schemas.COMPARISON,
        )
    },
    "drops": "claims that reading or a stage of the funnel dropped",
    "benchmark_drops": "claims that reading a test set dropped",
    "rejects": "rejects of all corpora; `read_for` is source or benchmark",
    "journey": "each claim once at every stage: kept, or dropped with its reason",
    "attrition_wide": "kept claims, a row for each corpus and a column for each stage",
    "drops_by_reason": "dropped and rejected rows by stage, reason and corpus",
    "curves": "the learning curves of all runs",
    "rollouts": "traces of all runs; of a step that was sampled twice, those that count",
    "training_rewards": "their rewards",
    "training_judge_calls": "the judge's rulings on them",
    "training_attempts": "each start of a run, and the step it resumed from",
    "predictions": "verdicts of all systems",
    "calls": "their calls, with `benchmark` and `system`",
    "scores": "their scores",
    "leaderboard_wide": "the leaderboard with a column for each test set",
}
"""What each view or table of the DuckDB file has."""
_INTRODUCTION = """\
The columns of every Parquet file, by table. Each file is checked against its table when it is
written and when it is read. [Files](files.md) lists the paths; [Query the
funnel](../how-to/query.md) has queries to start from. A column may be null only where the table
says so.
"""
_RECORDED = "Stored as JSON, one file for each asset or partition: `stage_runs/<asset>.json`."


def page() -> str:
    """The page as Markdown."""
    parts = ("# Tables and columns", _INTRODUCTION, MADE)
    return paragraphs(*parts, *_sections(), "## Views of decomposerl.duckdb", *_views())


def _sections() -> Iterator[str]:
    for place, one in enumerate(TABLES):
        yield f"## {one.name}"
        paths = ", ".join(map(code, paths_of(one.name)))
        unique = f" Unique: {', '.join(map(code, one.unique))}." if one.unique else ""
        yield f"{f'Files: {paths}.' if paths else _RECORDED} One row is {one.row}.{unique}"
        base = _base(one, TABLES[:place])
        rest = one.columns[len(base.columns) :] if base else one.columns
        if base is not None:
            also = "." if not rest else ", and:"
            yield f"The columns of [{base.name}](#{base.name}){_nullable(one, base)}{also}"
        if rest:
            yield table(("Column", "Type", "Null", "Meaning"), map(_row, rest))
        if one is schemas.REJECTS:
            yield f"Reasons: {', '.join(map(code, get_args(RejectReason)))}."


def _base(one: Table, before: Sequence[Table]) -> Table | None:
    """The longest earlier table that this one begins with."""

    def same(column: Column) -> tuple[str, pl.DataType, str]:
        return column.name, column.dtype, column.meaning

    begun = [
        other
        for other in before
        if [*map(same, other.columns)] == [*map(same, one.columns[: len(other.columns)])]
    ]

    def nearness(other: Table) -> tuple[int, int]:
        alike = zip(one.columns, other.columns, strict=False)
        return len(other.columns), sum(a.nullable == b.nullable for a, b in alike)

    return max(reversed(begun), key=nearness, default=None)


def _nullable(one: Table, base: Table) -> str:
    more = [
        code(column.name)
        for column, other in zip(one.columns, base.columns, strict=False)
        if column.nullable and not other.nullable
    ]
    return f", of which also {', '.join(more)} may be null" if more else ""


def _row(column: Column) -> tuple[str, str, str, str]:
    null = "yes" if column.nullable else ""
    return code(column.name), _type(column.dtype), null, column.meaning


def _type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List):
        return f"List of {_type(pl.Field('', dtype.inner).dtype)}"
    if isinstance(dtype, pl.Struct):
        fields = (
            f"{field.name}: {_type(pl.Field('', field.dtype).dtype)}" for field in dtype.fields
        )
        return f"Struct ({', '.join(fields)})"
    return str(dtype)


def _views() -> Iterator[str]:
    yield (
        "`decomposerl.duckdb` has these views and tables. What was not made yet is empty, with the "
        "same columns. The macro `explain('CLAIM_ID')` gives the rows of `journey` of one claim, "
        "with the claim that it matched."
    )
    yield table(("View", "Rows"), [(code(name), VIEWS[name]) for name in _names()])


def _names() -> list[str]:
    """The views and tables of a catalogue, in the order of ``VIEWS``."""
    with TemporaryDirectory() as folder:
        build_catalogue(Path(folder))
        with open_catalogue(Path(folder)) as connection:
            names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
    return sorted(names, key=list(VIEWS).index)
