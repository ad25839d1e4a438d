"""The leaderboard for a reader: aligned text, and Markdown.

Every row names its engine by a number with the name below. The paper's scores are always marked as
such and apart from ours. An empty cell is a dash.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import polars as pl

from decomposerl.evaluation.doubtful import base_of, title_of
from decomposerl.evaluation.leaderboard import EDITED as EDITED_STATUS
from decomposerl.evaluation.leaderboard import (
    FURTHER,
    LIMITED,
    OTHERS,
    column_name,
    columns_of,
    wide_leaderboard,
)
from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT, MEANS, TABLE_TITLES
from decomposerl.prompts.minicheck import own_prompt_note
from decomposerl.reports.small_figures import rows_markdown
from decomposerl.reports.tables import frame_text, markdown_table, one_line

MEAN_TITLES = {MEAN_IN: "Avg in", MEAN_OUT: "Avg out"}
NOTE = (
    "Balanced accuracy in percent with its 95 % interval: ± half of it, or [both bounds] where "
    "they are not equally far. 'paper' is the paper's own figure, measured by its authors. * a "
    "short run over some of the claims. – not run."
)
SEEDS_NOTE = (
    "A mean over seeds has in parentheses the least and the greatest score of its runs: the spread "
    "of training, not of the claims."
)
BEYOND = "Claims longer than the model's context (read in part, wrong or dropped: beyond_context):"
DOUBTFUL = "Claims left without those whose label is doubtful:"
EDITED = "Not run with the present entry of systems.toml, which was edited since; evaluate again:"
_NOTHING = "nothing was scored yet"
_PROTOCOLS = {"single_call": ", single call"}
"""What a short row says of a protocol; the others are what a method or policy has by itself."""
_EVEN = 0.5  # points by which both sides of an interval may differ and still be shown as ±
_HEAD = ["system", "protocol", "engine"]
_Row = Mapping[str, object]
_Shown = tuple[int, list[dict[str, Any]]]


def leaderboard_text(
    board: pl.DataFrame,
    titles: Mapping[str, str],
    *,
    everything: bool = False,
    only: Collection[str] = (),
    width: int = 100,
) -> str:
    """Each table as aligned text; without ``everything`` only the systems that were run.

    ``only`` are the test sets or means to show; empty: all.
    The paper's scores are on a separate line below ours. Columns that do not fit into ``width``
    characters follow in a further block of the same rows.
    """
    shown = list(_tables(board, everything=everything))
    if not shown:
        return "\n\n".join(filter(None, [_NOTHING, _edited_note(board, titles)]))
    engines = _numbered(row["engine"] for _, rows in shown for row in rows)
    parts = []
    for table, rows in shown:
        columns = [name for name in _filled(rows, board) if not only or name in only]
        lines = [line for row in rows for line in _text_lines(row, columns, engines)]
        headers = [header.capitalize() for header in _HEAD]
        cells = [[*headers, *(_title(name, titles) for name in columns)], *lines]
        parts.append("\n\n".join([_table_title(table), *_blocks(cells, width)]))
    marks = [f"{mark} {one_line(name)}" for name, mark in engines.items()]
    return "\n\n".join(
        [
            *parts,
            *(["\n".join(["engines", *marks])] if marks else []),
            fill(_note(engines, shown, _cells_note(board, titles)), width),
        ]
    )


def leaderboard_markdown(
    board: pl.DataFrame, titles: Mapping[str, str], *, everything: bool = False, wide: int = 0
) -> str:
    """Each table as Markdown, the paper's scores in separate columns beside ours.

    ``wide`` is the most columns with scores; further ones follow in a block of the same rows. 0:
    one block.
    """
    shown = list(_tables(board, everything=everything))
    if not shown:
        return "\n\n".join(filter(None, [_NOTHING, _edited_note(board, titles)]))
    engines = _numbered(row["engine"] for _, rows in shown for row in rows)
    parts = []
    for table, rows in shown:
        columns = _filled(rows, board)
        headers = [header.capitalize() for header in _HEAD]
        for name in columns:
            headers += [_title(name, titles)] + [f"{_title(name, titles)} (paper)"] * bool(table)
        lines = [_markdown_line(row, columns, engines, paper=bool(table)) for row in rows]
        blocks = _markdown_blocks(headers, lines, wide or len(headers))
        parts.append(f"**{_table_title(table)}**\n\n{blocks}")
    legend = [[mark, name] for name, mark in engines.items()]
    note = _note(engines, shown, _cells_note(board, titles))
    return "\n\n".join([*parts, markdown_table(["", "Engine"], legend), note])


def boards_unfolded(board: pl.DataFrame, titles: Mapping[str, str]) -> dict[str, str]:
    """By the title of a test set or mean, a table of its best systems that fits on Dagster's pages.

    Where the paper has the row, its figure is beside ours.
    """
    scored = board.filter(pl.col("score").is_not_null()).sort(
        pl.col("paper").is_null(), "score", descending=[False, True], maintain_order=True
    )
    best = scored.unique(["system", "benchmark"], keep="first", maintain_order=True)
    ordered = best.sort("score", descending=True, maintain_order=True)
    parts = ordered.partition_by("benchmark", as_dict=True, include_key=False)
    return {
        _title(name, titles): _unfolded(parts[name,].to_dicts())
        for name in [*MEANS, *(one for one in columns_of(board) if one not in MEANS)]
        if (name,) in parts
    }


def _unfolded(rows: Sequence[dict[str, Any]]) -> str:
    paper = any(row["paper"] is not None for row in rows)
    lines = [
        [
            row["title"] + _PROTOCOLS.get(row["protocol"], "") + " *" * (row["status"] == LIMITED),
            _ours(row, ""),
            *([f"{row['paper']:.1f}" if row["paper"] is not None else "–"] if paper else []),
        ]
        for row in rows
    ]
    return rows_markdown(["system", "score", *(["paper"] if paper else [])], lines)


def _numbered(names: Iterable[str | None]) -> dict[str, str]:
    """A mark for each engine, whose names are too long for a row: [1], [2], ..."""
    distinct = dict.fromkeys(name for name in names if name is not None)
    return {name: f"[{number}]" for number, name in enumerate(distinct, 1)}


def _note(engines: Iterable[str], shown: Iterable[_Shown], cells: str) -> str:
    """What the reader of the tables must know, the engines' prompts included."""
    means = any(row["seeds"] > 1 for _, rows in shown for row in rows)
    notes = [NOTE, SEEDS_NOTE * means, own_prompt_note(" ".join(engines)), cells]
    return " ".join(filter(None, notes))


def _cells_note(board: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """The cells with claims beyond the model's context, and how many; and those not run again."""
    named = [
        f"{_cell(row, titles)} {row['beyond_context']:,}"
        for row in _cells(board, pl.col("beyond_context") > 0)
    ]
    beyond = f"{BEYOND} {'; '.join(named)}." if named else ""
    return " ".join(
        filter(None, [beyond, _doubtful_note(board, titles), _edited_note(board, titles)])
    )


def _doubtful_note(board: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """The claims that are left in each column without doubtful claims, of how many."""
    most = dict(board.group_by("benchmark").agg(pl.col("rows").max()).iter_rows())
    left = [
        f"{_title(base, titles)} {most[name]:,} of {most[base]:,}"
        for name in columns_of(board)
        if (base := base_of(name)) and most[name]
    ]
    return f"{DOUBTFUL} {'; '.join(left)}." if left else ""


def _edited_note(board: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """The cells of an earlier form of an entry."""
    named = [_cell(row, titles) for row in _cells(board, pl.col("status") == EDITED_STATUS)]
    return f"{EDITED} {'; '.join(named)}." if named else ""


def _cells(board: pl.DataFrame, which: pl.Expr) -> list[dict[str, Any]]:
    of_all = [name for name in columns_of(board) if not (name in MEANS or base_of(name))]
    cells = board.filter(which, pl.col("benchmark").is_in(of_all))
    return cells.unique(["system", "benchmark"], maintain_order=True).to_dicts()


def _cell(row: _Row, titles: Mapping[str, str]) -> str:
    return f"{row['system']} on {_title(str(row['benchmark']), titles)}"


def _blocks(cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The table in as many blocks as its columns need, each with the head of the rows."""
    widths = [2 + max(map(len, column)) for column in zip(*cells, strict=True)]
    fixed = len(_HEAD)
    block: list[int] = []
    for column in range(fixed, len(widths)):
        if (
            block
            and sum(widths[:fixed]) + sum(widths[index] for index in [*block, column]) > width + 2
        ):
            yield _block(cells, block)
            block = []
        block.append(column)
    yield _block(cells, block)


def _block(cells: Sequence[Sequence[str]], columns: Sequence[int]) -> str:
    kept = [*range(len(_HEAD)), *columns]
    header, *lines = [[row[index] for index in kept] for row in cells]
    return frame_text(pl.DataFrame(lines, schema=header, orient="row"))


def _markdown_blocks(headers: Sequence[str], lines: Sequence[Sequence[str]], wide: int) -> str:
    fixed = len(_HEAD)
    blocks = []
    for start in range(fixed, len(headers), wide) or [fixed]:
        chosen = [*range(fixed), *range(start, min(start + wide, len(headers)))]
        rows = [[line[index] for index in chosen] for line in lines]
        blocks.append(markdown_table([headers[index] for index in chosen], rows))
    return "\n\n".join(blocks)


def _tables(board: pl.DataFrame, *, everything: bool) -> Iterator[_Shown]:
    rows = wide_leaderboard(board)
    shown = rows if everything else rows.filter(pl.col("engine").is_not_null())
    for (table,), part in shown.group_by("table", maintain_order=True):
        yield int(str(table)), part.to_dicts()


def _filled(rows: Sequence[_Row], board: pl.DataFrame) -> list[str]:
    """The columns in which a row of the table has a score of ours or of the paper's."""
    return [
        name
        for name in columns_of(board)
        if any(row[name] is not None or row[column_name(name, "paper")] is not None for row in rows)
    ]


def _text_lines(row: _Row, columns: Sequence[str], engines: Mapping[str, str]) -> list[list[str]]:
    title = f"{row['title']}{' *' * bool(row['limited'])}"
    lines = [[title, str(row["protocol"]), engines.get(str(row["engine"]), "–")]]
    lines[0] += [_ours(row, name) for name in columns]
    if any(row[column_name(name, "paper")] is not None for name in columns):
        lines.append(["↳ paper", "", "the paper's"] + [_paper(row, name) for name in columns])
    return lines


def _markdown_line(
    row: _Row, columns: Sequence[str], engines: Mapping[str, str], *, paper: bool
) -> list[str]:
    cells = [f"{row['title']}{' *' * bool(row['limited'])}", str(row["protocol"])]
    cells.append(engines.get(str(row["engine"]), "–"))
    for name in columns:
        cells += [_ours(row, name)] + [_paper(row, name)] * paper
    return cells


def _ours(row: _Row, name: str) -> str:
    """The score of a column of the wide form; without a name, of a row of the long one."""
    parts = ("score", "low", "high")
    score, low, high = (row[column_name(name, part) if name else part] for part in parts)
    if not isinstance(score, float):
        return "–"
    if not isinstance(low, float) or not isinstance(high, float):
        return f"{score:.1f}"
    if row["seeds"] != 1:
        return f"{score:.1f} ({low:.1f} to {high:.1f})"
    if abs((high - score) - (score - low)) > _EVEN:
        return f"{score:.1f} [{low:.1f}, {high:.1f}]"
    return f"{score:.1f}±{(high - low) / 2:.1f}"


def _paper(row: _Row, name: str) -> str:
    figure = row[column_name(name, "paper")]
    return f"{figure:.1f}" if isinstance(figure, float) else "–"


def _title(name: str, titles: Mapping[str, str]) -> str:
    return MEAN_TITLES.get(name) or title_of(name, titles)


def _table_title(table: int) -> str:
    return FURTHER if table == OTHERS else TABLE_TITLES[table]
