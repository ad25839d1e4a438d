"""FOLK's replies: predicates with their questions, and the truth of each.

A predicate is a line ``Form(things) | statement | question?``; statement and question may stand
behind a dash or on lines of their own. Lines are numbered, or else each opens with its form.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from decomposerl.replies.lines import lines_of, one_line, without_marks
from decomposerl.replies.lists import MOST_ITEMS, distinct
from decomposerl.replies.wordings import Wordings

PredicateTruth = Literal["true", "false", "open"]
_PREDICATES = Wordings("predicates")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as written, with its statement, and the question that grounds it."""

    text: str
    question: str


def read_predicates(text: str) -> tuple[Predicate, ...] | None:
    """The first ``MOST_ITEMS`` distinct predicates of a reply."""
    lines = [_table_row(line) for line in lines_of(text) if not _PREDICATES["rule"].fullmatch(line)]
    items = _items([line for whole in lines for line in _split(whole)])
    return tuple(map(_predicate, distinct(items)[:MOST_ITEMS])) or None


def read_truths(text: str, predicates: Sequence[str]) -> list[PredicateTruth | None]:
    """The truth of each predicate by its number or its form; one with two of them has none.

    Where no predicate has one, the values of the conjunction, if there are as many, are those.
    """
    lines = lines_of(text)
    truths: dict[int, set[PredicateTruth]] = {n: set() for n in range(1, len(predicates) + 1)}
    for number, truth in _numbered_truths(lines, predicates):
        truths.setdefault(number, set()).add(truth)
    found = [truths[number] for number in range(1, len(predicates) + 1)]
    if not any(found):
        return _conjoined_truths(lines, len(predicates))
    return [next(iter(values)) if len(values) == 1 else None for values in found]


def _items(lines: Sequence[str]) -> list[str]:
    """The predicates' lines, each with the statement and question of the lines below it."""
    numbers = [number for line in lines if (number := _PREDICATES["number"].fullmatch(line))]
    counted = [int(number["named"] or number["plain"]) for number in numbers]
    if counted != list(range(1, len(counted) + 1)):
        return []
    items: list[str] = []
    for line in lines:
        number, label = (_PREDICATES[name].fullmatch(line) for name in ("number", "label"))
        if number if counted else _PREDICATES["starts"].fullmatch(line):
            items.append(_unlabelled(number["text"] if number else _unmarked(line)))
        elif items and not items[-1]:
            items[-1] = _unlabelled(_unmarked(line))
        elif items and label is not None:
            items[-1] = f"{items[-1]} | {label['text']}"
        elif items and (_PREDICATES["mark"].match(line) or line.endswith("?")):
            items[-1] = f"{items[-1]} | {_unmarked(line)}"
    return [item for item in items if item]


def _predicate(item: str) -> Predicate:
    parts = [part for part in map(without_marks, item.split("|")) if part]
    opened = _PREDICATES["starts"].fullmatch(parts[0])
    if len(parts) == 1 and opened is not None and opened["rest"]:
        behind = _PREDICATES["separator"].split(opened["rest"].lstrip(":–—-→ "))
        rest = [part for part in behind if part]
        asked = _PREDICATES["question_end"].fullmatch(rest[-1]) if rest else None
        parts = [opened["form"], *rest[:-1], *(asked.groups() if asked else rest[-1:])]
    *before, last = [_PREDICATES["own_label"].sub("", part) for part in parts]
    if last.endswith("?"):
        return Predicate(" | ".join(before) or last, last)
    return Predicate(" | ".join([*before, last]), f"Is it true that {last.rstrip('. ')}?")


def _unlabelled(text: str) -> str:
    return _PREDICATES["labelled"].sub("", text, count=1)


def _unmarked(line: str) -> str:
    return _PREDICATES["mark"].sub("", line)


def _split(line: str) -> list[str]:
    """The predicates of a conjunction on one line, each on its own."""
    whole = _PREDICATES["conjoined"].fullmatch(line)
    return _PREDICATES["form"].findall(line) if whole else [line]


def _table_row(line: str) -> str:
    """A row of a table as a line of the asked form; any other line as it is."""
    if not (line.startswith("|") and line.endswith("|")):
        return line
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    number = f"{cells.pop(0)}. " if cells[0].rstrip(".").isdigit() else ""
    return number.replace("..", ".") + " | ".join(cells)


def _numbered_truths(
    lines: Sequence[str], predicates: Sequence[str]
) -> Iterator[tuple[int, PredicateTruth]]:
    """The truths of a reply with the numbers of their predicates, in order."""
    names = [_name(text) for text in predicates]
    current = 0
    for line in (part for whole in lines for part in _PREDICATES["several"].split(whole)):
        head, rest = _PREDICATES["head"].fullmatch(line), line
        if head is not None:
            current, rest = int(head["number"]), head["rest"].strip()
        named = _PREDICATES["named_truth"].fullmatch(rest)
        if named is not None:
            if head is None and _name(named["form"]) in names:
                current = names.index(_name(named["form"])) + 1
            rest = named["rest"]
        elif (aside := _PREDICATES["aside"].match(rest)) is not None:
            rest = rest[aside.end() :]
        truth = _truth(_unmarked(rest.strip()), alone=not (head or named))
        if current and truth:
            yield current, truth
            current = 0  # a later line without a number is about the claim


def _truth(text: str, *, alone: bool) -> PredicateTruth | None:
    """The truth that a text opens with, unless it is taken back: "True, but only in part".

    ``alone``: without number and form, where a word for claims is the claim's.
    """
    truth = _PREDICATES["truth"].fullmatch(text)
    name = truth.lastgroup if truth else None
    if truth is None or name is None or _PREDICATES["hedge"].match(text, truth.end(name)):
        return None
    if alone and _PREDICATES["of_claims"].fullmatch(truth[name]):
        return None
    return cast("PredicateTruth", name)


def _name(text: str) -> str:
    """The form that a predicate opens with, for comparison."""
    opened = _PREDICATES["starts"].fullmatch(text)
    return "".join((opened["form"] if opened else text).split()).casefold()


def _conjoined_truths(lines: Sequence[str], count: int) -> list[PredicateTruth | None]:
    """The values of the conjunction's line, in order; none where there are more or fewer."""
    for line in map(one_line, lines):
        conjunction = _PREDICATES["conjunction"].match(line)
        if conjunction is not None:
            words = _PREDICATES["and"].split(conjunction["values"].strip().lower())
            read = [word for word in map(_PREDICATES["word"].fullmatch, words) if word]
            if len(read) == len(words) == count:
                return [cast("PredicateTruth", word.lastgroup) for word in read]
    return [None] * count
