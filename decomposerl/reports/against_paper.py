"""The funnel's attrition beside the paper's (appendix "Per-Source Training Counts"), with reasons.

Takes the tables of ``attrition.py``; the paper's numbers and the reasons are those of
``decomposerl.claims.catalogue``.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

import polars as pl

from decomposerl.claims.catalogue import DIFFERENCES, PAPER_COUNTS, PAPER_TOTAL, STAGE_REASONS
from decomposerl.reports.attrition import STAGES, TOTAL
from decomposerl.reports.tables import count, markdown_table, markdown_text, one_line, text_table

SCHEMA = pl.Schema(
    {"source": pl.String(), "title": pl.String(), "column": pl.String()}
    | dict.fromkeys(("ours", "paper", "difference"), pl.Int64())
    | {"reason": pl.String()}
)
_COLUMNS = {
    "raw": ("raw", "Raw"),
    "difficulty": ("difficulty", "Diff."),
    "silver": ("deduplicated", "Dedup"),
    "final": ("final", "Final"),
}
"""Column of the wide table to the field of ``PaperCounts`` and its head in the paper."""
_RAW = "Raw"
_SAME, _NOT_RUN = "The same.", "This stage has not run."
_NO_NUMBER = "Not in the paper's table."
_NOTE = (
    "Each number: ours, the paper's, ours minus the paper's. The paper has no number for the "
    "columns Rules, Dedup., Decont. and Selected of the attrition table; its Dedup is our Silver."
)


def against_paper(attrition: pl.DataFrame, wide: pl.DataFrame) -> pl.DataFrame:
    """Four rows per source of ``wide``, and for its total, as ``SCHEMA``.

    ``column`` is the paper's: Raw, Diff., Dedup (``silver`` here), Final. ``ours`` is null for a
    stage that has not run, ``paper`` for a source that is not in its table, ``difference`` (ours -
    paper) where one of them is. ``reason`` is never empty: "The same.", what is missing, or why the
    numbers differ.
    """
    unused = _unused(attrition)
    rows = []
    for row in wide.iter_rows(named=True):
        source = str(row["source"])
        printed = PAPER_TOTAL if source == TOTAL else PAPER_COUNTS.get(source)
        for column, (name, head) in _COLUMNS.items():
            ours, paper = row[column], None if printed is None else int(getattr(printed, name))
            difference = None if ours is None or paper is None else ours - paper
            reason = _SAME if difference == 0 else _reason(source, name, row["read"], unused)
            reason = _NO_NUMBER if paper is None else _NOT_RUN if ours is None else reason
            rows.append((source, row["title"], head, ours, paper, difference, reason))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _unused(attrition: pl.DataFrame) -> dict[str, str]:
    """By source: the rows that were read and did not become claims, by reason.

    Rows that the label rule dropped are left out: the paper drops the middle class, too.
    """
    left = attrition.filter(
        (pl.col("stage") == STAGES[0])
        & (pl.col("outcome") != "kept")
        & (pl.col("step") != "label_rule")
    )
    counted = left.group_by("source", "reason").agg(pl.col("rows").sum()).sort("source", "reason")
    named: dict[str, list[str]] = {}
    for source, reason, rows in counted.iter_rows():
        named.setdefault(source, []).append(f"{rows:,} {reason}")
    return {source: ", ".join(parts) for source, parts in named.items()}


def _reason(source: str, name: str, read: int, unused: Mapping[str, str]) -> str:
    if source == TOTAL:
        return "The sum of the rows above."
    if name != "raw":
        return STAGE_REASONS[name]
    known = DIFFERENCES.get(source)
    said = "unknown." if known is None else known.reason
    left = f"; not used: {unused[source]}" if source in unused else ""
    setting = f" Setting: {known.setting}." if known and known.setting else ""
    return f"Rows read: {read:,}{left}. With all files: {said[0].lower()}{said[1:]}{setting}"


def paper_text(compared: pl.DataFrame, *, markdown: bool = False) -> str:
    """``against_paper`` as aligned text or Markdown, a line per source; the reasons are below."""
    head = ["Source"]
    for _, name in _COLUMNS.values():
        head += [name, "paper", "diff."]
    rows = [
        [one_line(title), *chain(*part.select("ours", "paper", "difference").iter_rows())]
        for (_, title), part in compared.group_by("source", "title", maintain_order=True)
    ]
    if markdown:
        table = markdown_table(head, rows)
        reasons = [f"- {name}: {markdown_text(reason)}" for name, reason in _reasons(compared)]
    else:
        shown = [[title, *map(count, numbers)] for title, *numbers in rows]
        table = text_table([head, *shown], [False] + [True] * (len(head) - 1), (1, -1))
        reasons = [f"{name}: {one_line(reason)}" for name, reason in _reasons(compared)]
    return "\n".join([table, "", *reasons, "", _NOTE])


def _reasons(compared: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Per source for Raw, per column for the others, where a number differs or is missing."""
    listed = compared.filter((pl.col("source") != TOTAL) & (pl.col("reason") != _SAME))
    first = listed.filter(pl.col("column") == _RAW)
    yield from ((one_line(title), reason) for title, reason in first["title", "reason"].iter_rows())
    later = listed.filter((pl.col("column") != _RAW) & (pl.col("reason") != _NO_NUMBER))
    yield from later.select("column", "reason").unique(maintain_order=True).iter_rows()
