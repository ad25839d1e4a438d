"""What a sentence states, in the terms the rule judge compares: names, numbers, plain words.

``read`` gives a frozen ``Statement``; ``shared`` and ``share`` say how much of one statement
another holds. A name or a number weighs two, a plain word one. Plain words also match within
a word family (write, author) and in longer forms (play, player).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.text.families import FAMILY
from decomposerl.text.names import Word, name_runs
from decomposerl.text.words import STOP_WORDS, WORD, parse, stem, word_set

LEAD = re.compile(
    r"^\W*(?:answer\W+)?(?:(?P<yes>yes|correct|true|indeed)|(?P<no>no|incorrect|false|wrong))"
    r"(?:\s*[,.:;!—–-]\s*|\s+(?=[A-Z])|\s*$)",
    re.IGNORECASE,
)
"""A yes or no that opens an answer."""
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ROOT, _LONGER = 4, 4
"""Letters that two forms of a plain word share at least, and that one has more at most."""
_NAME_WEIGHT = 2
FRAME_WORDS = frozenset(
    map(
        stem,
        word_set(
            "document text evidence passage article source page excerpt snippet table list lists "
            "listed state states stated say says said mention mentions mentioned give gives given "
            "show shows according confirm confirms confirmed explicitly clearly directly indicates "
            "specified claim question answer true false therefore thus currently provided based "
            "specifically describes described notes called actually instead fact same also"
        ),
    )
)
"""Stems that talk about the document, not about the world."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value: the word before it ("in" for any year), its kind (name, year, number), its stem."""

    before: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. ``names``, ``numbers`` and ``plain`` are stems and do not overlap.

    ``content`` holds all stems, ``values`` names and numbers.
    """

    text: str
    names: frozenset[str]
    numbers: frozenset[str]
    plain: frozenset[str]
    content: frozenset[str]
    values: frozenset[str]
    words: frozenset[str]
    slots: tuple[Slot, ...]
    negated: bool

    @property
    def topic(self) -> frozenset[str]:
        """Its stems without plain words that talk about the document."""
        return self.content - (FRAME_WORDS & self.plain)


@lru_cache(maxsize=50_000)
def read(sentence: str) -> Statement:
    """Take one sentence apart."""
    parsed = parse(sentence)
    tokens = WORD.findall(sentence)
    names = parsed.names | _opening_names(tokens)
    return Statement(
        text=sentence,
        names=names,
        numbers=parsed.numbers,
        plain=parsed.content - names - parsed.numbers,
        content=parsed.content | names,
        values=names | parsed.numbers,
        words=parsed.words,
        slots=tuple(_slots(tokens, names)),
        negated=parsed.negated,
    )


def weight(stems: Iterable[str], of: Statement) -> int:
    """Names and numbers of ``of`` count twice."""
    values = of.values
    return sum(_NAME_WEIGHT if root in values else 1 for root in stems)


def shared(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> frozenset[str]:
    """The ``wanted`` stems of ``of`` that ``by`` holds; values exactly, plain words loosely."""
    found = wanted & by
    loose = (wanted - found) & of.plain
    if not loose:
        return found
    families, starts = _index(by)
    return found | {
        root
        for root in loose
        if FAMILY.get(root) in families
        or root in starts
        or any(root[:end] in by for end in _shorter(root))
    }


def share(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> float:
    """Weight of the ``wanted`` stems of ``of`` that ``by`` holds, 0..1; 1 where none is."""
    if not wanted:
        return 1.0
    return weight(shared(wanted, of, by), of) / weight(wanted, of)


@lru_cache(maxsize=4096)
def _index(by: frozenset[str]) -> tuple[frozenset[int], frozenset[str]]:
    """The families of ``by``, and the shorter forms of its stems."""
    families = frozenset(FAMILY[root] for root in by if root in FAMILY)
    return families, frozenset(one[:end] for one in by for end in _shorter(one))


def _shorter(root: str) -> range:
    """Lengths of the forms of ``root`` that are not longer than it."""
    return range(max(_ROOT, len(root) - _LONGER), len(root) + 1)


def _opening_names(tokens: list[str]) -> frozenset[str]:
    """The stems of a name that opens the sentence, where a capital alone proves nothing."""
    opening = [Word(token, space=True) for token in tokens[:4]]
    run = next(iter(name_runs(opening)), None) if opening else None
    if run is None or run[0] > 0:
        return frozenset()
    lower = [token.lower() for token in tokens[: run[1]]]
    return frozenset(
        stem(token) for token in lower if token not in STOP_WORDS and not stem(token)[0].isdigit()
    )


def _slots(tokens: list[str], names: frozenset[str]) -> Iterable[Slot]:
    """Each number, and the last word of each run of name words, with its neighbours."""
    lower = [token.lower() for token in tokens]
    stems = [stem(low) if low not in STOP_WORDS else "" for low in lower]
    start = 0
    for at, root in enumerate(stems):
        is_name = root in names and root != ""
        if at and not (is_name and stems[at - 1] in names):
            start = at
        if root and root[0].isdigit():
            year = _YEAR.fullmatch(root)
            yield Slot("in", "year", root) if year else Slot(_before(lower, at), "number", root)
        elif is_name and (at + 1 == len(stems) or stems[at + 1] not in names):
            yield Slot(_before(lower, start), "name", root)


def _before(lower: list[str], at: int) -> str:
    """The word before a value, articles passed over; empty at the start."""
    index = at - 1
    while index >= 0 and lower[index] in {"the", "a", "an", "its", "his", "her", "their"}:
        index -= 1
    return lower[index] if index >= 0 else ""
