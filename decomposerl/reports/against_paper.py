"""The funnel's attrition beside the paper's (appendix "Per-Source Training Counts"), with reasons.

Takes the tables of ``attrition.py``; the paper's numbers and the reasons are those of
``decomposerl.claims.catalogue``.
"""

from collections.abc import Sequence
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
    # Rows that the label rule dropped are no difference: the paper drops the middle class, too.
    left = attrition.filter(
        (pl.col("stage") == STAGES[0])
        & (pl.col("outcome") != "kept")
        & (pl.col("step") != "label_rule")
    )
    counted = left.group_by("source", "reason").agg(pl.col("rows").sum()).sort("source", "reason")
    unused: dict[str, list[str]] = {}
    for source, reason, count_left in counted.iter_rows():
        unused.setdefault(source, []).append(f"{count_left:,} {reason}")
    rows = []
    for row in wide.iter_rows(named=True):
        source = str(row["source"])
        printed = PAPER_TOTAL if source == TOTAL else PAPER_COUNTS.get(source)
        for column, (name, head) in _COLUMNS.items():
            ours, paper = row[column], None if printed is None else int(getattr(printed, name))
            difference = None if ours is None or paper is None else ours - paper
            if paper is None:
                reason = _NO_NUMBER
            elif ours is None:
                reason = _NOT_RUN
            elif difference == 0:
                reason = _SAME
            else:
                reason = _reason(source, name, row["read"], unused.get(source, []))
            rows.append((source, row["title"], head, ours, paper, difference, reason))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _reason(source: str, name: str, read: int, unused: Sequence[str]) -> str:
    if source == TOTAL:
        return "The sum of the rows above."
    if name != "raw":
        return STAGE_REASONS[name]
    known = DIFFERENCES.get(source)
    said = "unknown." if known is None else known.reason
    left = "; not used: " * bool(unused) + ", ".join(unused)
    setting = f" Setting: {known.setting}." if known and known.setting else ""
    return f"Rows read: {read:,}{left}. With all files: {said[0].lower()}{said[1:]}{setting}"


def paper_text(compared: pl.DataFrame, *, markdown: bool = False) -> str:
    """``against_paper`` as aligned text or Markdown, a line per source; the reasons are below.

    Reasons are given per source for Raw and per column for the others.
    """
    head = ["Source", *chain(*([name, "paper", "diff."] for _, name in _COLUMNS.values()))]
    rows = [
        [one_line(title), *chain(*part.select("ours", "paper", "difference").iter_rows())]
        for (_, title), part in compared.group_by("source", "title", maintain_order=True)
    ]
    shown = [head, *([title, *map(count, numbers)] for title, *numbers in rows)]
    right = [False] + [True] * (len(head) - 1)
    table = markdown_table(head, rows) if markdown else text_table(shown, right, (1, -1))
    listed = compared.filter((pl.col("source") != TOTAL) & (pl.col("reason") != _SAME))
    raw = pl.col("column") == _RAW
    later = listed.filter(~raw, pl.col("reason") != _NO_NUMBER).select("column", "reason")
    reasons = [*listed.filter(raw).select("title", "reason").iter_rows()]
    reasons += later.unique(maintain_order=True).iter_rows()
    literally = markdown_text if markdown else one_line
    lines = [f"{'- ' * markdown}{one_line(name)}: {literally(said)}" for name, said in reasons]
    return "\n".join([table, "", *lines, "", _NOTE])
