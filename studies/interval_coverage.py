"""Coverage of the project's 95 % intervals.

Draws claims whose true balanced accuracy (or difference of two systems) is known, prints coverage
and mean width by case, and writes their range by number of claims into docs/results/intervals.md:

    python -m studies.interval_coverage --report docs/results/intervals.md

Claims of one document are correlated: with probability ``sqrt(icc)`` a claim uses its
document's random draw, else its own, so two claims of a document correlate by ``icc``.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.comparison import compare
from decomposerl.evaluation.metrics import BALANCED, Bounds, Codes, verdict_estimates
from decomposerl.reports.tables import markdown_table
from perf.pages import write_between_markers

SEED, REPLICATES = 11, 2_000
MARKS = "interval coverage"
ALPHA = 0.05
_Draws = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedClaims:
    """``rows`` claims in documents of ``size``, a share ``refuted``, accuracy ``right``.

    ``mixed``: a document has both labels. ``other``: accuracy of a second system, which uses
    the same random draw as the first in half of the claims.
    """

    rows: int
    right: float
    refuted: float = 0.5
    size: int = 1
    icc: float = 0.0
    mixed: bool = False
    other: float | None = None

    def labels(self) -> Codes:
        """Labels with the share ``refuted``, at least one of each."""
        count = min(max(round(self.rows * self.refuted), 1), self.rows - 1)
        rows = np.arange(self.rows)
        if self.mixed:
            return (np.random.default_rng(0).permutation(rows) < count).astype(np.int64)
        return (rows < count).astype(np.int64)

    def evidence(self) -> Codes:
        """The number of each claim's document."""
        return np.arange(self.rows) // self.size

    @property
    def cells(self) -> list[str]:
        """The first cells of a table row."""
        documents = f"{self.size} per document, {'mixed, ' * self.mixed}icc {self.icc:g}"
        return [
            f"{self.rows}",
            f"{self.right:g}" if self.other is None else f"{self.right:g}, {self.other:g}",
            f"{self.refuted:.0%}".replace("%", " %"),
            documents if self.size > 1 else "",
        ]

    @property
    def group(self) -> tuple[str, ...]:
        """What the cases of a row of the page have in common."""
        size = f"{self.rows}", f"{self.size}"
        if self.other is None:
            return size
        return *size, "equal" if self.other == self.right else f"{self.right:g}, {self.other:g}"


SINGLE = (
    *(
        SimulatedClaims(rows, right)
        for rows in (4, 10, 30, 100, 500)
        for right in (0.5, 0.7, 0.9, 0.97, 1.0)
    ),
    *(SimulatedClaims(rows, right, 0.1) for rows in (30, 100, 500) for right in (0.7, 0.97)),
    *(
        SimulatedClaims(rows, right, size=5, icc=icc, mixed=mixed)
        for rows in (30, 100, 500)
        for right in (0.7, 0.97)
        for icc, mixed in ((0.3, False), (0.3, True), (1.0, True))
    ),
)
PAIRED = (
    *(
        SimulatedClaims(rows, one, other=one)
        for rows in (4, 10, 30, 100, 500)
        for one in (0.5, 0.9, 1.0)
    ),
    *(SimulatedClaims(rows, 0.9, other=0.7) for rows in (4, 10, 30, 100, 500)),
    *(
        SimulatedClaims(rows, 0.7, other=0.7, size=5, icc=0.3, mixed=True)
        for rows in (30, 100, 500)
    ),
)


def single_line(case: SimulatedClaims, replicates: int) -> list[str]:
    """Coverage and width of the interval of one balanced accuracy."""
    labels, evidence, rng = case.labels(), case.evidence(), np.random.default_rng(SEED)
    bounds: list[Bounds] = []
    for _ in range(replicates):
        verdicts = _verdicts(labels, _uniforms(case, rng), case.right)
        estimate = verdict_estimates(labels, verdicts, evidence)[BALANCED]
        bounds.append((estimate.low, estimate.high))
    return [*case.cells, *_coverage(bounds, case.right)]


def paired_line(case: SimulatedClaims, replicates: int) -> list[str]:
    """The same for a difference, and how often its p-value is shown and below 0.05."""
    labels, evidence, rng = case.labels(), case.evidence(), np.random.default_rng(SEED)
    other = case.right if case.other is None else case.other
    bounds: list[Bounds] = []
    below, shown = 0, 0
    for _ in range(replicates):
        uniforms, separate = _uniforms(case, rng), rng.random(case.rows) < 0.5  # noqa: PLR2004 - half of them
        others = np.where(separate, _uniforms(case, rng), uniforms)
        pair = _verdicts(labels, uniforms, case.right), _verdicts(labels, others, other)
        outcome = compare(labels, *pair, evidence)
        bounds.append(outcome.bounds)
        below += not outcome.no_p and outcome.p < ALPHA
        shown += not outcome.no_p
    shares = [f"{100 * count / replicates:.1f}" for count in (below, shown)]
    return [*case.cells, *_coverage(bounds, case.right - other), *shares]


def _uniforms(case: SimulatedClaims, rng: np.random.Generator) -> _Draws:
    own = rng.random(case.rows)
    if case.size == 1:
        return own
    of_document = np.repeat(rng.random(-(-case.rows // case.size)), case.size)[: case.rows]
    return np.where(rng.random(case.rows) < np.sqrt(case.icc), of_document, own)


def _verdicts(labels: Codes, uniforms: _Draws, right: float) -> Codes:
    return np.where(uniforms < right, labels, 1 - labels)


def _coverage(bounds: Sequence[Bounds], truth: float) -> list[str]:
    low, high = np.array(bounds).T
    rounding = 1e-9
    covered = (low <= truth + rounding) & (truth - rounding <= high)
    return [f"{100 * covered.mean():.1f}", f"{100 * (high - low).mean():.1f}"]


@dataclass(frozen=True, slots=True)
class _Table:
    """Cases with the columns of their rows; ``on_page`` are the positions of those on the page."""

    title: str
    cases: Sequence[SimulatedClaims]
    line: Callable[[SimulatedClaims, int], list[str]]
    columns: Sequence[str]
    on_page: Sequence[int]
    group: Sequence[str]


_HEAD = ["claims", "right", "refuted", "documents"]
_COVERS = ["covers", "width"]
_P = ["shown p < 0.05", "a p is shown"]
_GROUP = ["claims", "per document"]
_TABLES = (
    _Table("One balanced accuracy", SINGLE, single_line, _COVERS, (0, 1), _GROUP),
    _Table(
        "The difference of two systems",
        PAIRED,
        paired_line,
        [*_COVERS, *_P],
        (0, 1, 2),
        [*_GROUP, "accuracies"],
    ),
)


def measured(replicates: int) -> list[list[list[str]]]:
    """The rows of both tables."""
    return [[table.line(case, replicates) for case in table.cases] for table in _TABLES]


def report(tables: Sequence[Sequence[Sequence[str]]], replicates: int) -> str:
    """Both tables, a row per case, in percent."""
    parts = [_about(replicates)]
    for table, rows in zip(_TABLES, tables, strict=True):
        parts.append(_titled(table.title, [*_HEAD, *table.columns], rows))
    return "\n\n".join(parts)


def ranges(tables: Sequence[Sequence[Sequence[str]]], replicates: int) -> str:
    """The same for the page: least and greatest value of the cases of a group."""
    parts = [_about(replicates)]
    for table, rows in zip(_TABLES, tables, strict=True):
        groups: dict[tuple[str, ...], list[Sequence[str]]] = {}
        for case, row in zip(table.cases, rows, strict=True):
            groups.setdefault(case.group, []).append(row[len(_HEAD) :])
        lines = [
            [*key, *(_span([row[column] for row in same]) for column in table.on_page)]
            for key, same in groups.items()
        ]
        columns = [table.columns[column] for column in table.on_page]
        parts.append(_titled(table.title, [*table.group, *columns], lines))
    return "\n\n".join(parts)


def _about(replicates: int) -> str:
    return f"{replicates:,} samples per case; percent, widths in points. Nominal coverage is 95."


def _titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"**{title}**\n\n{markdown_table(head, rows)}"


def _span(values: Sequence[str]) -> str:
    least, most = min(values, key=float), max(values, key=float)
    return least if least == most else f"{least}–{most}"


def main() -> None:
    """Print a row per case; write the ranges into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument(
        "--report", type=Path, help="Markdown file with the two markers of this report"
    )
    words = parser.parse_args()
    tables = measured(words.replicates)
    print(report(tables, words.replicates))
    if words.report is not None:
        write_between_markers(words.report, MARKS, ranges(tables, words.replicates))


if __name__ == "__main__":
    main()
