"""What a sentence states, in the terms the rule judge compares: names, numbers, plain words.

Before that, untrusted text loses markup, tags and words that are addressed to a judge (orders,
forged replies, role marks): a ruling on the rest is the ruling on the clean text.

``read`` gives a frozen ``Statement``; ``shared`` and ``share`` say how much of one statement
another holds. A name or a number weighs two, a plain word one. Plain words also match within
a word family (write, author) and in longer forms (play, player).
"""

import html
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from decomposerl.normal_form import normalised
from decomposerl.text.families import FAMILY
from decomposerl.text.names import Word, name_runs
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS, WORD, parse, stem, word_set

_DATA: dict[str, str] = tomllib.loads(
    files(__package__).joinpath("rule_words.toml").read_text("utf-8")
)


def pattern(name: str) -> re.Pattern[str]:
    """A regular expression of ``rule_words.toml``."""
    return re.compile(_DATA[name], re.IGNORECASE | re.VERBOSE)


_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_MARKS = re.compile(
    r"[¹²³⁰-⁹]+|\[\s*\d+(?:\s*[,;–-]\s*\d+)*\s*\]|\(?\bQ\s?\d+\b\)?|[*`#]+|(?<!\w)_+|_+(?!\w)"
)
_OUR_TAGS = "".join(_DATA["tags"].split())
_FORGED = re.compile(
    rf"<\s*(?P<tag>{_OUR_TAGS})\s*>[^<>]{{0,60}}</\s*(?P=tag)\s*>"
    rf"|<\s*/?\s*(?:{_OUR_TAGS})\b[^<>]{{0,80}}>"
    r"|<\|[^<>|]{0,40}\|>|<!--.{0,200}?-->|\[/?(?:INST|SYS)\]|<</?SYS>>",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z][^<>]{0,80}>", re.IGNORECASE)
_ORDER = pattern("orders")
_FEW = 3
"""Words before an order that say nothing by themselves, at most."""
LEAD = re.compile(
    r"^\W*(?:answer\W+)?(?:(?P<yes>yes|correct|true|indeed)|(?P<no>no|incorrect|false|wrong))"
    r"(?:\s*[,.:;!—–-]\s*|\s+(?=[A-Z])|\s*$)",
    re.IGNORECASE,
)
"""A yes or no that opens an answer."""
FRAME_WORDS = frozenset(map(stem, word_set(_DATA["frame"])))
"""Stems that talk about the document, not about the world."""
_RUNNING = re.compile(r"\w+")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ROOT, _LONGER = 4, 4
"""Letters that two forms of a plain word share at least, and that one has more at most."""
_NAME_WEIGHT = 2
_ARTICLES = {"the", "a", "an", "its", "his", "her", "their"}
_CANDIDATES = 8
"""Sentences with most words in common that are also compared loosely."""


class CleanText(NamedTuple):
    """The sentences that are left, also in one line; ``orders``: words to a judge are gone."""

    sentences: tuple[str, ...]
    text: str
    orders: bool


@lru_cache(maxsize=4096)
def clean(text: str) -> CleanText:
    """Take ``text`` apart; forged tags and orders go."""
    # Entities may be escaped twice.
    text = html.unescape(html.unescape(text)) if "&" in text else text
    plain = normalised("NFKC", _MARKS.sub(" ", _INVISIBLE.sub("", text)))
    bare = _FORGED.sub("\n", plain)
    kept: list[str] = []
    orders = bare != plain
    for sentence in split_sentences(_TAG.sub(" ", bare)):
        order = _ORDER.search(sentence)
        if order is not None:
            orders, sentence = True, _before_order(sentence, order.start())  # noqa: PLW2901
        rest = " ".join(sentence.split())
        if any(map(str.isalnum, rest)):
            kept.append(rest)
    return CleanText(tuple(kept), " ".join(kept), orders)


def _before_order(sentence: str, index: int) -> str:
    """What stands before an order, unless it only leads up to it ("unless you ...")."""
    words = sentence[:index].split()
    leads_up = len(words) <= _FEW or words[-1].lower().strip(",;:") in STOP_WORDS
    return "" if leads_up else sentence[:index]


class Slot(NamedTuple):
    """A value: the word before it ("in" for any year), its kind (name, year, number), its stem."""

    before: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One sentence. ``names``, ``numbers`` and ``plain`` are stems and do not overlap.

    ``content`` holds all stems, ``values`` names and numbers, ``topic`` all but the plain words
    that talk about the document.
    """

    text: str
    names: frozenset[str]
    numbers: frozenset[str]
    plain: frozenset[str]
    content: frozenset[str]
    values: frozenset[str]
    topic: frozenset[str]
    words: frozenset[str]
    slots: tuple[Slot, ...]
    negated: bool


@lru_cache(maxsize=50_000)
def read(sentence: str) -> Statement:
    """Take one sentence apart."""
    parsed = parse(sentence)
    tokens = WORD.findall(sentence)
    names = parsed.names | _opening_names(tokens)
    content, values = parsed.content | names, names | parsed.numbers
    plain = parsed.content - values
    slots = tuple(_slots(tokens, names))
    return Statement(
        *(sentence, names, parsed.numbers, plain, content, values, content - (FRAME_WORDS & plain)),
        *(parsed.words, slots, parsed.negated),
    )


def weight(stems: Iterable[str], of: Statement) -> int:
    """Names and numbers of ``of`` count twice."""
    return sum(_NAME_WEIGHT if root in of.values else 1 for root in stems)


def shared(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> frozenset[str]:
    """The ``wanted`` stems of ``of`` that ``by`` holds; values exactly, plain words loosely."""
    held = wanted & by
    loose = (wanted - held) & of.plain
    if not loose:
        return held
    families, starts = _index(by)
    return held | {
        root
        for root in loose
        if FAMILY.get(root) in families
        or root in starts
        or any(root[:end] in by for end in _shorter(root))
    }


def share(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> float:
    """Weight of the ``wanted`` stems of ``of`` that ``by`` holds, 0..1; 1 where none is."""
    return weight(shared(wanted, of, by), of) / weight(wanted, of) if wanted else 1.0


@lru_cache(maxsize=4096)
def _index(by: frozenset[str]) -> tuple[frozenset[int], frozenset[str]]:
    """The families of ``by``, and the shorter forms of its stems."""
    families = frozenset(FAMILY[root] for root in by if root in FAMILY)
    return families, frozenset(root[:end] for root in by for end in _shorter(root))


def _shorter(root: str) -> range:
    """Lengths of the forms of ``root`` that are not longer than it."""
    return range(max(_ROOT, len(root) - _LONGER), len(root) + 1)


def _opening_names(tokens: list[str]) -> frozenset[str]:
    """The stems of a name that opens the sentence, where a capital alone proves nothing."""
    opening = [Word(token, space=True) for token in tokens[:4]]
    run = next(iter(name_runs(opening)), None) if opening else None
    if run is None or run[0] > 0:
        return frozenset()
    lower = (token.lower() for token in tokens[: run[1]])
    roots = (stem(token) for token in lower if token not in STOP_WORDS)
    return frozenset(root for root in roots if not root[0].isdigit())


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
    return next((word for word in reversed(lower[:at]) if word not in _ARTICLES), "")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A document's statements in order, all their stems, and its words as one text.

    ``holders``: for each stem the numbers of the statements that hold it, in order.
    """

    sentences: tuple[Statement, ...]
    holders: Mapping[str, Sequence[int]]
    everything: frozenset[str]
    running: str

    def window(self, wanted: frozenset[str], of: Statement, most: int) -> list[Statement]:
        """At most ``most`` sentences that together hold most of ``wanted``, best first."""
        chosen: list[Statement] = []
        rest = wanted
        while rest and len(chosen) < most:
            holding = {at for root in rest for at in self.holders.get(root, ())}
            exact = [self.sentences[at] for at in sorted(holding)]
            near = sorted(exact, key=lambda each: -weight(rest & each.content, of))[:_CANDIDATES]
            if not near:
                break
            scored = [(shared(rest, of, each.content), each) for each in near]
            held, best = max(scored, key=lambda pair: (weight(pair[0], of), -len(pair[1].content)))
            chosen.append(best)
            rest -= held
        return chosen


@lru_cache(maxsize=64)
def read_document(text: str) -> Document:
    """Take a document apart; calls about one document come together."""
    cleaned = clean(text)
    sentences = tuple(map(read, cleaned.sentences))
    holders: dict[str, list[int]] = {}
    for at, sentence in enumerate(sentences):
        for root in sentence.content:
            holders.setdefault(root, []).append(at)
    return Document(sentences, holders, frozenset(holders), running(cleaned.text))


def running(text: str) -> str:
    """The words in order, lower-case, a space around each."""
    return f" {' '.join(_RUNNING.findall(text.lower()))} "
