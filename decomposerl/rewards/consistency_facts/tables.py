"""Rows that the evidence lists, and counts of them that the trace itself proves wrong.

Takes evidence, gives ``Row`` tables: lists of "Name (value)", lines of cells between bars,
lines of "column: value". Takes the questions and answers of a trace and gives the answers
that count rows with a value otherwise than the trace names them (paper, appendix on traces,
the golf example: three are counted, four are named).

Left out deliberately: conditions on numbers ("earned more than"), conditions on two columns,
and everything that is written as prose.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

from decomposerl.rewards.consistency_facts.values import CARDINALS
from decomposerl.rewards.consistency_facts.words import WORD, root, word_set

_PAIR = re.compile(
    r"(?<!\w)(?P<name>[^\W\d_a-z][^\s()|;:,]{0,30}(?: [^\s()|;:,]{1,30}){0,5}) ?"
    r"\((?P<value>[^()\n|]{1,60})\)"
)
_BETWEEN = re.compile(r"[\s;,.•*·-]*(?:and\s)?\s*(?:\d+[.)])?\s*")
_KEYED = re.compile(r"([^:]{1,40}): ?([^:]{1,80})")
_SENTENCE = re.compile(r"[.!?]\s+(?=[^\W\d_a-z])|\n")
_LETTER = re.compile(r"[^\W\d_]")
_BARS = re.compile(r"[;|]")
_GAP = 20  # characters between two entries of a list
_CAPTION = 200  # characters before a table that may describe it
_FEWEST = 3  # rows of a table
_ALL = word_set("total totals sum overall average mean")
_PLAIN = word_set(
    """name names named how many of the a an are were is was from in on there that who which
    table list listed lists document evidence given according to come comes came represent
    represented representing represents belong belongs hail hails hailed does do did have
    has with"""
)
_LINKS = word_set("who which that are were is was had have has with from come came do did")
_LONG = 9  # digits of a number that counts no rows
_LISTING = word_set("table list listed lists")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A table: names of rows, for each the set of its other cells in lower case.

    ``caption`` are roots of the words that stand before it, ``text`` the words of the whole
    evidence, ``kinds`` the distinct values with letters, ``own`` for each row the first and
    last of its name's words that no other row's name has. ``heads`` are words for what the
    rows are: the head of their column, or the caption of a list.
    """

    names: tuple[str, ...]
    values: tuple[frozenset[str], ...]
    caption: frozenset[str]
    text: str
    kinds: frozenset[str]
    own: tuple[frozenset[str], ...]
    heads: frozenset[str]


def read_tables(evidence: str) -> tuple[Rows, ...]:
    """All tables of three rows or more; time is linear in the length of the evidence."""
    text = f" {_flat(evidence)} "
    found = chain(_bracketed(evidence, text), _lined(evidence, text))
    return tuple(rows for rows in found if rows is not None)


class Named:
    """Which rows the answers of a trace name, found once a table."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = [WORD.findall(text) for text in texts]
        self._words = {word for one in words for word in one}
        self._texts = [f" {' '.join(one)} " for one in words]
        self._found: dict[Rows, set[int]] = {}

    def of(self, rows: Rows) -> set[int]:
        """Places of the rows that are named: by the whole name, or by a word of theirs alone."""
        if rows not in self._found:
            self._found[rows] = {
                place
                for place, name in enumerate(rows.names)
                if not rows.own[place].isdisjoint(self._words) or self._holds(name)
            }
        return self._found[rows]

    def _holds(self, name: str) -> bool:
        phrase = f" {' '.join(WORD.findall(name))} "
        return phrase != "  " and any(phrase in text for text in self._texts)


def miscounts(question: str, count: float, named: Named, tables: Sequence[Rows]) -> bool:
    """Whether ``count``, the answer to ``question``, is not what all answers name.

    True if the answers name more rows of the value asked about than are counted, or if they
    name every row of the table and fewer than ``count`` have the value. False wherever the
    question asks more than which rows have one value, or fits several tables.
    """
    fitting = [asked for rows in tables if (asked := _asked(question, rows)) is not None]
    if len(fitting) != 1:
        return False
    rows, with_value, value = fitting[0]
    said = named.of(rows)
    if count < len(said & with_value):
        return True
    elsewhere = value is not None and rows.text.count(f" {value} ") > len(with_value)
    return len(said) == len(rows.names) and count > len(with_value) and not elsewhere


def _asked(question: str, rows: Rows) -> tuple[Rows, set[int], str | None] | None:
    """The rows that a "how many" question is about, and their value; None if it is not clear."""
    lower = f" {' '.join(WORD.findall(question.lower()))} "
    held = [value for value in rows.kinds if f" {value} " in lower]
    if len(held) > 1:
        return None
    value = held[0] if held else None
    rest = lower if value is None else lower.replace(f" {value} ", " ", 1)
    words = rest.split()
    if not _is_plain(words, rows):
        return None
    if value is None and (_LISTING.isdisjoint(words) or rows.heads.isdisjoint(map(root, words))):
        return None
    places = {p for p, values in enumerate(rows.values) if value is None or value in values}
    return rows, places, value


def _is_plain(words: list[str], rows: Rows) -> bool:
    """Whether a question asks for nothing but the value: one noun, and the caption's words.

    Any words may describe the things if their number is that of the rows ("of the five
    golfers with most wins"), up to the verb. Another number asks about other things ("the
    top three").
    """
    size = len(rows.names)
    sizes = [p for p, word in enumerate(words) if size in (CARDINALS.get(word), _number(word))]
    if sizes:
        first = sizes[0]
        verb = next((p for p in range(first, len(words)) if words[p] in _LINKS), len(words))
        words = words[: max(0, first - 1)] + words[verb:]
    extra = [word for word in words if word not in _PLAIN and root(word) not in rows.caption]
    if any(word in CARDINALS or _number(word) is not None for word in extra):
        return False
    if sizes or not extra:
        return not extra
    noun = [place for place, word in enumerate(words) if word not in _PLAIN][:2]
    alone = len(noun) == 1 or noun[1] > noun[0] + 1
    return len({*extra}) == 1 and alone and words[noun[0]] == extra[0]


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < _LONG else None


def _own_words(names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """For each name the first and the last of its words with a capital that no other has."""
    words = [[w for w in WORD.findall(name) if w[0].isupper()] for name in names]
    count = Counter(word for one in words for word in set(one))
    alone = [[w for w in one if count[w] == 1 and len(w) >= _FEWEST] for one in words]
    return tuple(frozenset((*one[:1], *one[-1:])) for one in alone)


def _table(
    pairs: Sequence[tuple[str, frozenset[str]]], caption: str, text: str, head: str | None = None
) -> Rows | None:
    kept = [(name, values) for name, values in pairs if name.lower() not in _ALL]
    names = tuple(name for name, _ in kept)
    if len(names) < _FEWEST or len(set(names)) < len(names):
        return None
    values = tuple(cells for _, cells in kept)
    kinds = frozenset(v for cells in values for v in cells if _LETTER.search(v))
    words = frozenset(root(word) for word in WORD.findall(caption[-_CAPTION:]))
    heads = words if head is None else frozenset(map(root, WORD.findall(head)))
    return Rows(names, values, words | heads, text, kinds, _own_words(names), heads)


def _bracketed(evidence: str, text: str) -> Iterator[Rows | None]:
    """Lists of "Name (value)" with nothing but separators between the entries."""
    runs: list[list[re.Match[str]]] = []
    for pair in _PAIR.finditer(evidence):
        last = runs[-1][-1].end() if runs else -_GAP
        near = pair.start() - last < _GAP
        if near and _BETWEEN.fullmatch(evidence, last, pair.start()):
            runs[-1].append(pair)
        else:
            runs.append([pair])
    for run in runs:
        if len(run) >= _FEWEST:
            pairs = [(pair["name"], frozenset({_flat(pair["value"])})) for pair in run]
            start = run[0].start()
            caption = evidence[max(0, start - _CAPTION) : start].strip().rpartition("\n")[2]
            yield _table(pairs, caption, text)


def _lined(evidence: str, text: str) -> Iterator[Rows | None]:
    """Blocks of lines with the same number of cells, or with the same columns named."""
    lines = evidence.split("\n")
    start = 0
    for shape, block in groupby(map(_cells, lines), key=itemgetter(0)):
        rows = [row for _, row in block]
        if shape and len(rows) >= _FEWEST:
            before = lines[start - 1] if start else ""
            heads = list(shape) if shape[0] else _heads(rows)
            yield _lined_table(rows, heads, before, text)
        start += len(rows)


def _cells(line: str) -> tuple[tuple[str, ...], list[str]]:
    """The shape of a line and its cells; an empty shape where it is no row."""
    parts = [part.strip() for part in line.strip().strip("|").split("|")]
    keyed = [_KEYED.fullmatch(part.strip()) for part in _BARS.split(line)]
    if len(keyed) > 1 and all(keyed):
        pairs = [pair.groups() for pair in keyed if pair is not None]
        return tuple(key.strip() for key, _ in pairs), [value.strip() for _, value in pairs]
    return (("",) * len(parts) if len(parts) > 1 else ()), parts


def _lined_table(
    rows: Sequence[list[str]], heads: list[str], caption: str, text: str
) -> Rows | None:
    """A table from lines of cells; the first column with letters in each row names the rows."""
    named = [place for row in rows if (place := _first_name(row)) is not None]
    if not named:
        return None
    column = min(named)
    pairs = [
        (row[column].rpartition(": ")[2], frozenset(_flat(cell) for cell in row[column + 1 :]))
        for row in rows
        if _LETTER.search(row[column])
    ]
    return _table(pairs, caption, text, heads[column])


def _heads(rows: list[list[str]]) -> list[str]:
    """The heads of the columns: the first row, which goes, or the page that opens every row."""
    pages = {row[0].rpartition(": ")[0] for row in rows}
    return [pages.pop()] * len(rows[0]) if len(pages) == 1 and "" not in pages else rows.pop(0)


def _first_name(cells: Sequence[str]) -> int | None:
    return next((place for place, cell in enumerate(cells) if _LETTER.search(cell)), None)


def _flat(text: str) -> str:
    """Words in lower case with single spaces."""
    return " ".join(WORD.findall(text.lower()))


def together(one: str, other: str, evidence: str) -> bool:
    """Whether a sentence of the evidence holds a word with a capital of each of two names."""
    first, second = ({w for w in WORD.findall(name) if w[0].isupper()} for name in (one, other))
    return any(
        not first.isdisjoint(words) and not second.isdisjoint(words)
        for words in map(WORD.findall, _SENTENCE.split(evidence))
    )
