"""Leaderboard and comparison for a reader: aligned text and Markdown.

Every row of the leaderboard names its engine by a number with the name below. The paper's scores
are always marked as such and apart from ours. An empty cell is a dash.
"""

import tomllib
from collections.abc import Collection, Mapping
from functools import partial
from importlib.resources import files
from textwrap import fill

import polars as pl

from decomposerl.evaluation.leaderboard import (
    EDITED,
    FURTHER,
    ONE_LABEL,
    OTHERS,
    columns_of,
    wide_leaderboard,
)
from decomposerl.evaluation.published import CARDS, MEAN_IN, MEAN_OUT, MEANS, TABLE_TITLES
from decomposerl.prompts.verifier import own_prompt_note
from decomposerl.reports.system_report import formatted
from decomposerl.reports.tables import frame_markdown, frame_text
from decomposerl.schemas import BASES

NOTES: Mapping[str, str] = tomllib.loads(
    files(__package__).joinpath("leaderboard_notes.toml").read_text("utf-8")
)
MEAN_TITLES = {MEAN_IN: "Avg in", MEAN_OUT: "Avg out"}
WIDTH = 100
_EVEN = 0.5  # points by which both sides of an interval may differ and still be shown as ±
_HEAD = ["System", "Protocol", "Engine"]
_TEXTS = [*_HEAD, "shown"]


def leaderboard_page(
    board: pl.DataFrame,
    titles: Mapping[str, str],
    *,
    markdown: bool = False,
    everything: bool = False,
    only: Collection[str] = (),
) -> str:
    """Each table as aligned text or Markdown; without ``everything`` only the systems that ran.

    ``only`` are the test sets or means to show; empty: all. The paper's scores are on a separate
    line below ours.
    """
    # Each system on each test set once: a row of the paper may be in both tables.
    own = board.filter(~pl.col("benchmark").is_in(list(MEANS)))
    own = own.unique(["system", "benchmark"], keep="first", maintain_order=True)
    about_cells = _cells_note(own, titles)
    rows = wide_leaderboard(board).select("table", "place", "engine", "limited", "ranked")
    rows = rows if everything else rows.drop_nulls("engine")
    if rows.is_empty():
        return "\n\n".join(filter(None, [NOTES["nothing"], about_cells]))
    names = rows.select("engine").drop_nulls().unique(maintain_order=True)
    engines = names.select(
        pl.format("[{}]", pl.int_range(1, pl.len() + 1)).alias(""), Engine="engine"
    )
    table_of = frame_markdown if markdown else frame_text
    filled = partial(fill, width=10_000 if markdown else WIDTH, break_on_hyphens=False)
    cells = board.drop("engine", "ranked").join(rows, on=["table", "place"], maintain_order="left")
    lines = _lines(cells.filter(pl.col("benchmark").is_in(list(only or columns_of(board)))))
    marks = pl.col("Engine").replace(names["engine"], engines[""])
    pages = []
    for (number,), part in lines.with_columns(marks).group_by("table", maintain_order=True):
        ordered = part.sort(~pl.col("ranked"), "place", "line")
        wide = ordered.pivot("benchmark", index=["place", "line", *_HEAD], values="shown")
        columns = [name for name in columns_of(board) if name in wide.columns]
        shown = wide.select(*_HEAD, *columns).rename({**titles, **MEAN_TITLES}, strict=False)
        title = FURTHER if number == OTHERS else TABLE_TITLES[int(str(number))]
        pages += [f"**{title}**" if markdown else title, table_of(shown)]
    rests = _basis(own)
    pages += [filled(NOTES["basis"]), table_of(rests)] if rests.height else []
    pages += [table_of(engines)] if engines.height else []
    seeds = NOTES["seeds"] if (cells["seeds"] > 1).any() else ""
    notes = [NOTES["cells"], seeds, own_prompt_note(" ".join(names["engine"])), about_cells]
    return "\n\n".join([*pages, filled(" ".join(filter(None, notes)))])


def _lines(cells: pl.DataFrame) -> pl.DataFrame:
    """What is shown of each cell: ours, then the paper's line and its card's where there is one.

    Columns without a figure in their table are left out.
    """
    scores = [
        (family, *score) for family, card in CARDS.items() for score in card["scores"].items()
    ]
    cards = pl.DataFrame(scores, ["family", "benchmark", "card"], orient="row")
    cells = cells.join(cards, on=["family", "benchmark"], how="left", maintain_order="left")
    star, keys = _star(pl.col("limited") | ~pl.col("ranked")), ["table", "place", "ranked"]
    ours = [pl.col("title") + star, pl.col("protocol"), pl.col("engine"), _shown()]
    printed = {
        source: [pl.lit(f"↳ {source}"), pl.lit(""), pl.lit(f"the {source}'s"), formatted(source)]
        for source in ("paper", "card")
    }
    parts = [
        cells.select(
            *keys, "benchmark", pl.lit(line).alias("line"), *map(pl.Expr.alias, texts, _TEXTS)
        )
        for line, texts in enumerate((ours, *printed.values()))
    ]
    figures = pl.col("shown").count()
    kept = (pl.col("line") == 0) | (figures.over("table", "place", "line") > 0)
    return pl.concat(parts).filter(kept).filter(figures.over("table", "benchmark") > 0)


def _star(which: pl.Expr) -> pl.Expr:
    return pl.when(which).then(pl.lit(" *")).otherwise(pl.lit(""))


def _shown() -> pl.Expr:
    """Our score with half its interval, or with both bounds: an uneven interval, or a spread."""
    score, low, high = pl.col("score"), pl.col("low"), pl.col("high")
    numbers = [formatted(name) for name in ("score", "low", "high")]
    uneven = ((high - score) - (score - low)).abs() > _EVEN
    shown = (
        pl.when(uneven | (pl.col("seeds") > 1))
        .then(pl.format("{} [{}, {}]", *numbers))
        .otherwise(pl.format("{}±{}", numbers[0], formatted((high - low) / 2)))
    )
    counted = pl.when(~pl.col("ranked") | pl.col("benchmark").is_in(list(MEANS)))
    claims = pl.format(", n {}", formatted("rows", "{:,}"))
    return pl.coalesce(shown, numbers[0]) + counted.then(claims).otherwise(pl.lit(""))


def _basis(cells: pl.DataFrame) -> pl.DataFrame:
    """By system: verdicts with a basis, the share of silent ones, and of right ones by basis."""
    counts = [name for basis in BASES for name in (basis, f"{basis}_right")]
    sums = cells.group_by("title", "system").agg(pl.col(counts).sum())
    rests = sums.with_columns(verdicts=pl.sum_horizontal(BASES)).filter(pl.col("verdicts") > 0)
    shares = {"silent": ("silent", "verdicts")}
    shares |= {f"right, {basis}": (f"{basis}_right", basis) for basis in BASES}
    percent = {
        name: pl.when(pl.col(of) > 0).then(100 * pl.col(part) / pl.col(of))
        for name, (part, of) in shares.items()
    }
    return rests.sort("title", "system").select(
        pl.col("title").alias("System"), "verdicts", **percent
    )


def _cells_note(cells: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """Cells with claims beyond the model's context or of one label, and cells not run again."""
    status, benchmark = pl.col("status"), pl.col("benchmark").replace(titles)
    notes = {
        "beyond": (pl.col("beyond_context") > 0, "beyond_context"),
        "one_label": (status == ONE_LABEL, "rows"),
        "edited": (status == EDITED, "protocol"),
    }
    said = []
    for note, (which, number) in notes.items():
        cell = pl.format("{} on {} ({})", "system", benchmark, number)
        if names := cells.filter(which).select(cell).to_series().to_list():
            said.append(f"{NOTES[note]} {'; '.join(names)}.")
    return " ".join(said)


def comparison_markdown(comparison: pl.DataFrame, most: int = 30) -> str:
    """The clearest differences first: smallest corrected p, then the largest difference.

    Rows without a p-value come last, with the reason.
    """
    by = pl.col("p_holm"), pl.col("difference").abs()
    clearest = comparison.sort(*by, descending=[False, True], nulls_last=[True, False]).head(most)
    shown = clearest.select(
        *("benchmark", "system", "other", "difference", "low", "high"),
        formatted("p", "{:.2g}"),
        pl.coalesce(pl.format("– ({})", "no_p"), formatted("p_holm", "{:.2g}")).alias("p (Holm)"),
        (formatted("rows", "{:,}") + _star(pl.col("limited"))).alias("claims"),
    )
    counted = f"{comparison.height:,} comparisons; the {shown.height} clearest:"
    return f"{NOTES['differences']} {counted}\n\n{frame_markdown(shown)}"
