"""The leaderboard: scores in the layout of the paper's Tables 1 and 2, or of LLM-AggreFact's page.

Published scores are in separate columns and never replace ours; each row names the engine that
answered. A recipe that was trained with several seeds has a row for each seed that was evaluated,
and behind them the mean over them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.evaluation.intervals import mean_interval
from decomposerl.evaluation.published import CARDS, COLUMNS, MEANS, PUBLISHED, PublishedRow
from decomposerl.evaluation.scores import BEYOND_RATE, BY_BASIS
from decomposerl.evaluation.systems import System
from decomposerl.schemas import BASES, LEADERBOARD, SCORES

METRIC = "balanced_accuracy"
PARTS = ("score", "low", "high", "paper")
OTHERS, FURTHER = 0, "Further systems"
LIMITED, EDITED, NOT_AVAILABLE, ONE_LABEL = "limited", "edited", "not_available", "one_label"
_SCORED, _NOT_RUN = "scored", "not_run"
_MEAN = "-mean"
_OURS = ("engine", "score", "low", "high", "rows")
AGGREFACT = "llm_aggrefact"
AGGREFACT_PARTS: Mapping[str, str] = {
    "AggreFact-CNN": "CNN",
    "AggreFact-XSum": "XSum",
    "TofuEval-MediaS": "MediaS",
    "TofuEval-MeetB": "MeetB",
    "Wice": "WiCE",
    "Reveal": "REVEAL",
    "ClaimVerify": "ClaimVerify",
    "FactCheck-GPT": "FactCheck",
    "ExpertQA": "ExpertQA",
    "Lfqa": "LFQA",
    "RAGTruth": "RAGTruth",
}
"""The column of LLM-AggreFact's leaderboard of each part of the data set, in its order."""
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)[ _]?b(?![a-z\d])", re.IGNORECASE)
RunCoverage = Mapping[tuple[str, str], str]
"""Statuses of runs by system and test set. ``LIMITED`` ones predicted some of the claims only;
``NOT_AVAILABLE`` ones had none to predict, because the test set's files are missing. ``EDITED``
ones are of an earlier form of an entry, and count as not run. Others have a full score."""


@dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of a table before its cells."""

    table: int
    family: str
    title: str
    system: System
    paper: Mapping[str, float] = field(default_factory=dict)
    mean_of: Sequence[str] = ()

    @property
    def runs(self) -> Sequence[str]:
        """The systems whose scores it has the mean of, or its own."""
        return self.mean_of or [self.system.key]


def leaderboard(
    scores: pl.DataFrame, systems: Sequence[System], benchmarks: Iterable[str], runs: RunCoverage
) -> pl.DataFrame:
    """The ``LEADERBOARD`` of all scores; ``benchmarks`` are the known test sets.

    A test set with doubtful labels has a further column without those claims. A system that was
    scored on fewer claims than another one of the column is not ``ranked`` among them.

    ``scores`` includes the means that can be formed, under the names of ``MEANS``. A row of the
    paper's tables appears for each protocol of its method, run or not. A cell that was not run is
    empty, and a mean with an empty part is empty. Systems that are no row of the paper follow as
    table 0.

    Runs of one recipe with several seeds are rows one after the other. Where two or more have a
    score, their mean follows as ``<system>-mean``, with the least and the greatest of their scores
    as its bounds; a cell that one of them lacks is empty.
    """
    further = scores.filter(metric=f"{METRIC}{WITHOUT}")
    further = further.with_columns(pl.col("benchmark") + WITHOUT, metric=pl.lit(METRIC))
    counted = pl.concat([scores, further]).filter(metric=METRIC, slice="all")
    scored = {(row["system"], row["benchmark"]): row for row in counted.iter_rows(named=True)}
    counts = _counts(scores)
    columns = [*dict.fromkeys((*COLUMNS, *benchmarks, *sorted({*further["benchmark"]})))]
    edited = {system for (system, _), status in runs.items() if status == EDITED}
    every = _rows(systems, edited | {system for system, _ in scored})
    lines = []
    for _, of_table in groupby(every, key=lambda row: row.table):
        for place, row in enumerate(of_table):
            head = {
                "table": row.table,
                "place": place,
                "family": row.family,
                "title": row.title,
                "system": row.system.key,
                "method": row.system.method,
                "model": row.system.model.key,
                "protocol": row.system.protocol,
                "seeds": len(row.runs),
            }
            for column in columns:
                parts = MEANS.get(column, (column.removesuffix(WITHOUT),))
                status = _status({runs.get((run, part)) for run in row.runs for part in parts})
                score = _score([scored.get((run, column)) for run in row.runs], status)
                whole = () if column.endswith(WITHOUT) else parts
                cell = {"benchmark": column, "paper": row.paper.get(column)}
                lines.append({**head, **cell, **score, **_counted(counts, row.runs, whole)})
    board = pl.DataFrame(lines, schema=LEADERBOARD.schema)
    rows = pl.when(pl.col("score").is_not_null()).then("rows")
    ranked = (rows == rows.max().over("benchmark")).fill_null(value=False)
    return LEADERBOARD.conform(board.with_columns(ranked=ranked))


def _counts(scores: pl.DataFrame) -> dict[tuple[str, str, str], tuple[int, int]]:
    """The claims that a rate counts and those it is a share of, by rate, system and test set."""
    names = [BEYOND_RATE, *(f"{BY_BASIS}{basis}" for basis in BASES)]
    rates = scores.filter(pl.col("metric").is_in(names), slice="all").drop_nulls("score")
    hits = (pl.col("score") * pl.col("rows") / 100).round().cast(pl.Int64)
    cells = rates.select("metric", "system", "benchmark", hits, "rows").iter_rows()
    return {(rate, system, name): (counted, of) for rate, system, name, counted, of in cells}


def _counted(
    counts: Mapping[tuple[str, str, str], tuple[int, int]],
    runs: Sequence[str],
    parts: Sequence[str],
) -> dict[str, int]:
    """Over some test sets: the most claims of a run beyond the context, verdicts by their basis."""

    def sums(rate: str, run: str) -> tuple[int, int]:
        found = [counts.get((rate, run, part), (0, 0)) for part in parts]
        return sum(counted for counted, _ in found), sum(of for _, of in found)

    cell = {"beyond_context": max(sums(BEYOND_RATE, run)[0] for run in runs)}
    for basis in BASES:
        each = [sums(f"{BY_BASIS}{basis}", run) for run in runs]
        cell |= {
            basis: sum(of for _, of in each),
            f"{basis}_right": sum(right for right, _ in each),
        }
    return cell


def mean_scores(scores: pl.DataFrame, means: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Uniform means of balanced accuracy over benchmarks, as ``SCORES``.

    One row per system and mean, where every benchmark of the mean has a score; the row names each
    engine once. The interval follows from those of the independent parts (``mean_interval``).
    """
    whole = scores.filter(slice="all", metric=METRIC).drop_nulls("score")
    lines = []
    for (system,), rows in whole.group_by("system", maintain_order=True):
        for name, parts in means.items():
            scored = rows.filter(pl.col("benchmark").is_in(list(parts)))
            if scored.height == len(parts):
                engine = " / ".join(scored["engine"].unique(maintain_order=True))
                score, low, high = (scored[part].to_list() for part in PARTS[:3])
                mean = [float(np.mean(score)), *mean_interval(score, low, high)]
                sizes = [scored["rows"].sum(), scored["supported"].sum()]
                lines.append([name, system, engine, METRIC, "all", "", *mean, *sizes])
    return SCORES.conform(pl.DataFrame(lines, SCORES.schema, orient="row"))


def _rows(systems: Sequence[System], ran: Collection[str]) -> list[_TableRow]:
    """The paper's rows, then the other systems that ran; each with its recipe's other seeds.

    Entries with the published weights of a row of table 1 follow that row.
    """
    first: list[_TableRow] = []
    for paper in PUBLISHED:
        for system in systems_of(paper, systems):
            row = _TableRow(paper.table, paper.family, paper.title, system, paper.scores)
            first.append(row)
            for family, card in CARDS.items():
                if paper.table == 1 and [paper.method, paper.model] == card["row"]:
                    first += [
                        replace(row, family=family, title=one.reader_title, system=one)
                        for one in systems
                        if one.entry is not None and one.entry.model == card["model"]
                    ]
    listed = {row.system.key for row in first}
    first += [
        _TableRow(OTHERS, FURTHER, system.reader_title, system)
        for system in systems
        if not (system.model.seed or system.key in listed)
    ]
    rows = [row for each in first for row in _with_seeds(each, systems, ran)]
    return [row for row in rows if row.table != OTHERS or row.runs[0] in ran]


def _with_seeds(
    first: _TableRow, systems: Iterable[System], ran: Collection[str]
) -> list[_TableRow]:
    """The row, those of its recipe's other seeds that ran, and the mean of two or more."""
    own = first.system
    seeds = [
        system
        for system in systems
        if own.model.port == system.model.port == "policy"
        and system.model.recipe == own.model.recipe
        and system.key in ran
    ]
    rows = [first] + [
        replace(first, title=f"{first.title}, {seed.model.seed}", system=seed)
        for seed in seeds
        if seed.key != own.key
    ]
    if len(seeds) > 1:
        title = f"{first.title}, mean of {len(seeds)} seeds"
        mean = replace(own, model=replace(own.model, key=f"{own.model.recipe}{_MEAN}"))
        rows.append(replace(first, title=title, system=mean, mean_of=[one.key for one in seeds]))
    return rows


def systems_of(published: PublishedRow, systems: Iterable[System]) -> list[System]:
    """The systems that may be a row of the paper: one per protocol, as the paper names none."""
    key = published.method, published.model
    return [
        system
        for system in systems
        if system.entry is None and (system.method, system.model.key) == key
    ]


def _score(cells: Sequence[Mapping[str, Any] | None], status: str) -> dict[str, object]:
    """Our part of a cell, from the one run of its row or from those it is the mean of."""
    present = [cell for cell in cells if cell is not None and cell["score"] is not None]
    first, empty = cells[0], dict.fromkeys(_OURS)
    if first is not None and not present:  # a balanced accuracy needs both labels
        return empty | {"engine": first["engine"], "rows": first["rows"], "status": ONE_LABEL}
    # A mean over fewer seeds than its neighbours would be compared with them.
    if len(present) < len(cells):
        status = status if status in {NOT_AVAILABLE, EDITED} else _NOT_RUN
        return empty | {"rows": 0, "status": status}
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


def _status(statuses: Collection[str | None]) -> str:
    """The status of a cell from those of its runs and parts: the worst of them."""
    worst = (status for status in (EDITED, LIMITED, NOT_AVAILABLE) if status in statuses)
    return next(worst, _SCORED)


def wide_leaderboard(board: pl.DataFrame) -> pl.DataFrame:
    """One row per system and table, in the layout of the paper's tables.

    Columns: those of ``LEADERBOARD`` up to ``engine`` (each engine once), ``limited`` (a cell is of
    a limited run), ``ranked`` (no cell has fewer claims than another system's), then for each test
    set and mean ``<name>``, ``<name>_low``, ``<name>_high`` (ours), ``<name>_paper`` (the paper's)
    and ``<name>_rows``, the claims.
    """
    head = ["table", "place", "family", "title", "system", "method", "model", "protocol", "seeds"]
    columns = columns_of(board)
    cells = [
        pl.col(part).filter(pl.col("benchmark") == name).first().alias(column_name(name, part))
        for name in columns
        for part in (*PARTS, "rows")
    ]
    of_test_sets = pl.col("engine").filter(~pl.col("benchmark").is_in(list(MEANS)))
    engines = of_test_sets.drop_nulls().unique().sort().str.join("; ")
    engine = pl.when(engines != "").then(engines).alias("engine")
    limited = (pl.col("status") == LIMITED).any().alias("limited")
    ranked = pl.col("ranked").filter(pl.col("score").is_not_null()).all().alias("ranked")
    grouped = board.group_by(head, maintain_order=True).agg(engine, limited, ranked, *cells)
    order = pl.col("table").replace_strict({1: 0, 2: 1, OTHERS: 2})
    return grouped.sort(order, "place")


def column_name(column: str, part: str) -> str:
    """The wide column of a test set's score, bound or published score."""
    return column if part == "score" else f"{column}_{part}"


def columns_of(board: pl.DataFrame) -> list[str]:
    """The columns of the wide form: those of the paper, then other test sets."""
    return [*dict.fromkeys((*COLUMNS, *board["benchmark"]))]


def aggrefact_rows(scores: pl.DataFrame, systems: Sequence[System]) -> pl.DataFrame:
    """``SCORES`` of LLM-AggreFact in the layout of llm-aggrefact.github.io, best average first.

    One row for each system: ``model``, ``Size`` (``-`` where the model's name has none),
    ``Average``, then the balanced accuracy of the eleven parts, all in percent with one decimal as
    there. The average is the mean of the rounded parts, as that page computes it. A part without a
    score is null, and so is the average then.
    """
    known = scores.filter(benchmark=AGGREFACT)
    of_parts = known.filter(slice="subset", metric=METRIC).select("system", "value", "score")
    by_part = {(system, part): score for system, part, score in of_parts.iter_rows()}
    rows: list[tuple[object, ...]] = []
    for system in systems:
        if system.key in known["system"]:
            parts = [by_part.get((system.key, part)) for part in AGGREFACT_PARTS]
            shown = [round(part, 1) for part in parts if part is not None]
            whole = len(shown) == len(parts)
            average = round(sum(shown) / len(parts), 1) if whole else None
            cells = (None if part is None else round(part, 1) for part in parts)
            rows.append((system.reader_title, _size(system), average, *cells))
    columns = {"model": pl.String(), "Size": pl.String(), "Average": pl.Float64()}
    columns |= dict.fromkeys(AGGREFACT_PARTS.values(), pl.Float64())
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return table.sort("Average", "model", descending=[True, False], nulls_last=True)


def _size(system: System) -> str:
    entry = system.entry
    names = (entry.model, entry.title) if entry else (system.model.title, system.model.key)
    return next((f"{match[1]}B" for name in names if (match := _SIZE.search(name))), "-")
