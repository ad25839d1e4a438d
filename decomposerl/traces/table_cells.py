"""The cells of a table behind an answer, each with its row and the header of its column.

Evidence has a table as lines of cells between bars: a header, then rows, as the readers of corpora
and Markdown write them. Lines that name their page first ("Odense: population | 180,863") are rows
without a header.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from decomposerl.replies.abstention import abstains
from decomposerl.text.words import parse

_MOST_CELLS = 3  # of one answer
_TELLING = 3  # letters or digits of a cell that is not named by chance
_RULE = re.compile(r"[\s|:+-]+")  # below the header of a Markdown table


@dataclass(frozen=True, slots=True)
class TableCell:
    """A figure with the name of its row and the header of its column, which may be empty."""

    row: str
    header: str
    figure: str

    def __str__(self) -> str:
        """As a reader sees it: row Odense, population: 180,863."""
        return f"row {self.row}{', ' * bool(self.header)}{self.header}: {self.figure}"


def table_cells(question: str, answer: str, evidence: str) -> tuple[TableCell, ...]:
    """The cells that the answer gives, of the rows that it or the question names.

    Where a row has several, those whose header or figure the question names.
    """
    if "|" not in evidence or abstains(answer):
        return ()
    said, asked = parse(answer).content, parse(question).content
    cells: list[TableCell] = []
    for header, rows in _tables(evidence):
        for row in rows:
            name = _content(row[0])
            held = [
                (title, figure)
                for place, (title, figure) in enumerate(zip(header, row, strict=True))
                if _content(figure) and _content(figure) <= said and _names(row, place, said, asked)
            ]
            chosen = [one for one in held if (_content(one[0]) | _content(one[1]) - name) & asked]
            cells += [TableCell(row[0], *one) for one in chosen or held]
    return tuple(cells[:_MOST_CELLS])


def _names(row: list[str], figure: int, said: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether the words name the row of a figure: by half of its name, or by another cell."""
    name = _content(row[0])
    if figure and name and 2 * len(name & (said | asked)) >= len(name):
        return True
    others = (cell for place, cell in enumerate(row) if place not in {0, figure})
    return any(len(cell) >= _TELLING and _content(cell) <= asked for cell in others)


_content = lru_cache(maxsize=4096)(lambda cell: parse(cell).content)


@lru_cache(maxsize=16)  # the answers on one document come together
def _tables(evidence: str) -> list[tuple[list[str], list[list[str]]]]:
    """Header and rows of each table; the header of one without is empty."""
    tables = []
    for size, lines in groupby(_lines(evidence), key=len):
        rows = list(lines)
        pages = {row[0].partition(": ")[0] if ": " in row[0] else None for row in rows}
        if size > 1 and len(rows) > 1 and None in pages:
            tables.append((rows[0], rows[1:]))
        elif size > 1 and None not in pages:
            tables.append(([""] * size, rows))
    return tables


def _lines(evidence: str) -> Iterator[list[str]]:
    """The cells of each line."""
    for line in evidence.splitlines():
        if not ("|" in line and _RULE.fullmatch(line)):
            inside = line.strip().removeprefix("|").removesuffix("|")
            yield [cell.strip() for cell in inside.split("|")]
