"""The leaderboard: scores in the layout of the paper's Tables 1 and 2.

Published scores are in separate columns and never replace ours; each row names the engine that
answered. A recipe that was trained with several seeds has a row for each seed that was evaluated,
and behind them the mean over them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from decomposerl.evaluation.metrics import Estimate, mean_of
from decomposerl.evaluation.published import CARDS, COLUMNS, MEANS, PUBLISHED
from decomposerl.evaluation.scores import BEYOND_RATE, BY_BASIS
from decomposerl.evaluation.systems import System
from decomposerl.schemas import BASES, LEADERBOARD, SCORES

METRIC = "balanced_accuracy"
OTHERS, FURTHER = 0, "Further systems"
LIMITED, EDITED, NOT_AVAILABLE, ONE_LABEL = "limited", "edited", "not_available", "one_label"
_STATUSES = pl.Enum([EDITED, LIMITED, NOT_AVAILABLE])  # the one that counts first
_HEAD = ["table", "place", "family", "title", "system", "method", "model", "protocol", "seeds"]
_CELL = ["run", "benchmark"]
_PARTS = ("score", "low", "high", "paper", "rows")
RunCoverage = Mapping[tuple[str, str], str]
"""Statuses of runs by system and test set. ``LIMITED`` ones predicted some of the claims only;
``NOT_AVAILABLE`` ones had none to predict, because the test set's files are missing. ``EDITED``
ones are of an earlier form of an entry, and count as not run. Others have a full score."""


def leaderboard(
    scores: pl.DataFrame, systems: Sequence[System], benchmarks: Iterable[str], runs: RunCoverage
) -> pl.DataFrame:
    """The ``LEADERBOARD`` of all scores; ``benchmarks`` are the known test sets.

    ``scores`` includes the means that can be formed, under the names of ``MEANS``. A row of the
    paper's tables appears for each protocol of its method, run or not. A cell that was not run is
    empty, and a mean with an empty part is empty. Systems that are no row of the paper follow as
    table 0. A system that was scored on fewer claims than another one of the column is not
    ``ranked`` among them.

    Runs of one recipe with several seeds are rows one after the other. Where two or more have a
    score, their mean follows as ``<system>-mean``, with the least and the greatest of their scores
    as its bounds; a cell that one of them lacks is empty.
    """
    whole = scores.filter(slice="all").rename({"system": "run"})
    scored = whole.filter(metric=METRIC).select(*_CELL, "engine", "score", "low", "high", "rows")
    edited = {system for (system, _), status in runs.items() if status == EDITED}
    columns = [*dict.fromkeys((*COLUMNS, *benchmarks))]
    lines = [
        {**head, "run": run, "benchmark": name, "paper": paper.get(name)}
        for head, seeds, paper in _rows(systems, edited | {*scored["run"]})
        for name in columns
        for run in seeds
    ]
    pairs = [(name, part) for name in columns for part in MEANS.get(name, (name,))]
    parts = pl.DataFrame(pairs, ["benchmark", "part"], orient="row")
    known = [(*cell, status) for cell, status in runs.items() if status in _STATUSES.categories]
    schema = {"run": pl.String(), "part": pl.String(), "status": _STATUSES}
    statuses = parts.join(pl.DataFrame(known, schema, orient="row"), on="part")
    # Claims beyond the context, and verdicts by basis: a rate has them only as a share of its rows.
    hits, rows = (pl.col("score") * pl.col("rows") / 100).round().cast(pl.Int64), pl.col("rows")
    sums = {"beyond_context": hits.filter(metric=BEYOND_RATE).sum()}
    for basis in BASES:
        sums[basis] = rows.filter(metric=f"{BY_BASIS}{basis}").sum()
        sums[f"{basis}_right"] = hits.filter(metric=f"{BY_BASIS}{basis}").sum()
    rates = whole.drop_nulls("score").rename({"benchmark": "part"}).join(parts, on="part")
    counted = rates.group_by(_CELL).agg(**sums)
    cells = pl.DataFrame(lines, schema_overrides={"paper": pl.Float64()})
    for facts in (scored, statuses.group_by(_CELL).agg(pl.min("status")), counted):
        cells = cells.join(facts, on=_CELL, how="left", maintain_order="left")
    board = _merged(cells)
    full = pl.when(pl.col("score").is_not_null()).then("rows")
    ranked = (full == full.max().over("benchmark")).fill_null(value=False)
    return LEADERBOARD.conform(board.with_columns(ranked=ranked))


def _merged(cells: pl.DataFrame) -> pl.DataFrame:
    """The row of each run, and of runs that share a row their mean; without what none has."""
    score, one = pl.col("score"), pl.len() == 1
    board = cells.group_by(*_HEAD, "benchmark", maintain_order=True).agg(
        pl.col("paper").first(),
        pl.col("engine").drop_nulls().unique(maintain_order=True).str.join(" / "),
        score.mean(),
        pl.when(one).then(pl.col("low").first()).otherwise(score.min()).alias("low"),
        pl.when(one).then(pl.col("high").first()).otherwise(score.max()).alias("high"),
        pl.col("rows").min(),
        pl.col("beyond_context").max().fill_null(0),
        pl.col("status").min().cast(pl.String),
        pl.col(*BASES, *(f"{basis}_right" for basis in BASES)).sum(),
        whole=score.count() == pl.len(),
        one_label=(score.count() == 0) & (pl.col("engine").count() == pl.len()),
    )
    # A mean over fewer seeds than its neighbours would be compared with them.
    whole, one_label, status = pl.col("whole"), pl.col("one_label"), pl.col("status")
    ran, said = whole | one_label, whole | status.is_in([EDITED, NOT_AVAILABLE])
    known = pl.when(said).then(status.fill_null("scored")).otherwise(pl.lit("not_run"))
    return board.with_columns(
        pl.when(whole).then(pl.col("score", "low", "high")),
        pl.when(ran).then("engine"),
        pl.when(ran).then("rows").otherwise(0).alias("rows"),
        pl.when(one_label).then(pl.lit(ONE_LABEL)).otherwise(known).alias("status"),
    ).drop("whole", "one_label")


def mean_scores(scores: pl.DataFrame, means: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Uniform means of balanced accuracy over benchmarks, as ``SCORES``.

    One row per system and mean, where every benchmark of the mean has a score; the row names each
    engine once. The interval follows from those of the independent parts (``mean_of``).
    """
    whole = scores.filter(slice="all", metric=METRIC).drop_nulls("score")
    lines = []
    for (system,), rows in whole.group_by("system", maintain_order=True):
        for name, parts in means.items():
            scored = rows.filter(pl.col("benchmark").is_in(list(parts)))
            if scored.height == len(parts):
                engine = " / ".join(scored["engine"].unique(maintain_order=True))
                mean = mean_of([Estimate(*row) for row in scored["score", "low", "high"].rows()])
                sizes = scored["rows", "supported"].sum().row(0)
                lines.append([name, system, engine, METRIC, "all", "", *mean[:3], *sizes])
    return SCORES.conform(pl.DataFrame(lines, SCORES.schema, orient="row"))


def _rows(
    systems: Sequence[System], ran: Collection[str]
) -> Iterator[tuple[dict[str, Any], list[str], Mapping[str, float]]]:
    """Rows with the runs that each is the mean of, and the paper's scores.

    The paper's rows come first, then the other systems that ran; each with its recipe's other
    seeds. Entries with the published weights of a row of table 1 follow that row. The mean of the
    seeds that ran follows two or more of them.
    """
    first = list[tuple[int | str, str, str, System, Mapping[str, float]]]()
    for row in PUBLISHED:
        key = [row.method, row.model]
        weights = {card["model"]: family for family, card in CARDS.items() if card["row"] == key}
        for one in systems:
            if one.entry is None and [one.method, one.model.key] == key:
                first.append((row.table, row.family, row.title, one, row.scores))
            elif row.table == 1 and one.entry is not None and one.entry.model in weights:
                family = weights[one.entry.model]
                first.append((row.table, family, one.reader_title, one, row.scores))
    listed = {system.key for *_, system, _ in first}
    first += [
        (OTHERS, FURTHER, one.reader_title, one, {})
        for one in systems
        if not (one.model.seed or one.key in listed)
    ]
    policies = [one for one in systems if one.model.port == "policy" and one.key in ran]
    places = Counter[int | str]()
    for table, family, title, own, paper in first:
        of_policy = own.model.port == "policy"
        seeds = [one for one in policies if of_policy and one.model.recipe == own.model.recipe]
        lines = [(title, own, [own.key])] if table != OTHERS or own.key in ran else []
        others = (one for one in seeds if one.key != own.key)
        lines += [(f"{title}, {one.model.seed}", one, [one.key]) for one in others]
        if len(seeds) > 1:
            mean = replace(own, model=replace(own.model, key=f"{own.model.recipe}-mean"))
            lines.append((f"{title}, mean of {len(seeds)} seeds", mean, [one.key for one in seeds]))
        for shown, system, keys in lines:
            names = (system.key, system.method, system.model.key, system.protocol)
            head = (table, places[table], family, shown, *names, len(keys))
            places[table] += 1
            yield dict(zip(_HEAD, head, strict=True)), keys, paper


def wide_leaderboard(board: pl.DataFrame) -> pl.DataFrame:
    """One row per system and table, in the layout of the paper's tables.

    Columns: those of ``LEADERBOARD`` up to ``engine`` (each engine once), ``limited`` (a cell is of
    a limited run), ``ranked`` (no cell has fewer claims than another system's), then for each test
    set and mean ``<name>``, ``<name>_low``, ``<name>_high`` (ours), ``<name>_paper`` (the paper's)
    and ``<name>_rows``, the claims.
    """
    cells = [
        pl.col(part).filter(benchmark=name).first().alias(f"{name}_{part}".removesuffix("_score"))
        for name in columns_of(board)
        for part in _PARTS
    ]
    of_test_sets = pl.col("engine").filter(~pl.col("benchmark").is_in(list(MEANS)))
    engines = of_test_sets.drop_nulls().unique().sort().str.join("; ")
    order = pl.col("table").replace_strict({1: 0, 2: 1, OTHERS: 2})
    grouped = board.group_by(_HEAD, maintain_order=True).agg(
        pl.when(engines != "").then(engines).alias("engine"),
        (pl.col("status") == LIMITED).any().alias("limited"),
        pl.col("ranked").filter(pl.col("score").is_not_null()).all(),
        *cells,
    )
    return grouped.sort(order, "place")


def columns_of(board: pl.DataFrame) -> list[str]:
    """The columns of the wide form: those of the paper, then other test sets."""
    return [*dict.fromkeys((*COLUMNS, *board["benchmark"]))]
