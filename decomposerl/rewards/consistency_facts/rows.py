"""Rows in the evidence, and counts that they prove wrong.

Rows are lists of "Name (value)", lines of cells between bars, and lines of "column: value"
(paper, appendix on traces, the golf example: three are counted, four are named).
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from decomposerl.text.families import root
from decomposerl.text.words import STOP_WORDS, WORD, word_set

_ENTRY = re.compile(
    r"(?<!\w)([^\W\d_a-z][^\s()|;:,]{0,30}(?: [^\s()|;:,]{1,30}){0,5}) ?\(([^()\n|]{1,60})\)"
    r"[\s;,.•*·-]{0,20}(?:and\s)?\s?(?:\d+[.)])?\s?"
)
_LINE, _LETTER = re.compile(r"\x1e+|\n"), re.compile(r"[^\W\d_]")
_FEWEST_ROWS = 3
_ASKING = STOP_WORDS | word_set(
    """name named names list listed lists table document evidence given according come comes came
    belong belongs represent represents"""
)


class Rows(NamedTuple):
    """A table: the name of each row, its other cells, and the roots for what the rows are."""

    names: list[str]
    values: list[frozenset[str]]
    head: frozenset[Hashable]

    def named(self, answers: str) -> set[int]:
        """Rows whose name ``answers`` hold, or a first or last word of it that no other has."""
        capitals = [[w for w in WORD.findall(name) if w[0].isupper()] for name in self.names]
        count = Counter(word for words in capitals for word in {*words})
        alone = [[w for w in words if count[w] == 1 and len(w) > 1] for words in capitals]
        flat, words = f" {_flat(answers)} ", {*WORD.findall(answers)}
        return {
            row
            for row, (name, own) in enumerate(zip(self.names, alone, strict=True))
            if not words.isdisjoint((*own[:1], *own[-1:])) or f" {_flat(name)} " in flat
        }


def read_tables(evidence: str) -> list[Rows]:
    """All tables of three rows or more. Linear in the length of the evidence."""
    return list(_tables(_LINE.split(_ENTRY.sub("\x1e-: \\1|\\2\x1e", evidence))))


def _tables(lines: Sequence[str]) -> Iterator[Rows]:
    """Lines one after the other with as many cells, or with the same keys."""
    start = 0
    for keys, block in groupby(map(_cells, lines), key=itemgetter(0)):
        rows = [cells for _, cells in block]
        before, start = lines[start - 1] if start else "", start + len(rows)
        if not keys or len(rows) < _FEWEST_ROWS:
            continue
        at = next((at for at, cell in enumerate(rows[-1]) if _LETTER.search(cell)), 0)
        head = keys[0] or rows.pop(0)[at]
        names = [row[at] for row in rows]
        if _FEWEST_ROWS <= len(rows) == len({*names}):
            values = [frozenset(map(_flat, row[at + 1 :])) for row in rows]
            about = WORD.findall(before if head == "-" else head)
            yield Rows(names, values, frozenset(map(root, about)))


def _cells(line: str) -> tuple[tuple[str, ...], list[str]]:
    """The keys of a line, which are its shape, and its cells; none where it is no row."""
    bars = "|" in line
    parts = [part.rpartition(":") for part in line.strip(" |").split("|" if bars else ";")]
    keys = [key.strip() for key, _, _ in parts]
    if len(keys) == 1 or not (bars or all(keys)):
        return (), []
    shape = (keys[0], *("" for _ in keys[1:])) if bars else tuple(keys)
    return shape, [cell.strip() for _, _, cell in parts]


def miscounts(
    question: str, count: float, answers: str, tables: Sequence[Rows], evidence: str
) -> bool:
    """Whether all answers name more rows than ``count``, or all of them and fewer match it.

    False where the question asks more than which rows have one value, or fits several tables.
    """
    fitting = [(rows, *asked) for rows in tables if (asked := _asked(question, rows))]
    if len(fitting) != 1:
        return False
    rows, value, matching = fitting[0]
    named = rows.named(answers)
    if count < len(named & matching):
        return True
    elsewhere = value and f" {_flat(evidence)} ".count(f" {value} ") > len(matching)
    return len(named) == len(rows.names) and count > len(matching) and not elsewhere


def _asked(question: str, rows: Rows) -> tuple[str, set[int]] | None:
    """The value that a "how many" question is about, and its rows; None if it is not clear."""
    text = f" {_flat(question)} "
    kinds = {value for cells in rows.values for value in cells if _LETTER.search(value)}
    held = [value for value in kinds if f" {value} " in text]
    value = held[0] if held else ""
    words = (text.replace(f" {value} ", " ", 1) if value else text).split()
    counted = {word for word in words if word not in _ASKING}
    lists = not ({"list", "table"}.isdisjoint(words) or rows.head.isdisjoint(map(root, words)))
    if len(held) > 1 or len(counted) > 1 or not (value or lists):
        return None
    return value, {row for row, cells in enumerate(rows.values) if not value or value in cells}


def _flat(text: str) -> str:
    """Words in lower case with single spaces."""
    return " ".join(WORD.findall(text.lower()))
