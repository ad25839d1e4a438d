"""The leaderboard: scores in the layout of the paper's Tables 1 and 2.

Published scores are in separate columns and never replace ours; each row names the engine that
answered. A recipe that was trained with several seeds has a row for each seed that was evaluated,
and behind them the mean over them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from decomposerl.evaluation.doubtful import base_of, column_of, parts_of, scores_without_doubtful
from decomposerl.evaluation.intervals import mean_interval
from decomposerl.evaluation.published import (
    COLUMNS,
    MEANS,
    PUBLISHED,
    PublishedRow,
)
from decomposerl.evaluation.scores import BEYOND_RATE
from decomposerl.evaluation.systems import System
from decomposerl.schemas import LEADERBOARD, SCORES

METRIC = "balanced_accuracy"
PARTS = ("score", "low", "high", "paper")
OTHERS, FURTHER = 0, "Further systems"
_MEAN = "-mean"
_SCORED, _NOT_AVAILABLE, _NOT_RUN = "scored", "not_available", "not_run"
LIMITED, EDITED = "limited", "edited"
_OURS = ("engine", "score", "low", "high", "rows")
_Cell = tuple[str, str]
_Scores = Mapping[_Cell, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RunCoverage:
    """Runs without a full score, as (system, benchmark).

    ``limited`` runs predicted some of the claims only; ``not_available`` ones had none to predict,
    because the test set's files are missing. ``edited`` ones are of an earlier form of an entry,
    and count as not run.
    """

    limited: Collection[_Cell] = frozenset()
    not_available: Collection[_Cell] = frozenset()
    edited: Collection[_Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of a table before its cells; ``runs`` are the systems that it is the mean of."""

    table: int
    family: str
    title: str
    system: System
    paper: Mapping[str, float]
    runs: tuple[System, ...]


def leaderboard(
    scores: pl.DataFrame, systems: Sequence[System], benchmarks: Iterable[str], runs: RunCoverage
) -> pl.DataFrame:
    """The ``LEADERBOARD`` of all scores; ``benchmarks`` are the known test sets.

    A test set with doubtful labels has a further column without those claims.

    ``scores`` includes the means that can be formed, under the names of ``MEANS``. A row of the
    paper's tables appears for each protocol of its method, run or not. A cell that was not run is
    empty, and a mean with an empty part is empty. Systems that are no row of the paper follow as
    table 0.

    Runs of one recipe with several seeds are rows one after the other. Where two or more have a
    score, their mean follows as ``<system>-mean``, with the least and the greatest of their scores
    as its bounds; a cell that one of them lacks is empty.
    """
    further = scores_without_doubtful(scores)
    counted = pl.concat([scores, further]).filter(metric=METRIC, slice="all")
    scored = {(row["system"], row["benchmark"]): row for row in counted.iter_rows(named=True)}
    names = list(benchmarks)
    own = [name for name in names if name not in COLUMNS]
    own += [one for one in map(column_of, names) if one in set(further["benchmark"])]
    beyond = _beyond(scores)
    lines: list[dict[str, object]] = []
    present = {system for system, _ in (*scored, *runs.edited)}
    for _, rows in groupby(_rows(systems, present), key=lambda row: row.table):
        for position, row in enumerate(rows):
            cells = _cells(row, position, [*COLUMNS, *own], scored, runs)
            lines += [one | {"beyond_context": _most_beyond(row, one, beyond)} for one in cells]
    return LEADERBOARD.conform(pl.DataFrame(lines, schema=LEADERBOARD.schema))


def mean_scores(scores: pl.DataFrame, means: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Uniform means of balanced accuracy over benchmarks, as ``SCORES``.

    One row per system and mean, where every benchmark of the mean has a score; the row names each
    engine once. The interval follows from those of the independent parts (``mean_interval``).
    """
    whole = scores.filter(slice="all", metric="balanced_accuracy").drop_nulls("score")
    lines = []
    for (system,), rows in whole.group_by("system", maintain_order=True):
        for name, parts in means.items():
            scored = rows.filter(pl.col("benchmark").is_in(list(parts)))
            if scored.height == len(parts):
                engine = " / ".join(scored["engine"].unique(maintain_order=True))
                lines.append([name, system, engine, *_mean_of(scored)])
    return SCORES.conform(pl.DataFrame(lines, SCORES.schema, orient="row"))


def _mean_of(rows: pl.DataFrame) -> list[object]:
    score, low, high = (rows[column].to_list() for column in ("score", "low", "high"))
    mean = [float(np.mean(score)), *mean_interval(score, low, high)]
    return ["balanced_accuracy", "all", "", *mean, rows["rows"].sum(), rows["supported"].sum()]


def _rows(systems: Sequence[System], ran: Collection[str]) -> list[_TableRow]:
    """The paper's rows, then the other systems that ran; each with its recipe's other seeds."""
    first = [
        _TableRow(paper.table, paper.family, paper.title, system, paper.scores, (system,))
        for paper in PUBLISHED
        for system in systems_of(paper, systems)
    ]
    listed = {row.system.key for row in first}
    first += [
        _TableRow(OTHERS, FURTHER, system.reader_title, system, {}, (system,))
        for system in systems
        if not (system.model.seed or system.key in listed)
    ]
    rows = [row for each in first for row in _with_seeds(each, systems, ran)]
    return [row for row in rows if row.table != OTHERS or row.runs[0].key in ran]


def _runs_of(system: System, systems: Iterable[System]) -> list[System]:
    """The system, and where it is a policy the same recipe's with other seeds."""
    if system.model.port != "policy":
        return [system]
    recipe = system.model.recipe
    return [one for one in systems if one.model.port == "policy" and one.model.recipe == recipe]


def _with_seeds(
    first: _TableRow, systems: Iterable[System], ran: Collection[str]
) -> list[_TableRow]:
    """The row, those of its recipe's other seeds that ran, and the mean of two or more."""
    runs = tuple(one for one in _runs_of(first.system, systems) if one.key in ran)
    rows = [first] + [
        replace(first, title=f"{first.title}, {one.model.seed}", system=one, runs=(one,))
        for one in runs
        if one.key != first.system.key
    ]
    if len(runs) > 1:
        title = f"{first.title}, mean of {len(runs)} seeds"
        model = first.system.model
        mean = replace(first.system, model=replace(model, key=f"{model.recipe}{_MEAN}"))
        rows.append(replace(first, title=title, system=mean, runs=runs))
    return rows


def systems_of(published: PublishedRow, systems: Iterable[System]) -> list[System]:
    """The systems that may be a row of the paper: one per protocol, as the paper names none."""
    key = published.method, published.model
    return [
        system
        for system in systems
        if system.entry is None and (system.method, system.model.key) == key
    ]


def _beyond(scores: pl.DataFrame) -> dict[_Cell, int]:
    """Claims beyond the context, by system and test set."""
    rates = scores.filter(metric=BEYOND_RATE, slice="all").drop_nulls("score")
    counts = (pl.col("score") * pl.col("rows") / 100).round().cast(pl.Int64)
    return {(one, name): n for one, name, n in rates.select("system", "benchmark", counts).rows()}


def _most_beyond(row: _TableRow, line: Mapping[str, object], beyond: Mapping[_Cell, int]) -> int:
    """Claims beyond the context of a cell; of a mean over seeds, the most of one run."""
    column = str(line["benchmark"])
    parts = () if base_of(column) else parts_of(column)
    return max(sum(beyond.get((one.key, part), 0) for part in parts) for one in row.runs)


def _cells(
    row: _TableRow,
    position: int,
    columns: Sequence[str],
    scored: _Scores,
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
        "seeds": len(row.runs),
    }
    return [
        {
            **head,
            "benchmark": column,
            **_score(
                [scored.get((one.key, column)) for one in row.runs],
                _status([one.key for one in row.runs], column, runs),
            ),
            "paper": row.paper.get(column),
        }
        for column in columns
    ]


def _score(cells: Sequence[Mapping[str, Any] | None], status: str) -> dict[str, object]:
    """Our part of a cell, from the one run of its row or from those it is the mean of."""
    present = [cell for cell in cells if cell is not None and cell["score"] is not None]
    if len(present) < len(cells):
        empty = status if status in {_NOT_AVAILABLE, EDITED} else _NOT_RUN
        return dict.fromkeys(_OURS) | {"rows": 0, "status": empty}
    if len(present) == 1:
        return {name: present[0][name] for name in _OURS} | {"status": status}
    scores = [float(cell["score"]) for cell in present]
    return {
        "engine": " / ".join(dict.fromkeys(str(cell["engine"]) for cell in present)),
        "score": sum(scores) / len(scores),
        "low": min(scores),
        "high": max(scores),
        "rows": min(cell["rows"] for cell in present),
        "status": status,
    }


def _status(systems: Sequence[str], column: str, runs: RunCoverage) -> str:
    cells = {(system, part) for system in systems for part in parts_of(column)}
    if cells & set(runs.edited):
        return EDITED
    if cells & set(runs.limited):
        return LIMITED
    return _NOT_AVAILABLE if cells & set(runs.not_available) else _SCORED


def wide_leaderboard(board: pl.DataFrame) -> pl.DataFrame:
    """One row per system and table, in the layout of the paper's tables.

    Columns: those of ``LEADERBOARD`` up to ``engine`` (each engine once), ``limited`` (a cell is of
    a limited run), then for each test set and mean ``<name>``, ``<name>_low``, ``<name>_high``
    (ours) and ``<name>_paper`` (the paper's); of a column without doubtful claims also
    ``<name>_rows``, the claims left.
    """
    head = ["table", "place", "family", "title", "system", "method", "model", "protocol", "seeds"]
    columns = columns_of(board)
    cells = [
        pl.col(part).filter(pl.col("benchmark") == name).first().alias(column_name(name, part))
        for name in columns
        for part in (*PARTS, *["rows"] * (base_of(name) is not None))
    ]
    of_test_sets = pl.col("engine").filter(~pl.col("benchmark").is_in(list(MEANS)))
    engines = of_test_sets.drop_nulls().unique().sort().str.join("; ")
    engine = pl.when(engines != "").then(engines).alias("engine")
    limited = (pl.col("status") == LIMITED).any().alias("limited")
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
