"""Leaderboard and comparison for a reader: aligned text and Markdown.

Every row of the leaderboard names its engine by a number with the name below. The paper's scores
are always marked as such and apart from ours. An empty cell is a dash.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_HEAD = 3  # columns before those of scores


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
    line below ours. In text, columns that do not fit into ``WIDTH`` characters follow in a further
    block of the same rows.
    """
    wide = wide_leaderboard(board)
    wide = wide if everything else wide.filter(pl.col("engine").is_not_null())
    # Each system on each test set once: a row of the paper may be in both tables.
    cells = board.filter(~pl.col("benchmark").is_in(list(MEANS)))
    cells = cells.unique(["system", "benchmark"], keep="first", maintain_order=True)
    about_cells = _cells_note(cells, titles)
    if wide.is_empty():
        return "\n\n".join(filter(None, [NOTES["nothing"], about_cells]))
    # Engines' names are too long for a row.
    distinct = wide["engine"].drop_nulls().unique(maintain_order=True)
    engines = {name: f"[{number}]" for number, name in enumerate(distinct, 1)}
    table_of = frame_markdown if markdown else frame_text
    filled = partial(fill, width=10_000 if markdown else WIDTH, break_on_hyphens=False)
    pages = []
    for (number,), part in wide.group_by("table", maintain_order=True):
        names = [
            name
            for name in columns_of(board)
            if (name in only or not only)
            and any(part[column].count() for column in (name, f"{name}_paper"))
        ]
        rows = part.sort("ranked", descending=True, maintain_order=True)
        lines = _lines(rows, names, engines).rename({**titles, **MEAN_TITLES}, strict=False)
        title = FURTHER if number == OTHERS else TABLE_TITLES[int(str(number))]
        pages.append(f"**{title}**" if markdown else title)
        pages += map(table_of, [lines] if markdown else _blocks(lines))
    rests = _basis(cells)
    pages += [filled(NOTES["basis"]), table_of(rests)] if rests.height else []
    named = pl.DataFrame(
        {"": [*engines.values()], "Engine": [*engines]}, {"": pl.String, "Engine": pl.String}
    )
    pages += [table_of(named)] if engines else []
    seeds = NOTES["seeds"] if (wide["seeds"] > 1).any() else ""
    notes = [NOTES["cells"], seeds, own_prompt_note(" ".join(engines)), about_cells]
    return "\n\n".join([*pages, filled(" ".join(filter(None, notes)))])


def _lines(rows: pl.DataFrame, names: Sequence[str], engines: Mapping[str, str]) -> pl.DataFrame:
    """Our scores of each row, then the paper's and its model card's, where there are some."""
    cards = [
        {"family": family} | {f"{name}_card": score for name, score in card["scores"].items()}
        for family, card in CARDS.items()
    ]
    schema = {"family": pl.String(), **{f"{name}_card": pl.Float64() for name in names}}
    rows = rows.with_row_index("#").join(pl.DataFrame(cards, schema), on="family", how="left")
    star = pl.when(pl.col("limited") | ~pl.col("ranked")).then(pl.lit(" *")).otherwise(pl.lit(""))
    mark = pl.col("engine").replace_strict(engines, default=None, return_dtype=pl.String)
    title, protocol = (pl.col("title") + star).alias("System"), pl.col("protocol").alias("Protocol")
    lines = [rows.select("#", title, protocol, mark.alias("Engine"), *map(_shown, names))]
    for source in ("paper", "card"):
        head = {"System": f"↳ {source}", "Protocol": "", "Engine": f"the {source}'s"}
        scores = {name: formatted(pl.col(f"{name}_{source}"), "{:.1f}") for name in names}
        printed = rows.select("#", **{name: pl.lit(text) for name, text in head.items()}, **scores)
        lines.append(printed.filter(pl.any_horizontal(pl.col(names).is_not_null())))
    return pl.concat(lines).sort("#", maintain_order=True).drop("#")


def _shown(name: str) -> pl.Expr:
    """Our score with half its interval, or with both bounds: an uneven interval, or a spread."""
    score, low, high = pl.col(name), pl.col(f"{name}_low"), pl.col(f"{name}_high")
    numbers = [formatted(number, "{:.1f}") for number in (score, low, high)]
    uneven = ((high - score) - (score - low)).abs() > _EVEN
    shown = (
        pl.when(uneven | (pl.col("seeds") > 1))
        .then(pl.format("{} [{}, {}]", *numbers))
        .otherwise(pl.format("{}±{}", numbers[0], formatted((high - low) / 2, "{:.1f}")))
    )
    claims = pl.format(", n {}", formatted(pl.col(f"{name}_rows"), "{:,}"))
    counted = pl.when(~pl.col("ranked") | (name in MEANS)).then(claims).otherwise(pl.lit(""))
    return (pl.coalesce(shown, numbers[0]) + counted).alias(name)


def _blocks(lines: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The columns of scores in groups that fit into ``WIDTH`` beside the head of the lines."""
    widths = [2 + max(map(len, (name, *lines[name].fill_null("–")))) for name in lines.columns]
    first, room = [*range(_HEAD)], WIDTH + 2 - sum(widths[:_HEAD])
    groups = list[list[int]]([[]])
    for column, width in enumerate(widths[_HEAD:], _HEAD):
        if groups[-1] and width + sum(widths[place] for place in groups[-1]) > room:
            groups.append([])
        groups[-1].append(column)
    return (lines[:, [*first, *group]] for group in groups)


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

    Rows without a p-value come last and show the reason instead.
    """
    by = pl.col("p_holm"), pl.col("difference").abs()
    clearest = comparison.sort(*by, descending=[False, True], nulls_last=[True, False]).head(most)
    p, holm = (
        pl.when(pl.col(name) < 0.001)  # noqa: PLR2004 - as a reader expects it
        .then(pl.lit("< 0.001"))
        .otherwise(formatted(pl.col(name), "{:.3f}"))
        for name in ("p", "p_holm")
    )
    star = pl.when("limited").then(pl.lit(" *")).otherwise(pl.lit(""))
    shown = clearest.select(
        pl.col("benchmark").alias("test set"),
        "system",
        "other",
        "difference",
        "low",
        "high",
        p.alias("p"),
        pl.coalesce(pl.format("– ({})", "no_p"), holm).alias("p (Holm)"),
        claims=formatted(pl.col("rows"), "{:,}") + star,
    )
    counted = f"{comparison.height:,} comparisons; the {shown.height} clearest:"
    return f"{NOTES['differences']} {counted}\n\n{frame_markdown(shown)}"
