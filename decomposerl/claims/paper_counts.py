"""The paper's counts per source, and where this project's differ: reason and setting.

They stand in ``corpora.toml`` beside each corpus: ``paper`` is its row in the table of the paper's
appendix "Per-Source Training Counts"; ``difference`` is there for each source, and for the test set
whose files are not the paper's alone. What was counted in the files is said as a fact; what only
fits is "likely"; what is neither is "unknown". Pages, asset metadata and ``decomposerl attrition
--against paper`` show these texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from decomposerl.claims.catalogue import TABLES


@dataclass(frozen=True, slots=True)
class PaperCounts:
    """Rows of one source in the paper's columns Raw, Diff., Dedup and Final.

    ``deduplicated`` includes decontamination and the least number of questions: it is the stage
    ``silver_decomposed`` here.
    """

    raw: int
    difficulty: int
    deduplicated: int
    final: int


PAPER_COUNTS: Mapping[str, PaperCounts] = {
    name: PaperCounts(**table["paper"]) for name, table in TABLES["sources"].items()
}
"""By the catalogue's name, in the order of the paper's table."""
PAPER_TOTAL = PaperCounts(155_506, 24_355, 17_328, 5_464)
"""The table's last line, as printed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the rows of a corpus are not the paper's, or that they are.

    ``rows`` is what all its public files give with the default settings, by the files or their
    published sizes; None where neither says. ``setting`` reproduces the paper's rows, or comes
    nearest to them; it is empty where there is none.
    """

    corpus: str
    reason: str
    rows: int | None = None
    setting: str = ""

    @property
    def text(self) -> str:
        """The counts as far as they are known, the reason and the setting, in one line."""
        printed = PAPER_COUNTS.get(self.corpus)
        numbers = [
            f"{name}: {rows:,}."
            for name, rows in (("Paper", printed and printed.raw), ("Here", self.rows))
            if rows is not None
        ]
        setting = [f"Setting: {self.setting}."] if self.setting else []
        return " ".join([*numbers, self.reason, *setting])


DIFFERENCES: tuple[Difference, ...] = tuple(
    Difference(name, **table["difference"])
    for tables in TABLES.values()
    for name, table in tables.items()
    if "difference" in table
)
STAGE_REASONS: Mapping[str, str] = {
    "difficulty": "The rows before it differ, and so may verifier and token counter; the paper's "
    "overlap threshold is unknown.",
    "deduplicated": "The rows before it differ, and so may embedder, duplicate search (here exact, "
    "there MinHash), the test sets on disk and the model that asks the questions.",
    "final": "Budgets per source follow from the rows before; long evidence is added from them.",
}
"""By field of ``PaperCounts`` after ``raw``: why rows differ, whichever source."""


def difference_of(corpus: str) -> Difference | None:
    """The entry of a source or test set; None for a corpus that is not the paper's."""
    return next((one for one in DIFFERENCES if one.corpus == corpus), None)
