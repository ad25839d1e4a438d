"""What a sentence states, in the terms the rule judge compares: names, numbers, plain words.

``read`` gives a frozen ``Statement``; ``shared`` and ``share`` say how much of one statement
another holds. A name or a number weighs two, a plain word one. Plain words also match within
a word family (write, author) and in longer forms (play, player).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from decomposerl.text.families import FAMILY
from decomposerl.text.names import Word, name_runs
from decomposerl.text.words import MONTHS, STOP_WORDS, WORD, parse, stem, word_set

LEAD = re.compile(
    r"^\W*(?:answer\W+)?(?:(?P<yes>yes|correct|true|indeed)|(?P<no>no|incorrect|false|wrong))"
    r"(?:\s*[,.:;!—–-]\s*|\s+(?=[A-Z])|\s*$)",
    re.IGNORECASE,
)
"""A yes or no that opens an answer."""
_ABSENT = re.compile(
    r"\b(?:not|never|no|nowhere|without|n['’]t)\b[^.;]{0,40}?\b(?:mention|list|stat|say|said|specif"
    r"|includ|contain|describ|found in|given in|record|appear|refer|indicat|part of)\w*",
    re.IGNORECASE,
)
_YEAR = re.compile(r"1\d{3}|20\d{2}")
PLACING = word_set("in of by for with on from at to near as against under")
"""Words that tell where a value stands: two values after the same one answer one question."""
DATING = frozenset({"in", "of", "on", "during", *MONTHS})
"""The same of years."""
_ROOT, _LONGER = 4, 4
"""Letters that two forms of a plain word share at least, and that one has more at most."""
_MANY = 200
"""Stems from which on longer and shorter forms are looked up, not compared one by one."""
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
    """A value with its place: the function word before it, its kind, the stem after it.

    ``kind`` is name, year or number; ``value`` a stem.
    """

    before: str
    kind: str
    value: str
    after: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. ``names``, ``numbers`` and ``plain`` are stems and do not overlap.

    ``content`` holds all stems, ``values`` names and numbers. ``absent`` says that something
    is not mentioned, listed or said.
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
    absent: bool
    doubts: bool

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
        absent=_ABSENT.search(sentence) is not None,
        doubts=parsed.doubts,
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
    families, alike = _looser(by)
    return found | {root for root in loose if FAMILY.get(root) in families or alike(root)}


def share(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> float:
    """Weight of the ``wanted`` stems of ``of`` that ``by`` holds, 0..1; 1 where none is."""
    if not wanted:
        return 1.0
    return weight(shared(wanted, of, by), of) / weight(wanted, of)


def _looser(by: frozenset[str]) -> tuple[frozenset[int], Callable[[str], bool]]:
    """The families of ``by``, and the test whether it holds another form of a stem."""
    if len(by) > _MANY:
        return _index(by)
    return _families(by), partial(_alike, by=by)


@lru_cache(maxsize=16)
def _index(by: frozenset[str]) -> tuple[frozenset[int], Callable[[str], bool]]:
    """The same for the many stems of a document, which many parts are held against."""
    starts = frozenset(one[:end] for one in by for end in _shorter(one))

    def alike(root: str) -> bool:
        return root in starts or any(root[:end] in by for end in _shorter(root))

    return _families(by), alike


def _families(by: frozenset[str]) -> frozenset[int]:
    return frozenset(FAMILY[root] for root in by if root in FAMILY)


def _shorter(root: str) -> range:
    """Lengths of the forms of ``root`` that are not longer than it."""
    return range(max(_ROOT, len(root) - _LONGER), len(root) + 1)


def _alike(root: str, by: frozenset[str]) -> bool:
    """Whether one of ``by`` is a longer or shorter form of ``root``."""
    if len(root) < _ROOT:
        return False
    return any(
        len(other) >= _ROOT
        and abs(len(other) - len(root)) <= _LONGER
        and (other.startswith(root) or root.startswith(other))
        for other in by
    )


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
        after = stems[at + 1] if at + 1 < len(stems) else ""
        if root and root[0].isdigit():
            kind = "year" if _YEAR.fullmatch(root) else "number"
            yield Slot(_before(lower, at), kind, root, after)
        elif is_name and after not in names:
            yield Slot(_before(lower, start), "name", root, after)


def _before(lower: list[str], at: int) -> str:
    """The word before a value, articles passed over; empty at the start."""
    index = at - 1
    while index >= 0 and lower[index] in {"the", "a", "an", "its", "his", "her", "their"}:
        index -= 1
    return lower[index] if index >= 0 else ""
