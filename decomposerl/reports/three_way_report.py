"""The three-way board for a reader: Markdown, and one sentence on it."""

from collections.abc import Iterator, Mapping
from textwrap import fill

import polars as pl

from decomposerl.evaluation.three_way import MEAN, MEASURES, POOLED
from decomposerl.reports.tables import frame_text, markdown_table

_HEADS = {
    "balanced_accuracy": "Balanced accuracy",
    "macro_f1": "Macro-F1",
    "recall_supported": "Recall: Supported",
    "recall_refuted": "Refuted",
    "recall_not_enough_info": "Not Enough Information",
}
_HEAD = ["System", *_HEADS.values(), "Claims", "Engine", "Note"]
_NOTHING = "no test set on disk has a middle class with evidence, or no system was evaluated"
_CANNOT = "two labels only: recall 0 on the third"
NOTE = (
    "Percent, over three labels, with 95 % intervals; no measurement of the paper, which drops the "
    "middle class. * a short run over some of the claims."
)


def three_way_markdown(board: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """A ``THREE_WAY`` table by test set, over all claims first; ``titles`` are of test sets."""
    parts = [
        f"**{title}**\n\n{markdown_table(_HEAD, lines)}" for title, lines in _tables(board, titles)
    ]
    return "\n\n".join([*(parts or [_NOTHING]), NOTE])


def three_way_text(board: pl.DataFrame, titles: Mapping[str, str], width: int = 100) -> str:
    """The same as aligned text."""
    parts = [
        f"{title}\n\n{frame_text(pl.DataFrame(lines, schema=_HEAD, orient='row'))}"
        for title, lines in _tables(board, titles)
    ]
    return "\n\n".join([*(parts or [_NOTHING]), fill(NOTE, width)])


def _tables(
    board: pl.DataFrame, titles: Mapping[str, str]
) -> Iterator[tuple[str, list[list[str]]]]:
    """Title and lines of each test set."""
    named = {POOLED: "All claims", MEAN: "Mean of the test sets", **titles}
    for (name,), rows in board.group_by("test_set", maintain_order=True):
        lines = [_line(part) for _, part in rows.group_by("system", maintain_order=True)]
        yield named.get(str(name), str(name)), lines


def three_way_sentence(board: pl.DataFrame) -> str:
    """Which system is best over all claims, and how many cannot give the third verdict.

    A short run is the best one only where there is no other.
    """
    pooled = board.filter(test_set=POOLED, metric=MEASURES[0]).drop_nulls("score")
    if pooled.is_empty():
        return "No run so far has claims of all three labels."
    whole = pooled.filter(~pl.col("limited"))
    best = (whole if whole.height else pooled).row(0, named=True)
    cannot = pooled.filter(~pl.col("third")).height
    return (
        f"Over {best['rows']:,} claims of three labels {best['title']} is best with a balanced "
        f"accuracy of {best['score']:.1f}; {cannot} of {pooled.height} systems have two labels."
    )


def _line(part: pl.DataFrame) -> list[str]:
    first = part.row(0, named=True)
    by_metric = {row["metric"]: row for row in part.iter_rows(named=True)}
    cells = [_cell(by_metric.get(metric)) for metric in MEASURES]
    title = first["title"] + "*" * first["limited"]
    return [title, *cells, f"{first['rows']:,}", first["engine"], "" if first["third"] else _CANNOT]


def _cell(row: Mapping[str, object] | None) -> str:
    if row is None or row["score"] is None:
        return "–"
    bounds = "" if row["low"] is None else f" [{row['low']:.1f}, {row['high']:.1f}]"
    return f"{row['score']:.1f}{bounds}"
