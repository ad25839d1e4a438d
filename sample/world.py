"""The invented world: kinds of things, their relations, and names for them.

Takes a seeded random generator, gives entities with facts. A fact has the evidence sentence that
states it and claim predicates that paraphrase it. The same seed gives the same world.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from sample import relations_people, relations_places, relations_science
from sample.banks import BANKS, listed

_ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO])")
NUMBER = re.compile(r"n\d|year")
SLOT = re.compile(r"\{(\w+)\}")
NAME_SLOTS = frozenset(
    listed("person city river country company university newspaper drug gene trial new")
)
_SHAPES = {
    "person": "{first} {stem}",
    "river": "{stem} River",
    "university": "University of {stem}",
}
_FOLLOWED = {"company": "firm", "newspaper": "paper"}
_CROWDED = 8
_YEARS = (1861, 2019)
LINKED_KINDS = ("person", "city", "company")

_ONSET = listed(
    "b br c d dr f fl g gr h j k kl l m n p pr qu r s sk st t tr v w y z th sh ch bl kn"
)
_VOWEL = listed("a e i o u a e o ai au ea ie oa ou ei")
_CODA = listed("n r l s m rn lt nd rk st x th ck sk lm v nt ss rg d")
_START = tuple(onset.capitalize() for onset in _ONSET)
_RHYME = tuple(vowel + coda for vowel in _VOWEL for coda in _CODA)
_END = {
    "city": listed("ford bury stad ville mora wick holm ton beck polis ra una"),
    "country": listed("land ia stan onia mark avia esia ador"),
    "first": listed("a o in el us ie an ette is or een yn"),
    "drug": listed("mab statin zol pril arin oxane tinib vir cept dipine"),
    "genus": ["ella", "bacter", "coccus", "monas", "vibrio"],
    "species": ["ensis", "ii", "icola", "ata", "osum"],
}
_WORDS = {
    "firm": "Foundry,Brothers,Works,Group,Holdings,Trading,Labs,Industries,Mills,Partners",
    "mascot": "Rovers,United,Athletic,Wanderers,Comets,Lions,Harriers,Giants",
    "paper": "Gazette,Herald,Courier,Observer,Chronicle,Dispatch,Mirror",
    "adjn": "Silent House,Last Orchard,Second Moon,Broken Oar,Long Winter,Paper Crown,Salt Road,"
    "Empty Chair,Green Lantern,Hollow Hill,Iron Spring,Glass Stair,Ninth Guest,Blue Door",
}


@dataclass(frozen=True, slots=True)
class Relation:
    """A template: an evidence sentence and predicates that paraphrase it."""

    key: str
    says: str
    preds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing: its name pattern, its noun with article, its relations."""

    key: str
    pattern: str
    noun: str
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class WorldFact:
    """A relation of one subject with filled slots."""

    relation: Relation
    subject: str
    values: Mapping[str, str]

    def sentence(self) -> str:
        """The evidence sentence that states the fact."""
        return capital(self._fill(self.relation.says))

    def pred(self, wording: int) -> str:
        """A claim predicate of the fact, to follow its subject."""
        return self._fill(self.relation.preds[wording % len(self.relation.preds)])

    def slots(self, wording: int) -> list[str]:
        """Slots that the predicate states, in order of appearance."""
        return SLOT.findall(self.relation.preds[wording % len(self.relation.preds)])

    def with_value(self, slot: str, value: str) -> "WorldFact":
        """The same fact with another value in one slot."""
        return replace(self, values={**self.values, slot: value})

    def _fill(self, template: str) -> str:
        filled = template.format(s=self.subject, **self.values)
        return _ARTICLE.sub(r"\1n ", filled)


@dataclass(frozen=True, slots=True)
class Entity:
    """One invented thing and its facts."""

    kind: Kind
    name: str
    facts: tuple[WorldFact, ...]


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


@cache
def bank_of(slot: str) -> str:
    """The bank or name maker behind a slot: ``city2`` draws from ``city``."""
    return slot if slot in BANKS or re.match(r"n\d", slot) else slot.rstrip("0123456789")


@cache
def kinds() -> dict[str, Kind]:
    """Every kind of thing, by key."""
    found = {}
    for text in (relations_places.TEXT, relations_people.TEXT, relations_science.TEXT):
        for block in text.strip().split("\n# "):
            kind = _kind(block.removeprefix("# "))
            found[kind.key] = kind
    return found


def _kind(block: str) -> Kind:
    head, *lines = block.strip().splitlines()
    key, pattern, noun = (part.strip() for part in head.split("|"))
    relations: list[Relation] = []
    for line in lines:
        if line.startswith("="):
            last = relations[-1]
            relations[-1] = replace(last, preds=(*last.preds, line.removeprefix("=").strip()))
        elif line.strip():
            relations.append(Relation(f"{key}.{len(relations)}", line.strip(), ()))
    return Kind(key, pattern, noun, tuple(relations))


@cache
def number_bounds(bank: str) -> tuple[int, int] | None:
    """The range of a number slot (``n3_40``, ``year``); None for other slots."""
    match = re.fullmatch(r"n(\d+)_(\d+)", bank)
    if match:
        return int(match[1]), int(match[2])
    return _YEARS if bank == "year" else None


@cache
def slots_of(relation: Relation) -> tuple[str, ...]:
    """Every slot of a relation's sentence and predicates, in order of appearance."""
    found = SLOT.findall(" ".join((relation.says, *relation.preds)))
    return tuple(dict.fromkeys(slot for slot in found if slot != "s"))


@cache
def _templates(kind: str) -> tuple[tuple[Relation, tuple[str, ...]], ...]:
    """The relations of a kind, each with its slots."""
    return tuple((relation, slots_of(relation)) for relation in kinds()[kind].relations)


@cache
def _drawn_from(slot: str) -> tuple[str, range, tuple[str, ...]]:
    """The bank of a slot, and its numbers or its words; neither where names are made."""
    bank = bank_of(slot)
    first, last = number_bounds(bank) or (0, -1)
    invented = tuple(_WORDS[bank].split(",")) if bank in _WORDS else ()
    return bank, range(first, last + 1), BANKS.get(bank, invented)


@dataclass(slots=True)
class World:
    """Draws names and values, never the same name twice."""

    rng: random.Random
    used: set[str] = field(default_factory=set)
    decks: dict[str, list[str]] = field(default_factory=dict)
    extra: int = 0
    fresh: list[str] = field(default_factory=list)

    def entity(self, kind: str, name: str | None = None) -> Entity:
        """A new thing of a kind with one fact for each of the kind's relations."""
        this = kinds()[kind]
        called = name or self._named(this.pattern)
        value = self.value
        facts = [
            WorldFact(relation, called, {slot: value(slot) for slot in slots})
            for relation, slots in _templates(kind)
        ]
        return Entity(this, called, tuple(facts))

    def keep_names(self) -> None:
        """Keep all names drawn so far when ``release_names`` is called."""
        self.fresh.clear()

    def release_names(self) -> None:
        """Free the names drawn since ``keep_names``, as their things were discarded."""
        self.used.difference_update(self.fresh)
        self.fresh.clear()

    def value(self, slot: str) -> str:
        """A value for a slot: a new name, a number in range, or the next word of a bank."""
        bank, numbers, words = _drawn_from(slot)
        if numbers:
            return str(self.rng.choice(numbers))  # as randint() draws, in half the time
        return self._dealt(bank, words) if words else self._name(bank)

    def _named(self, pattern: str) -> str:
        return SLOT.sub(lambda match: self.value(match[1]), pattern)

    def _dealt(self, bank: str, words: tuple[str, ...]) -> str:
        deck = self.decks.get(bank)
        if not deck:
            deck = self.decks[bank] = self.rng.sample(words, len(words))
        return deck.pop()

    def _name(self, bank: str) -> str:
        tries = 0
        while (name := self._made(bank)) in self.used:
            tries += 1
            self.extra = tries // _CROWDED  # more syllables once short names run out
        self.extra = 0
        self.used.add(name)
        self.fresh.append(name)
        return name

    def _made(self, bank: str) -> str:
        if bank == "trial":
            return f"{self._stem().upper()}-{self.rng.randint(2, 9)}"
        if bank == "gene":
            return f"{self._letters(3)}{self.rng.randint(2, 98)}"
        if bank in _END:
            name = self._stem(bank)
            return name.lower() if bank == "species" else name
        if bank in _FOLLOWED:
            return f"{self._stem()} {self.value(_FOLLOWED[bank])}"
        return _SHAPES.get(bank, "{stem}").format(stem=self._stem(), first=self._stem("first"))

    def _stem(self, end: str | None = None) -> str:
        random = self.rng.random  # choice() would double the sample's run time
        stem = _START[int(random() * len(_START))]
        stem += _RHYME[int(random() * len(_RHYME))]
        for _ in range(self.extra + (end is None)):
            stem += _RHYME[int(random() * len(_RHYME))]
        if end:
            endings = _END[end]
            stem += endings[int(random() * len(endings))]
        return stem

    def _letters(self, count: int) -> str:
        return "".join(self.rng.choice("ABCDFGKLMNPRSTVXZ") for _ in range(count))
