"""Leaderboard and comparison for a reader: aligned text and Markdown.

Every row of the leaderboard names its engine by a number with the name below. The paper's scores
are always marked as such and apart from ours. An empty cell is a dash.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from textwrap import fill
from typing import Any

import polars as pl

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.evaluation.leaderboard import (
    EDITED,
    FURTHER,
    ONE_LABEL,
    OTHERS,
    column_name,
    columns_of,
    wide_leaderboard,
)
from decomposerl.evaluation.published import CARDS, MEAN_IN, MEAN_OUT, MEANS, TABLE_TITLES
from decomposerl.prompts.verifier import own_prompt_note
from decomposerl.reports.tables import frame_text, markdown_table, one_line
from decomposerl.schemas import BASES

MEAN_TITLES = {MEAN_IN: "Avg in", MEAN_OUT: "Avg out"}
NOTES: Mapping[str, str] = tomllib.loads(
    files(__package__).joinpath("leaderboard_notes.toml").read_text("utf-8")
)
_NONE = "–"
_EVEN = 0.5  # points by which both sides of an interval may differ and still be shown as ±
_HEAD = ["System", "Protocol", "Engine"]
_BASIS_HEAD = ["System", "verdicts", "silent", *(f"right, {basis}" for basis in BASES)]
_Row = Mapping[str, Any]


def leaderboard_page(
    board: pl.DataFrame,
    titles: Mapping[str, str],
    *,
    markdown: bool = False,
    everything: bool = False,
    only: Collection[str] = (),
    width: int | None = 100,
) -> str:
    """Each table as aligned text or Markdown; without ``everything`` only the systems that ran.

    ``only`` are the test sets or means to show; empty: all. The paper's scores are on a separate
    line below ours. Columns that do not fit into ``width`` characters follow in a further block of
    the same rows; None: one block.
    """
    wide = wide_leaderboard(board)
    wide = wide if everything else wide.filter(pl.col("engine").is_not_null())
    about_cells = _cells_note(board, titles)
    if wide.is_empty():
        return "\n\n".join(filter(None, [NOTES["nothing"], about_cells]))
    # Engines' names are too long for a row.
    distinct = wide["engine"].drop_nulls().unique(maintain_order=True)
    engines = {name: f"[{number}]" for number, name in enumerate(distinct, 1)}
    table_of = markdown_table if markdown else _aligned
    filled = partial(fill, width=10_000 if markdown else width or 10_000, break_on_hyphens=False)
    pages = []
    for (number,), part in wide.group_by("table", maintain_order=True):
        columns = [
            name
            for name in columns_of(board)
            if (name in only or not only)
            and any(part[column_name(name, of)].count() for of in ("score", "paper"))
        ]
        lines = [[*_HEAD, *(_title(name, titles) for name in columns)]]
        for row in part.sort("ranked", descending=True, maintain_order=True).to_dicts():
            lines += _lines(row, columns, engines)
        title = FURTHER if number == OTHERS else TABLE_TITLES[int(str(number))]
        pages.append(f"**{title}**" if markdown else title)
        for group in _that_fit(lines, width):
            header, *block = [[line[at] for at in (*range(len(_HEAD)), *group)] for line in lines]
            pages.append(table_of(header, block))
    if rests := _basis_rows(board):
        pages += [filled(NOTES["basis"]), table_of(_BASIS_HEAD, rests)]
    if markdown:
        pages.append(
            markdown_table(["", "Engine"], [(mark, name) for name, mark in engines.items()])
        )
    elif engines:
        marks = [f"{mark} {one_line(name)}" for name, mark in engines.items()]
        pages.append("\n".join(["engines", *marks]))
    seeds = NOTES["seeds"] if (wide["seeds"] > 1).any() else ""
    notes = [NOTES["cells"], seeds, own_prompt_note(" ".join(engines)), about_cells]
    return "\n\n".join([*pages, filled(" ".join(filter(None, notes)))])


def _lines(row: _Row, columns: Sequence[str], engines: Mapping[str, str]) -> Iterator[list[str]]:
    """Our scores of a row, then the paper's and those of its model's card, where there are some."""
    ours = []
    for name in columns:
        score, low, high = (row[column_name(name, part)] for part in ("score", "low", "high"))
        shown = _score(score, low, high, spread=row["seeds"] != 1)
        counted = score is not None and (name in MEANS or not row["ranked"])
        ours.append(shown + f", n {row[column_name(name, 'rows')]:,}" * counted)
    star = " *" if row["limited"] or not row["ranked"] else ""
    yield [row["title"] + star, row["protocol"], engines.get(row["engine"], _NONE), *ours]
    card = CARDS[row["family"]]["scores"] if row["family"] in CARDS else {}
    published = {
        "paper": [_figure(row[column_name(name, "paper")]) for name in columns],
        "card": [_figure(card.get(name)) for name in columns],
    }
    for source, figures in published.items():
        if any(figure != _NONE for figure in figures):
            yield [f"↳ {source}", "", f"the {source}'s", *figures]


def _score(score: float | None, low: float | None, high: float | None, *, spread: bool) -> str:
    if score is None or low is None or high is None:
        return _figure(score)
    if spread:
        return f"{score:.1f} ({low:.1f} to {high:.1f})"
    if abs((high - score) - (score - low)) > _EVEN:
        return f"{score:.1f} [{low:.1f}, {high:.1f}]"
    return f"{score:.1f}±{(high - low) / 2:.1f}"


def _figure(score: float | None) -> str:
    return _NONE if score is None else f"{score:.1f}"


def _title(name: str, titles: Mapping[str, str]) -> str:
    whole, cut, _ = name.partition(WITHOUT)
    return (MEAN_TITLES.get(whole) or titles.get(whole, whole)) + " without doubtful" * bool(cut)


def _basis_rows(board: pl.DataFrame) -> list[list[str]]:
    """By system: verdicts with a basis, the share of silent ones, and of right ones by basis."""
    counts = [name for basis in BASES for name in (basis, f"{basis}_right")]
    by = ["title", "system"]
    summed = _once(board).group_by(by).agg(pl.col(counts).sum()).sort(by)
    rows = []
    for row in summed.to_dicts():
        if verdicts := sum(row[basis] for basis in BASES):
            shares = [(row["silent"], verdicts), *((row[f"{b}_right"], row[b]) for b in BASES)]
            percent = [_figure(100 * part / of if of else None) for part, of in shares]
            rows.append([row["title"], f"{verdicts:,}", *percent])
    return rows


def _once(board: pl.DataFrame) -> pl.DataFrame:
    """Each system on each test set once: no mean, and none without doubtful claims."""
    name = pl.col("benchmark")
    own = board.filter(~name.is_in(list(MEANS)), ~name.str.ends_with(WITHOUT))
    return own.unique(["system", "benchmark"], keep="first", maintain_order=True)


def _cells_note(board: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """Cells beyond the model's context, columns without doubtful claims, cells not run again."""
    cells = _once(board).with_columns(
        cell=pl.col("system")
        + " on "
        + pl.col("benchmark").map_elements(lambda name: _title(name, titles), pl.String)
    )
    beyond = cells.filter(pl.col("beyond_context") > 0).select("cell", "beyond_context")
    one_label = cells.filter(status=ONE_LABEL).select("cell", "rows")
    most = dict(board.group_by("benchmark").agg(pl.col("rows").max()).iter_rows())
    doubtful = [
        f"{_title(base, titles)} {most[name]:,} of {most[base]:,}"
        for name in columns_of(board)
        if (base := name.removesuffix(WITHOUT)) != name and most[name]
    ]
    notes = {
        "beyond": [f"{cell} {count:,}" for cell, count in beyond.iter_rows()],
        "doubtful": doubtful,
        "one_label": [f"{cell}, {count:,} claims" for cell, count in one_label.iter_rows()],
        "edited": cells.filter(status=EDITED)["cell"].to_list(),
    }
    return " ".join(f"{NOTES[note]} {'; '.join(cells)}." for note, cells in notes.items() if cells)


def _that_fit(cells: Sequence[Sequence[str]], width: int | None) -> Iterator[list[int]]:
    """The columns of scores in groups that fit into the width beside the head."""
    widths = [2 + max(map(len, column)) for column in zip(*cells, strict=True)]
    room = sum(widths) if width is None else width + 2 - sum(widths[: len(_HEAD)])
    group: list[int] = []
    for column in range(len(_HEAD), len(widths)):
        if group and sum(widths[index] for index in [*group, column]) > room:
            yield group
            group = []
        group.append(column)
    yield group


def _aligned(header: list[str], rows: list[list[str]]) -> str:
    return frame_text(pl.DataFrame(rows, schema=header, orient="row"))


def comparison_markdown(comparison: pl.DataFrame, most: int = 30) -> str:
    """The clearest differences first: smallest corrected p, then the largest difference.

    Rows without a p-value come last and show the reason instead.
    """
    by = pl.col("p_holm"), pl.col("difference").abs()
    clearest = comparison.sort(*by, descending=[False, True], nulls_last=[True, False]).head(most)
    rows = [
        (
            row["benchmark"],
            row["system"],
            row["other"],
            f"{row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]",
            _p_text(row["p"]),
            f"– ({row['no_p']})" if row["no_p"] else _p_text(row["p_holm"]),
            f"{row['rows']} *" if row["limited"] else row["rows"],
        )
        for row in clearest.to_dicts()
    ]
    headers = ["test set", "system", "other", "difference", "p", "p (Holm)", "claims"]
    counted = f"{comparison.height:,} comparisons; the {len(rows)} clearest:"
    return f"{NOTES['differences']} {counted}\n\n{markdown_table(headers, rows)}"


def _p_text(p: float | None) -> str:
    if p is None:
        return _NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004 - as a reader expects it
