"""The leaderboard: scores in the layout of the paper's Tables 1 and 2.

Published scores are in separate columns and never replace ours; each row names the engine that
answered. A recipe that was trained with several seeds has a row for each seed that was evaluated,
and behind them the mean over them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
RunCoverage = Mapping[tuple[str, str], str]
"""Statuses of runs by system and test set. ``LIMITED`` ones predicted some of the claims only;
``NOT_AVAILABLE`` ones had none to predict, because the test set's files are missing. ``EDITED``
ones are of an earlier form of an entry, and count as not run. Others have a full score."""


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
    names = [BEYOND_RATE, *(f"{BY_BASIS}{basis}" for basis in BASES)]
    rates = scores.filter(pl.col("metric").is_in(names), slice="all").drop_nulls("score")
    hits = (pl.col("score") * pl.col("rows") / 100).round().cast(pl.Int64)
    cells = rates.select("metric", "system", "benchmark", hits, "rows").rows()
    counts = {(rate, system, name): (counted, of) for rate, system, name, counted, of in cells}
    columns = [*dict.fromkeys((*COLUMNS, *benchmarks, *sorted({*further["benchmark"]})))]
    edited = {system for (system, _), status in runs.items() if status == EDITED}
    lines, places = [], Counter[int]()
    ran = edited | {system for system, _ in scored}
    for table, family, title, system, paper, keys in _rows(systems, ran):
        head = {
            "table": table,
            "place": places[table],
            "family": family,
            "title": title,
            "system": system.key,
            "method": system.method,
            "model": system.model.key,
            "protocol": system.protocol,
            "seeds": len(keys),
        }
        places[table] += 1
        for column in columns:
            parts = MEANS.get(column, (column.removesuffix(WITHOUT),))
            statuses = {runs.get((key, part)) for key in keys for part in parts}
            worst = (status for status in (EDITED, LIMITED, NOT_AVAILABLE) if status in statuses)
            score = _score([scored.get((key, column)) for key in keys], next(worst, _SCORED))
            whole = () if column.endswith(WITHOUT) else parts
            cell = {"benchmark": column, "paper": paper.get(column)}
            lines.append({**head, **cell, **score, **_counted(counts, keys, whole)})
    board = pl.DataFrame(lines, schema=LEADERBOARD.schema)
    rows = pl.when(pl.col("score").is_not_null()).then("rows")
    ranked = (rows == rows.max().over("benchmark")).fill_null(value=False)
    return LEADERBOARD.conform(board.with_columns(ranked=ranked))


def _counted(
    counts: Mapping[tuple[str, str, str], tuple[int, int]],
    keys: Sequence[str],
    parts: Sequence[str],
) -> dict[str, int]:
    """Over some test sets: the most claims of a run beyond the context, verdicts by their basis.

    ``counts`` are the claims that a rate counts and those it is a share of.
    """

    def sums(rate: str) -> list[tuple[int, int]]:
        cells = ([counts.get((rate, key, part), (0, 0)) for part in parts] for key in keys)
        return [(sum(n for n, _ in run), sum(of for _, of in run)) for run in cells]

    cell = {"beyond_context": max(counted for counted, _ in sums(BEYOND_RATE))}
    for basis in BASES:
        rights, verdicts = zip(*sums(f"{BY_BASIS}{basis}"), strict=True)
        cell |= {basis: sum(verdicts), f"{basis}_right": sum(rights)}
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


_Row = tuple[int, str, str, System, Mapping[str, float], Sequence[str]]
"""Table, family, title, system, the paper's scores, and the systems that it has the mean of."""


def _rows(systems: Sequence[System], ran: Collection[str]) -> Iterator[_Row]:
    """The paper's rows, then the other systems that ran; each with its recipe's other seeds.

    Entries with the published weights of a row of table 1 follow that row. The mean of the seeds
    that ran follows two or more of them.
    """
    first: list[tuple[int, str, str, System, Mapping[str, float]]] = []
    for paper in PUBLISHED:
        for system in systems_of(paper, systems):
            first.append((paper.table, paper.family, paper.title, system, paper.scores))
            first += [
                (paper.table, family, own.reader_title, own, paper.scores)
                for family, card in CARDS.items()
                if paper.table == 1 and [paper.method, paper.model] == card["row"]
                for own in systems
                if own.entry is not None and own.entry.model == card["model"]
            ]
    listed = {system.key for *_, system, _ in first}
    first += [
        (OTHERS, FURTHER, system.reader_title, system, {})
        for system in systems
        if not (system.model.seed or system.key in listed)
    ]
    trained = [one for one in systems if one.model.port == "policy" and one.key in ran]
    for table, family, title, own, scores in first:
        of_policy = own.model.port == "policy"
        seeds = [one for one in trained if of_policy and one.model.recipe == own.model.recipe]
        if table != OTHERS or own.key in ran:
            yield table, family, title, own, scores, [own.key]
        for seed in seeds:
            if seed.key != own.key:
                shown = f"{title}, {seed.model.seed}"
                yield table, family, shown, seed, scores, [seed.key]
        if len(seeds) > 1:
            mean = replace(own, model=replace(own.model, key=f"{own.model.recipe}{_MEAN}"))
            shown = f"{title}, mean of {len(seeds)} seeds"
            yield table, family, shown, mean, scores, [seed.key for seed in seeds]


def systems_of(published: PublishedRow, systems: Iterable[System]) -> list[System]:
    """The systems that may be a row of the paper: one per protocol, as the paper names none."""
    key = published.method, published.model
    of_catalogue = (system for system in systems if system.entry is None)
    return [system for system in of_catalogue if (system.method, system.model.key) == key]


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
