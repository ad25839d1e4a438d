"""The funnel's attrition beside the paper's (appendix "Per-Source Training Counts").

Takes the wide table of ``attrition.py``; the paper's numbers are those of
``decomposerl.claims.catalogue``. Why a corpus has other numbers is said on its asset's page and in
``docs/explanation/paper-readings.md``.
"""

from itertools import chain

import polars as pl

from decomposerl.claims.catalogue import PAPER_COUNTS, PAPER_TOTAL, STAGE_REASONS
from decomposerl.reports.attrition import TOTAL
from decomposerl.reports.tables import count, markdown_table, one_line, text_table

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
    """A row per source of ``wide``, and for its total.

    Of each column that the paper has: ``raw`` (ours, null for a stage that has not run),
    ``raw_paper`` (null for a source that is not in its table), ``raw_difference`` (ours - paper).
    """
    printed = [PAPER_TOTAL if one == TOTAL else PAPER_COUNTS.get(one) for one in wide["source"]]
    columns = [wide["source"], wide["title"]]
    for name, (field, _) in _COLUMNS.items():
        counts = [None if row is None else getattr(row, field) for row in printed]
        paper = pl.Series(f"{name}_paper", counts, pl.Int64)
        columns += [wide[name], paper, (wide[name] - paper).alias(f"{name}_difference")]
    return pl.DataFrame(columns)


def paper_text(compared: pl.DataFrame, *, markdown: bool = False) -> str:
    """``against_paper`` as aligned text or Markdown, a line per source; the reasons are below."""
    head = ["Source", *chain(*((name, "paper", "diff.") for _, name in _COLUMNS.values()))]
    rows = [(one_line(title), *numbers) for _, title, *numbers in compared.iter_rows()]
    shown = [head, *([title, *map(count, numbers)] for title, *numbers in rows)]
    right = [False] + [True] * (len(head) - 1)
    table = markdown_table(head, rows) if markdown else text_table(shown, right, (1, -1))
    reasons = [(name, STAGE_REASONS.get(field)) for field, name in _COLUMNS.values()]
    lines = [f"- {name}: {reason}" for name, reason in reasons if reason]
    return "\n".join([table, "", *lines, "", _NOTE])
