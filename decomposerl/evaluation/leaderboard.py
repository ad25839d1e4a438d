"""The leaderboard: scores in the layout of the paper's Tables 1 and 2.

Published scores are in separate columns and never replace ours; each row names the engine that
answered.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from decomposerl.evaluation.published import (
    COLUMNS,
    MEANS,
    PUBLISHED,
    PublishedRow,
)
from decomposerl.evaluation.scores import BEYOND_RATE
from decomposerl.evaluation.systems import System
from decomposerl.schemas import LEADERBOARD

METRIC = "balanced_accuracy"
PARTS = ("score", "low", "high", "paper")
OTHERS, FURTHER = 0, "Further systems"
_SCORED, _LIMITED, _NOT_AVAILABLE, _NOT_RUN = "scored", "limited", "not_available", "not_run"
_OURS = ("engine", "score", "low", "high", "rows")
_Cell = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RunCoverage:
    """Runs without a full score, as (system, benchmark).

    ``limited`` runs predicted some of the claims only; ``not_available`` ones had none to predict,
    because the test set's files are missing.
    """

    limited: Collection[_Cell] = frozenset()
    not_available: Collection[_Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of a table before its cells."""

    table: int
    family: str
    title: str
    system: System
    paper: Mapping[str, float]


def leaderboard(
    scores: pl.DataFrame, systems: Sequence[System], benchmarks: Iterable[str], runs: RunCoverage
) -> pl.DataFrame:
    """The ``LEADERBOARD`` of all scores; ``benchmarks`` are the known test sets.

    ``scores`` includes the means that can be formed, under the names of ``MEANS``. A row of the
    paper's tables appears for each protocol of its method, run or not. A cell that was not run is
    empty, and a mean with an empty part is empty. Systems that are no row of the paper follow as
    table 0.
    """
    scored = {
        (row["system"], row["benchmark"]): row
        for row in scores.filter(metric=METRIC, slice="all").iter_rows(named=True)
    }
    own = [name for name in benchmarks if name not in COLUMNS]
    beyond = _beyond(scores)
    lines: list[dict[str, object]] = []
    for _, rows in groupby(_rows(systems, scored), key=lambda row: row.table):
        for position, row in enumerate(rows):
            lines += _cells(row, position, [*COLUMNS, *own], scored, runs)
    for line in lines:
        parts = MEANS.get(str(line["benchmark"]), (str(line["benchmark"]),))
        line["beyond_context"] = sum(beyond.get((str(line["system"]), part), 0) for part in parts)
    return LEADERBOARD.conform(pl.DataFrame(lines, schema=LEADERBOARD.schema))


def _rows(systems: Sequence[System], scored: Collection[_Cell]) -> list[_TableRow]:
    """The paper's rows, then the other systems with a score."""
    rows = [
        _TableRow(published.table, published.family, published.title, system, published.scores)
        for published in PUBLISHED
        for system in systems_of(published, systems)
    ]
    listed = {row.system.key for row in rows}
    ran = {system for system, _ in scored}
    return rows + [
        _TableRow(OTHERS, FURTHER, system.reader_title, system, {})
        for system in systems
        if system.key in ran - listed
    ]


def systems_of(published: PublishedRow, systems: Iterable[System]) -> list[System]:
    """The systems that may be a row of the paper: one per protocol, as the paper names none."""
    key = published.method, published.model
    return [system for system in systems if (system.method, system.model.key) == key]


def _beyond(scores: pl.DataFrame) -> dict[_Cell, int]:
    """Claims beyond the context, by system and test set."""
    rates = scores.filter(metric=BEYOND_RATE, slice="all").drop_nulls("score")
    counts = (pl.col("score") * pl.col("rows") / 100).round().cast(pl.Int64)
    return {(one, name): n for one, name, n in rates.select("system", "benchmark", counts).rows()}


def _cells(
    row: _TableRow,
    position: int,
    columns: Sequence[str],
    scored: Mapping[_Cell, Mapping[str, object]],
    runs: RunCoverage,
) -> list[dict[str, object]]:
    system = row.system
    head = {
        "table": row.table,
        "place": position,
        "family": row.family,
        "title": row.title,
        "system": system.key,
        "method": system.method,
        "model": system.model.key,
        "protocol": system.protocol,
    }
    return [
        {
            **head,
            "benchmark": column,
            **_score(scored.get((system.key, column)), _status(system.key, column, runs)),
            "paper": row.paper.get(column),
        }
        for column in columns
    ]


def _score(score: Mapping[str, object] | None, status: str) -> dict[str, object]:
    if score is None or score["score"] is None:
        empty = status if status == _NOT_AVAILABLE else _NOT_RUN
        return dict.fromkeys(_OURS) | {"rows": 0, "status": empty}
    return {name: score[name] for name in _OURS} | {"status": status}


def _status(system: str, column: str, runs: RunCoverage) -> str:
    parts = MEANS.get(column, (column,))
    if any((system, part) in runs.limited for part in parts):
        return _LIMITED
    if any((system, part) in runs.not_available for part in parts):
        return _NOT_AVAILABLE
    return _SCORED


def wide_leaderboard(board: pl.DataFrame) -> pl.DataFrame:
    """One row per system and table, in the layout of the paper's tables.

    Columns: those of ``LEADERBOARD`` up to ``engine`` (each engine once), ``limited`` (a cell is of
    a limited run), then for each test set and mean ``<name>``, ``<name>_low``, ``<name>_high``
    (ours) and ``<name>_paper`` (the paper's).
    """
    head = ["table", "place", "family", "title", "system", "method", "model", "protocol"]
    columns = columns_of(board)
    cells = [
        pl.col(part).filter(pl.col("benchmark") == name).first().alias(column_name(name, part))
        for name in columns
        for part in PARTS
    ]
    of_test_sets = pl.col("engine").filter(~pl.col("benchmark").is_in(list(MEANS)))
    engines = of_test_sets.drop_nulls().unique().sort().str.join("; ")
    engine = pl.when(engines != "").then(engines).alias("engine")
    limited = (pl.col("status") == _LIMITED).any().alias("limited")
    grouped = board.group_by(head, maintain_order=True).agg(engine, limited, *cells)
    order = pl.col("table").replace_strict({1: 0, 2: 1, OTHERS: 2})
    return grouped.sort(order, "place")


def column_name(column: str, part: str) -> str:
    """The wide column of a test set's score, bound or published score."""
    return column if part == "score" else f"{column}_{part}"


def columns_of(board: pl.DataFrame) -> list[str]:
    """The columns of the wide form: those of the paper, then other test sets."""
    seen = board["benchmark"].unique(maintain_order=True).to_list()
    return [*COLUMNS, *(name for name in seen if name not in COLUMNS)]
