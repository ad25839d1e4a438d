"""The leaderboard: what was scored here, laid out as the paper's Tables 1 and 2.

Takes scores (``SCORES``) and the list of systems, gives the long ``LEADERBOARD`` and its wide form.
A row of the paper's tables is there for each protocol of its method, whether it was run or not; the
paper's figure stands in a column of its own and never in place of ours. A cell that was not run is
empty, a mean with an empty part is empty, and each row names the engine that answered. Systems that
are no row of the paper follow as table 0 and have no figure of the paper beside them.

Left out deliberately: metrics and intervals (``evaluation.metrics``), text (``reports``).
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
    """What lies on disk besides scores, as (system, benchmark).

    ``limited`` were predicted for some of the claims only; ``not_available`` have no claim to
    predict, because the test set's files are not there.
    """

    limited: Collection[_Cell] = frozenset()
    not_available: Collection[_Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table before its cells."""

    table: int
    family: str
    title: str
    system: System
    paper: Mapping[str, float]


def leaderboard(
    scores: pl.DataFrame, systems: Sequence[System], benchmarks: Iterable[str], runs: RunCoverage
) -> pl.DataFrame:
    """The ``LEADERBOARD`` of all that was scored; ``benchmarks`` are the test sets there are.

    ``scores`` has a row of its own for each mean that can be formed, under the names of ``MEANS``.
    """
    found = {
        (row["system"], row["benchmark"]): row
        for row in scores.filter(metric=METRIC, slice="all").iter_rows(named=True)
    }
    own = [name for name in benchmarks if name not in COLUMNS]
    lines: list[dict[str, object]] = []
    for _, rows in groupby(_rows(systems, found), key=lambda row: row.table):
        for place, row in enumerate(rows):
            lines += _cells(row, place, [*COLUMNS, *own], found, runs)
    return LEADERBOARD.conform(pl.DataFrame(lines, schema=LEADERBOARD.schema))


def _rows(systems: Sequence[System], scored: Collection[_Cell]) -> list[_Row]:
    """The paper's rows, then the systems that are none and have a score."""
    rows = [
        _Row(published.table, published.family, published.title, system, published.scores)
        for published in PUBLISHED
        for system in systems_of(published, systems)
    ]
    listed = {row.system.key for row in rows}
    ran = {system for system, _ in scored}
    return rows + [
        _Row(OTHERS, FURTHER, system.reader_title, system, {})
        for system in systems
        if system.key in ran - listed
    ]


def systems_of(published: PublishedRow, systems: Iterable[System]) -> list[System]:
    """The systems that a row of the paper may be: one a protocol, as the paper names none."""
    wanted = published.method, published.model
    return [system for system in systems if (system.method, system.model.key) == wanted]


def _cells(
    row: _Row,
    place: int,
    columns: Sequence[str],
    found: Mapping[_Cell, Mapping[str, object]],
    runs: RunCoverage,
) -> list[dict[str, object]]:
    system = row.system
    head = {
        "table": row.table,
        "place": place,
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
            **_score(found.get((system.key, column)), _status(system.key, column, runs)),
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
    """One row a system and table, in order: the layout of the paper's tables.

    Columns: those of ``LEADERBOARD`` up to ``engine`` (each that answered a test set, once),
    ``limited`` (a cell is of a short run), then for each test set and mean ``<name>``,
    ``<name>_low``, ``<name>_high`` (ours) and ``<name>_paper`` (the paper's).
    """
    head = ["table", "place", "family", "title", "system", "method", "model", "protocol"]
    columns = columns_of(board)
    cells = [
        pl.col(part).filter(pl.col("benchmark") == name).first().alias(named(name, part))
        for name in columns
        for part in PARTS
    ]
    asked = pl.col("engine").filter(~pl.col("benchmark").is_in(list(MEANS)))
    engines = asked.drop_nulls().unique().sort().str.join("; ")
    engine = pl.when(engines != "").then(engines).alias("engine")
    limited = (pl.col("status") == _LIMITED).any().alias("limited")
    grouped = board.group_by(head, maintain_order=True).agg(engine, limited, *cells)
    order = pl.col("table").replace_strict({1: 0, 2: 1, OTHERS: 2})
    return grouped.sort(order, "place")


def named(column: str, part: str) -> str:
    """The wide column of a test set's score, bound or figure of the paper."""
    return column if part == "score" else f"{column}_{part}"


def columns_of(board: pl.DataFrame) -> list[str]:
    """The columns of the wide form: those of the paper, then a person's own test sets."""
    seen = board["benchmark"].unique(maintain_order=True).to_list()
    return [*COLUMNS, *(name for name in seen if name not in COLUMNS)]
