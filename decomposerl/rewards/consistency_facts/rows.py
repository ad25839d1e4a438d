"""Lists in answers, rows in the evidence, and counts that they prove wrong.

A list is read only where every item is a name, or every item a plain noun. Rows are lists of
"Name (value)", lines of cells between bars, and lines of "column: value" (paper, appendix on
traces, the golf example: three are counted, four are named).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from decomposerl.rewards.consistency_facts.questions import WORD, root
from decomposerl.text.numbers import UNITS, read_values
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import CARDINALS, STOP_WORDS, word_set

_OPENS = re.compile(r":\s+|,?\s+namely,?:?\s+")
_END = re.compile(r"(?<=[\w)\"'”’])[.!?](?:\s+(?=[A-Z\"“])|\s*$)")
_COMMAS, _AND = re.compile(r"\s*[,;\n]\s*"), re.compile(r"\s+(?:and|&)\s+")
_LEADING = re.compile(r"\A(?:and|&|[-•*·]|\d+[.)])\s+")
_PROPER = re.compile(
    r"[\"'“‘]?(?:(?:[^\W\d_a-z][\w.'’-]*|d[aeiu]l?|l[ae]|v[ao]n|der|of|the)(?:\s|$))+"
)
_PLAIN_ITEM = re.compile(r"(?:an?\s+)?[a-z-]+(?:\s[a-z-]+){0,2}")
_NO_ITEM = STOP_WORDS - {"the", "a", "an"} | word_set("others two pair twins rest none several etc")
_PEOPLE = word_set("people men women children")
_ITEM_WORDS, _MOST_ITEMS, _FEWEST = 7, 200, 2
_ENTRY = re.compile(
    r"(?<!\w)([^\W\d_a-z][^\s()|;:,]{0,30}(?: [^\s()|;:,]{1,30}){0,5}) ?\(([^()\n|]{1,60})\)"
)
_BETWEEN = re.compile(r"[\s;,.•*·-]{0,20}(?:and\s)?\s?(?:\d+[.)])?\s?")
_KEYED = re.compile(r"\s*(?:([^:]{1,40}): ?)?([^\n]*)")
_ALL = word_set("total totals sum overall average mean")
_LETTER = re.compile(r"[^\W\d_]")
_CAPTION, _FEWEST_ROWS = 200, 3
"""Characters before a table that may describe it, and rows of a table at least."""
_ASKING = STOP_WORDS | word_set(
    """name named names list listed lists table document evidence given according come comes came
    belong belongs represent represents"""
)


def listed(text: str) -> tuple[int, int] | None:
    """The least and the largest number of items of a list; None where it is not read.

    "Simon and Garfunkel" is one item or two. Linear in the length of the text.
    """
    if len(text) > 60 * _MOST_ITEMS:
        return None
    text = re.sub(r"\s*\([^()]*\)", "", text).strip().rstrip(".!?").strip("\"'“”")
    parts = [part for part in _COMMAS.split(text) if part]
    closed = bool(parts) and _LEADING.match(parts[-1]) is not None
    halves = [_AND.split(_LEADING.sub("", part, count=1)) for part in parts]
    items = [item for half in halves for item in half]
    if not _FEWEST <= len(items) <= _MOST_ITEMS or not _alike(items):
        return None
    ends = 0 if closed or len(halves[-1]) == 1 else 1  # "A, B and C": that "and" separates
    return len(parts) + ends, len(items)


def _alike(items: Sequence[str]) -> bool:
    """Whether all items are names, or all plain nouns."""
    for item in items:
        words = re.findall(r"[\w'’-]+", item.lower())
        if not 0 < len(words) <= _ITEM_WORDS or {words[0], words[-1]} & _NO_ITEM:
            return False
        if not {"or", "other", *CARDINALS}.isdisjoint(words):
            return False
    return all(map(_PROPER.fullmatch, items)) or all(map(_PLAIN_ITEM.fullmatch, items))


def miscounts_itself(answer: str) -> bool:
    """Whether the answer states a number of things and then lists another number of them.

    Too few is sure; too many only where no two items could be one ("Paris, France").
    """
    answer = "\n".join(" ".join(line.split()) for line in answer.splitlines() if line.strip())
    opening = _OPENS.search(answer)
    stated = _stated(_END.split(answer[: opening.start()])[-1]) if opening else None
    if opening is None or stated is None:
        return False
    rest = _END.split(answer[opening.end() :], maxsplit=1)[0]
    held = listed(rest)
    if held is None:
        return False
    plain = rest[:1].islower()
    if stated > held[1]:  # plain nouns in the plural can each be several things
        return not (plain and re.search(r"[^s\W]s\b", rest))
    items = [item for part in _COMMAS.split(rest.rstrip(".!?")) for item in _AND.split(part)]
    whole = plain or all(" " in _LEADING.sub("", item) for item in items)
    return stated < held[0] and 2 * stated not in held and whole


def _stated(clause: str) -> int | None:
    """The count that a clause gives of things that can be listed; None if not just one."""
    values = read_values(clause)
    counts = [number for number in values.numbers if not number.whole and not number.year]
    if not values.definite or len(counts) != 1 or counts[0].unit:
        return None
    (number,) = counts
    following = re.findall(r"[\w'’-]+", clause[number.end :])[:4]
    many = [word for word in following if word in _PEOPLE or word.endswith("s")]
    verb = following[:1] and following[0] in {"are", "were", "come", "came", "of", "have", "had"}
    counts_things = (many or verb) and UNITS.isdisjoint(number.after)
    in_range = number.value in range(_FEWEST, _MOST_ITEMS + 1)
    return int(number.value) if counts_things and in_range else None


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A table: names of rows, for each the set of its other cells in lower case.

    ``own``: for each row the first and last capitalised word that no other row's name has.
    ``caption``: roots of what stands before it; ``heads``: roots for what the rows are.
    ``text``: the words of the whole evidence.
    """

    names: tuple[str, ...]
    values: tuple[frozenset[str], ...]
    own: tuple[frozenset[str], ...]
    caption: frozenset[str]
    heads: frozenset[str]
    text: str


def read_tables(evidence: str) -> tuple[Rows, ...]:
    """All tables of three rows or more. Linear in the length of the evidence."""
    found = (*_bracketed(evidence), *_lined(evidence.split("\n")))
    text = _flat(evidence)
    return tuple(rows for one in found if (rows := _table(*one, text)) is not None)


def _bracketed(evidence: str) -> Iterator[tuple[list[list[str]], str, str | None]]:
    """Lists of "Name (value)" with nothing but separators between the entries."""
    runs: list[list[re.Match[str]]] = []
    for entry in _ENTRY.finditer(evidence):
        if runs and _BETWEEN.fullmatch(evidence, runs[-1][-1].end(), entry.start()):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    for run in runs:
        start = run[0].start()
        caption = evidence[max(0, start - _CAPTION) : start].strip().rpartition("\n")[2]
        yield [list(entry.groups()) for entry in run], caption, None


def _lined(lines: Sequence[str]) -> Iterator[tuple[list[list[str]], str, str | None]]:
    """Blocks of lines with as many cells between bars, or with the same keys."""
    start = 0
    for keys, block in groupby(map(_cells, lines), key=itemgetter(0)):
        rows = [cells for _, cells in block]
        caption, start = lines[start - 1] if start else "", start + len(rows)
        if not keys or len(rows) < _FEWEST_ROWS:
            continue
        lettered = ((at for at, cell in enumerate(row) if _LETTER.search(cell)) for row in rows)
        column = min((next(places, 0) for places in lettered), default=0)
        head = (keys[column] or keys[0]) if keys[0] else rows.pop(0)[column]
        yield [row[column:] for row in rows], caption, head


def _cells(line: str) -> tuple[tuple[str, ...], list[str]]:
    """The keys of a line, which are its shape, and its cells; none where it is no row."""
    bars = "|" in line
    parts = [_KEYED.match(part) for part in line.strip(" |").split("|" if bars else ";")]
    keys = [part[1] or "" for part in parts if part]
    if len(keys) < _FEWEST or not (bars or all(keys)):
        return (), []
    shape = (keys[0], *("" for _ in keys[1:])) if bars else tuple(keys)
    return shape, [part[2].strip() for part in parts if part]


def _table(
    cells: Sequence[Sequence[str]], caption: str, head: str | None, text: str
) -> Rows | None:
    kept = [row for row in cells if row[0].lower() not in _ALL]
    names = tuple(row[0] for row in kept)
    if len(names) < _FEWEST_ROWS or len({*names}) < len(names):
        return None
    capitals = [[w for w in WORD.findall(name) if w[0].isupper()] for name in names]
    count = Counter(word for words in capitals for word in {*words})
    alone = [[w for w in words if count[w] == 1 and len(w) > 1] for words in capitals]
    about = frozenset(map(root, WORD.findall(caption[-_CAPTION:])))
    heads = about if head is None else frozenset(map(root, WORD.findall(head)))
    return Rows(
        names=names,
        values=tuple(frozenset(map(_flat, row[1:])) for row in kept),
        own=tuple(frozenset((*words[:1], *words[-1:])) for words in alone),
        caption=about | heads,
        heads=heads,
        text=f" {text} ",
    )


def miscounts(question: str, count: float, answers: str, tables: Sequence[Rows]) -> bool:
    """Whether ``count``, the answer to ``question``, is not what all answers name.

    True if the answers name more rows with the value asked about than are counted, or every
    row of the table where fewer than ``count`` have it. False where the question asks more
    than which rows have one value, or fits several tables.
    """
    fitting = [(rows, *asked) for rows in tables if (asked := _asked(question, rows))]
    if len(fitting) != 1:
        return False
    rows, value, matching = fitting[0]
    phrases, words = f" {_flat(answers)} ", {*WORD.findall(answers)}
    named = {
        row
        for row, name in enumerate(rows.names)
        if not rows.own[row].isdisjoint(words) or f" {_flat(name)} " in phrases
    }
    if count < len(named & matching):
        return True
    elsewhere = bool(value) and rows.text.count(f" {value} ") > len(matching)
    return len(named) == len(rows.names) and count > len(matching) and not elsewhere


def _asked(question: str, rows: Rows) -> tuple[str, set[int]] | None:
    """The value that a "how many" question is about, and its rows; None if it is not clear."""
    text = f" {_flat(question)} "
    kinds = {value for cells in rows.values for value in cells if _LETTER.search(value)}
    held = [value for value in kinds if f" {value} " in text]
    if len(held) > 1:
        return None
    value = held[0] if held else ""
    words = (text.replace(f" {value} ", " ", 1) if value else text).split()
    content = [word for word in words if word not in _ASKING]
    extra = [word for word in content if root(word) not in rows.caption]
    if extra and (len({*extra}) > 1 or extra[0].isdigit() or extra[0] in CARDINALS):
        return None
    if extra and content != extra and words.index(extra[0]) + 1 == words.index(content[1]):
        return None  # "older athletes": not all of the rows
    lists = {"list", "listed", "table"} & {*words} and rows.heads & {*map(root, words)}
    if not value and not lists:
        return None
    return value, {row for row, cells in enumerate(rows.values) if not value or value in cells}


def _flat(text: str) -> str:
    """Words in lower case with single spaces."""
    return " ".join(WORD.findall(text.lower()))


def together(one: str, other: str, evidence: str) -> bool:
    """Whether a sentence of the evidence holds a capitalised word of each of two names."""
    first, second = ({w for w in WORD.findall(name) if w[0].isupper()} for name in (one, other))
    return any(
        not first.isdisjoint(words) and not second.isdisjoint(words)
        for words in map(WORD.findall, split_sentences(evidence))
    )
