"""The table of ``docs/explanation/paper-readings.md``: rows of each corpus, and why."""

from decomposerl.claims.catalogue import BENCHMARKS, DIFFERENCES, PAPER_COUNTS, SOURCES
from decomposerl.reports.tables import count
from studies.reference.markdown import code, table


def block() -> str:
    """The table as Markdown."""
    titles = {one.name: one.title for one in (*BENCHMARKS, *SOURCES)}
    raw = {name: counts.raw for name, counts in PAPER_COUNTS.items()}
    rows = [
        (
            titles[one.corpus],
            count(raw.get(one.corpus)),
            count(one.rows),
            one.reason,
            code(one.setting) or "–",
        )
        for one in DIFFERENCES.values()
    ]
    return table(("Corpus", "Paper", "Here", "Why", "Setting"), rows)
