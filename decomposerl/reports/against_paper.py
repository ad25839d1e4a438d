"""The funnel's attrition beside the paper's (appendix "Per-Source Training Counts").

Takes the wide table of ``attrition.py``; the paper's numbers are those of
``decomposerl.claims.catalogue``. Why a corpus has other numbers is said on its asset's page and in
``docs/explanation/paper-readings.md``.
"""

from itertools import chain

import polars as pl

from decomposerl.claims.catalogue import PAPER_COUNTS, PAPER_TOTAL, STAGE_REASONS
from decomposerl.reports.attrition import TOTAL
from decomposerl.reports.tables import count, markdown_table, markdown_text, one_line, text_table

SCHEMA = pl.Schema(
    {"source": pl.String(), "title": pl.String(), "column": pl.String()}
    | dict.fromkeys(("ours", "paper", "difference"), pl.Int64())
)
_COLUMNS = {
    "raw": ("raw", "Raw"),
    "difficulty": ("difficulty", "Diff."),
    "silver": ("deduplicated", "Dedup"),
    "final": ("final", "Final"),
}
"""Column of the wide table to the field of ``PaperCounts`` and its head in the paper."""
_NOTE = (
    "Each number: ours, the paper's, ours minus the paper's. The paper has no number for the "
    "columns Rules, Dedup., Decont. and Selected of the attrition table; its Dedup is our Silver. "
    "Why Raw differs, by corpus: docs/explanation/paper-readings.md."
)


def against_paper(wide: pl.DataFrame) -> pl.DataFrame:
    """Four rows per source of ``wide``, and for its total, as ``SCHEMA``.

    ``column`` is the paper's: Raw, Diff., Dedup (``silver`` here), Final. ``ours`` is null for a
    stage that has not run, ``paper`` for a source that is not in its table, ``difference`` (ours -
    paper) where one of them is.
    """
    rows = []
    for row in wide.iter_rows(named=True):
        source = str(row["source"])
        printed = PAPER_TOTAL if source == TOTAL else PAPER_COUNTS.get(source)
        for column, (name, head) in _COLUMNS.items():
            ours, paper = row[column], None if printed is None else int(getattr(printed, name))
            difference = None if ours is None or paper is None else ours - paper
            rows.append((source, row["title"], head, ours, paper, difference))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def paper_text(compared: pl.DataFrame, *, markdown: bool = False) -> str:
    """``against_paper`` as aligned text or Markdown, a line per source; the reasons are below."""
    head = ["Source", *chain(*([name, "paper", "diff."] for _, name in _COLUMNS.values()))]
    rows = [
        [one_line(title), *chain(*part.select("ours", "paper", "difference").iter_rows())]
        for (_, title), part in compared.group_by("source", "title", maintain_order=True)
    ]
    reasons = [(head, STAGE_REASONS[name]) for name, head in _COLUMNS.values() if name != "raw"]
    if markdown:
        lines = [f"- {column}: {markdown_text(reason)}" for column, reason in reasons]
        return "\n".join([markdown_table(head, rows), "", *lines, "", _NOTE])
    lines = [f"{column}: {one_line(reason)}" for column, reason in reasons]
    shown = [head, *([title, *map(count, numbers)] for title, *numbers in rows)]
    table = text_table(shown, [False] + [True] * (len(head) - 1), (1, -1))
    return "\n".join([table, "", *lines, "", _NOTE])
