"""FOLK's replies: predicates with their questions, and the truth of each.

A predicate is a line ``Form(things) | statement | question?``; statement and question may stand
behind a dash or on lines of their own. Lines are numbered, or else each opens with its form.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.replies.lines import lines_of, one_line, without_marks
from decomposerl.replies.lists import MOST_ITEMS, distinct

PredicateTruth = Literal["true", "false", "open"]

_FORM = r"[^\W\d]\w*\s?\([^()]*(?:\([^()]*\)[^()]*)*\)"
_MARK = r"(?:[-*•–]\s*|\(?[a-d][.)]\s+)"
_NUMBER = re.compile(
    r"(?:[-*•]\s+)?(?:(?:predicate|p)\s?#?(?P<named>\d{1,2})\s*(?:[.):–—-]\s*|(?=\()|\Z)"
    r"|\(?(?P<plain>\d{1,2})[.):](?!\d)\s*)(?P<text>.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:predicate|form)\s?:\s*", re.IGNORECASE)
_LABEL = re.compile(
    rf"{_MARK}?(?P<label>statement|gloss|meaning|sentence|says|(?:what\sit|it)\s(?:says|means)"
    r"|question|predicate|form|q)\s?:\s*(?P<text>\S.*)",
    re.IGNORECASE,
)
_STARTS = re.compile(rf"(?:{_MARK})?(?:{_NAMED.pattern})?`?({_FORM})`?\s*(.*)", re.IGNORECASE)
_CONJOINED = re.compile(
    rf"`?{_FORM}`?(?:\s*(?:∧|&&?|\^|\band\b|,|;)\s*`?{_FORM}`?)+\W*", re.IGNORECASE
)
_SEPARATOR = re.compile(r"\s*\|\s*|\s+(?:[–—-]|→|//)\s+")
_QUESTION_END = re.compile(r"(.*[.!])\s+([^.!?]+\?)")
_RULE = re.compile(r"[\s|:-]+")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as written, with its statement, and the question that grounds it."""

    text: str
    question: str


def read_predicates(text: str) -> tuple[Predicate, ...] | None:
    """The first ``MOST_ITEMS`` distinct predicates of a reply."""
    lines = [_table_row(line) for line in lines_of(text) if not _RULE.fullmatch(line)]
    items = _items([line for whole in lines for line in _split(whole)])
    return tuple(map(_predicate, distinct(items)[:MOST_ITEMS])) or None


def read_truths(text: str, predicates: Sequence[str]) -> list[PredicateTruth | None]:
    """The truth of each predicate by its number or its form; one with two of them has none.

    Where no predicate has one, the values of the conjunction, if there are as many, are those.
    """
    truths: dict[int, set[PredicateTruth]] = {}
    lines = lines_of(text)
    for number, truth in _numbered_truths(lines, predicates):
        truths.setdefault(number, set()).add(truth)
    found = [truths.get(number, set()) for number in range(1, len(predicates) + 1)]
    if not any(found):
        return _conjoined_truths(lines, len(predicates))
    return [next(iter(values)) if len(values) == 1 else None for values in found]


def _items(lines: Sequence[str]) -> list[str]:
    """The predicates' lines, each with the statement and question of the lines below it."""
    numbers = [number for line in lines if (number := _NUMBER.fullmatch(line))]
    counted = [int(number["named"] or number["plain"]) for number in numbers]
    is_numbered = bool(counted) and counted == list(range(1, len(counted) + 1))
    if counted and not is_numbered:
        return []
    items: list[str] = []
    for line in lines:
        number, label = _NUMBER.fullmatch(line), _LABEL.fullmatch(line)
        begins = number is not None if is_numbered else _STARTS.fullmatch(line) is not None
        if begins:
            items.append(_NAMED.sub("", number["text"] if number else _unmarked(line), count=1))
        elif items and not items[-1]:
            items[-1] = _NAMED.sub("", _unmarked(line), count=1)
        elif items and label is not None:
            items[-1] = f"{items[-1]} | {label['text']}"
        elif items and (re.match(_MARK, line) or line.endswith("?")):
            items[-1] = f"{items[-1]} | {_unmarked(line)}"
    return [item for item in items if item]


def _predicate(item: str) -> Predicate:
    parts = [part for part in map(without_marks, item.split("|")) if part]
    opened = _STARTS.fullmatch(parts[0])
    if len(parts) == 1 and opened is not None and opened[2]:
        rest = [part for part in _SEPARATOR.split(opened[2].lstrip(":–—-→ ")) if part]
        asked = _QUESTION_END.fullmatch(rest[-1]) if rest else None
        parts = [opened[1], *rest[:-1], *(asked.groups() if asked else rest[-1:])]
    *before, last = [
        re.sub(r"\A(?:statement|question|q)\s?:\s*", "", part, flags=re.IGNORECASE)
        for part in parts
    ]
    if last.endswith("?"):
        return Predicate(" | ".join(before) or last, last)
    return Predicate(" | ".join([*before, last]), f"Is it true that {last.rstrip('. ')}?")


def _unmarked(line: str) -> str:
    return re.sub(rf"\A{_MARK}", "", line)


def _split(line: str) -> list[str]:
    """The predicates of a conjunction on one line, each on its own."""
    return re.findall(_FORM, line) if _CONJOINED.fullmatch(line) else [line]


def _table_row(line: str) -> str:
    """A row of a table as a line of the asked form; any other line as it is."""
    if not (line.startswith("|") and line.endswith("|")):
        return line
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    number = f"{cells.pop(0)}. " if cells[0].rstrip(".").isdigit() else ""
    return number.replace("..", ".") + " | ".join(cells)


_WORDS: dict[str, PredicateTruth] = {
    **dict.fromkeys(("true", "holds", "supported", "borne out", "t"), "true"),
    **dict.fromkeys(("false", "not true", "refuted", "contradicted", "f"), "false"),
    **dict.fromkeys(("open", "unknown", "undetermined", "unclear", "not supported"), "open"),
}
_HEDGE = re.compile(r"\W*(?:but|only|partly|partially|mostly|in\spart|if|unless|except|to\ssome)\b")
_OF_CLAIMS = {"supported", "refuted", "contradicted", "not supported"}
_TRUTH_WORD = "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True))
_BEFORE_TRUTH = (
    r"(?:(?:verdict|truth(?:\svalue)?|value|result|status|decision|assessment|answer|conclusion)\s?"
    r"(?::|=|\sis\s)\s?)?(?:it\s)?(?:is\s|→\s?|=>?\s?|⇒\s?)?"
)
_TRUTH = re.compile(
    rf"[\s:=–—|,.-]*{_BEFORE_TRUTH}[\[(\"]?(?P<truth>{_TRUTH_WORD})[\])\"]?"
    r"(?:\s*[.,;:(–—|-].*|\s+(?:because|since|as|by)\b.*|\s*)",
    re.IGNORECASE,
)
_NAMED_TRUTH = re.compile(rf"(?:{_MARK})?`?(?P<form>{_FORM})`?(?P<rest>.*)", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\s*[,;]\s*(?=(?:predicate\s?|p)?\d{1,2}\s?[:=]\s?(?:true|false|open))", re.IGNORECASE
)
_CONJUNCTION = re.compile(
    r"(?:the\s)?conjunction\s?(?::|=|\sis)\s*(?P<values>[^=.\[]*)", re.IGNORECASE
)
_HEAD = re.compile(
    r"(?:[-*•]\s+)?(?:(?:predicate|p)\s?#?)?\(?(?P<number>\d{1,2})(?:[.):](?!\d)|\s(?==|is\b|\(|[–—-]\s)|(?==))"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)


def _numbered_truths(
    lines: Sequence[str], predicates: Sequence[str]
) -> Iterator[tuple[int, PredicateTruth]]:
    """The truths of a reply with the numbers of their predicates, in order."""
    names = [_name(text) for text in predicates]
    current = 0
    for line in (part for whole in lines for part in _SEVERAL.split(whole)):
        head, rest = _HEAD.fullmatch(line), line
        if head is not None:
            current, rest = int(head["number"]), head["rest"].strip()
        named = _NAMED_TRUTH.fullmatch(rest)
        if named is not None:
            if head is None and _name(named["form"]) in names:
                current = names.index(_name(named["form"])) + 1
            rest = named["rest"]
        elif (bracketed := re.match(rf"\((?:{_FORM}|[^()]*)\)", rest)) is not None:
            rest = rest[bracketed.end() :]
        truth = _TRUTH.fullmatch(re.sub(rf"\A{_MARK}", "", rest.strip()))
        word = truth["truth"].lower() if truth and not _hedged(truth) else ""
        if current and word and (head or named or word not in _OF_CLAIMS):
            yield current, _WORDS[word]
            current = 0  # a later line without a number is about the claim


def _hedged(truth: re.Match[str]) -> bool:
    """Whether the words behind a truth take it back: "True, but only in part"."""
    return _HEDGE.match(truth.string, truth.end("truth")) is not None


def _name(text: str) -> str:
    """The form that a predicate opens with, for comparison."""
    opened = _STARTS.fullmatch(text)
    return "".join((opened[1] if opened else text).split()).casefold()


def _conjoined_truths(lines: Sequence[str], count: int) -> list[PredicateTruth | None]:
    """The values of the conjunction's line, in order; none where there are more or fewer."""
    for line in map(one_line, lines):
        conjunction = _CONJUNCTION.match(line)
        if conjunction is not None:
            words = re.split(r"\s*(?:∧|&&?|\band\b|,)\s*", conjunction["values"].strip().lower())
            if len(words) == count and all(word in _WORDS for word in words):
                return [_WORDS[word] for word in words]
    return [None] * count
