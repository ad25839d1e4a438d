"""Facts as text: evidence pages, statements about them, and false statements.

A ``Scene`` has the pages for one claim, about its subjects and bystanders. ``wording`` 0 and 1 word
the same facts differently.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sample.world import (
    LINKED_KINDS,
    NAME_SLOTS,
    NUMBER,
    Entity,
    World,
    WorldFact,
    bank_of,
    capital,
)

_INDEFINITE = {"person": "a person who", "city": "a town that", "company": "a company that"}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of evidence: its title and its sentences."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """The entities behind one claim: ``main``, one that ``main`` names, one rival, others."""

    main: Entity
    bridge: WorldFact
    linked: Entity
    rival: Entity
    others: tuple[Entity, ...]

    def entities(self) -> tuple[Entity, ...]:
        """All of them, a claim's subjects first."""
        return (self.main, self.linked, self.rival, *self.others)

    def pages(self) -> tuple[Page, ...]:
        """One page per entity, with every fact once."""
        return tuple(
            Page(entity.name, tuple(fact.sentence() for fact in entity.facts))
            for entity in self.entities()
        )


@dataclass(frozen=True, slots=True)
class ClaimDraft:
    """A claim before wording: its form and the facts it states, in order."""

    form: str
    scene: Scene
    facts: tuple[WorldFact, ...]

    def text(self, wording: int) -> str:
        """The claim, worded in one of two ways."""
        return capital(FORMS[self.form][wording % 2](self.scene, self.facts, wording))


def words(pages: Iterable[Page]) -> int:
    """White-space words of all sentences."""
    return sum(len(sentence.split()) for page in pages for sentence in page.sentences)


def core(world: World, kinds: Sequence[str]) -> Scene:
    """A scene without bystanders; its main subject is of one of ``kinds``."""
    kind = world.rng.choice(kinds)
    main = world.entity(kind)
    bridge = world.rng.choice([fact for fact in main.facts if link_slot(fact)])
    slot = link_slot(bridge) or ""
    linked = world.entity(bank_of(slot), bridge.values[slot])
    return Scene(main, bridge, linked, world.entity(kind), ())


def padded(world: World, scene: Scene, kinds: Sequence[str], least_words: int) -> Scene:
    """The scene with bystanders until its pages hold ``least_words``."""
    held = words(scene.pages())
    others = []
    while held < least_words:
        other = world.entity(world.rng.choice(kinds))
        held += sum(len(fact.sentence().split()) for fact in other.facts)
        others.append(other)
    return replace(scene, others=(*scene.others, *others))


def link_slot(fact: WorldFact) -> str | None:
    """The slot at the end of both predicates that names an entity with its own facts."""
    for slot in fact.values:
        ending = "{" + slot + "}"
        if bank_of(slot) in LINKED_KINDS and fact.relation.preds[0].endswith(ending):
            return slot
    return None


def state(world: World, scene: Scene, form: str) -> ClaimDraft:
    """A true statement of the given form about a scene."""
    first, second = world.rng.sample([f for f in scene.main.facts if f != scene.bridge], 2)
    linked = world.rng.choice(scene.linked.facts)
    others = [fact for fact in scene.rival.facts if fact.relation != first.relation]
    rival = world.rng.choice(others)
    facts = {
        "both": (first, second),
        "aside": (first, scene.bridge),
        "link": (scene.bridge, linked),
        "hidden": (scene.bridge, linked),
        "contrast": (first, rival),
        "unlike": (first, second),
        "nameless": (first, second),
        "single": (first,),
    }
    return ClaimDraft(form, scene, facts[form])


def spoil(world: World, statement: ClaimDraft, wording: int) -> ClaimDraft:
    """The statement with one value replaced, so that the evidence contradicts it.

    The new value comes from the same scene if possible, so that the evidence contains it, but
    about something else.
    """
    if statement.form == "unlike":
        swapped = replace(statement.scene, main=statement.scene.rival, rival=statement.scene.main)
        return replace(statement, scene=swapped)
    index = world.rng.randrange(len(statement.facts))
    fact = statement.facts[index]
    named = link_slot(fact) if statement.form == "hidden" else None
    slots = [slot for slot in fact.slots(wording) if slot in fact.slots(wording + 1)]
    slots = [slot for slot in slots if slot != named] or fact.slots(wording)
    # A wrong number is easy to spot; a wrong name or thing must be looked up.
    slots = [slot for slot in slots if not NUMBER.match(slot)] or slots
    slot = world.rng.choice(slots)
    wrong = fact.with_value(slot, _other(world, statement.scene, slot, fact.values[slot]))
    facts = (*statement.facts[:index], wrong, *statement.facts[index + 1 :])
    return replace(statement, facts=facts)


def _other(world: World, scene: Scene, slot: str, value: str) -> str:
    bank = bank_of(slot)
    seen = {
        held
        for entity in scene.entities()
        for fact in entity.facts
        for name, held in fact.values.items()
        if bank_of(name) == bank and held != value
    }
    if bank == "city":
        seen -= {scene.linked.name}
    options = sorted(seen)
    if options:
        return world.rng.choice(options)
    while (drawn := world.value(slot)) == value:
        pass
    return drawn


def generic(statement: ClaimDraft, wording: int) -> str:
    """The statement with indefinite nouns instead of names."""
    plain = {
        "person": "a newcomer",
        "city": "a nearby town",
        "river": "main river",
        "country": "a foreign land",
        "company": "a local firm",
        "university": "a college",
        "newspaper": "a daily paper",
        "drug": "a new medicine",
        "gene": "a related gene",
        "trial": "a small study",
        "new": "a stranger",
    }
    fact = statement.facts[0]
    for slot in fact.values:
        if bank_of(slot) in NAME_SLOTS:
            fact = fact.with_value(slot, plain[bank_of(slot)])
    noun = statement.scene.main.kind.noun.split(" ", 1)[1]
    return f"The {noun} {fact.pred(wording)}."


def _who(entity: Entity) -> str:
    return "who" if entity.kind.key in ("person", "senator") else "which"


def _both(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.main.name} {facts[0].pred(n)} and {facts[1].pred(n)}."


def _relative(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    who = _who(scene.main)
    return f"{scene.main.name}, {who} {facts[1].pred(n)}, {facts[0].pred(n)}."


def _link(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.main.name} {facts[0].pred(0)}, {_who(scene.linked)} {facts[1].pred(n)}."


def _link_first(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.linked.name} {facts[1].pred(n)}, and {scene.main.name} {facts[0].pred(n)}."


def _hidden(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    slot = link_slot(facts[0]) or ""
    veil = f"{_INDEFINITE[scene.linked.kind.key]} {facts[1].pred(n)}"
    return f"{scene.main.name} {facts[0].with_value(slot, veil).pred(0)}."


def _contrast(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.main.name} {facts[0].pred(n)}, while {scene.rival.name} {facts[1].pred(n)}."


def _contrast_turned(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.rival.name} {facts[1].pred(n)}, whereas {scene.main.name} {facts[0].pred(n)}."


def _joined(facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{facts[0].pred(n)} and {facts[1].pred(n)}"


def _unlike(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"It was {scene.main.name}, not {scene.rival.name}, that {_joined(facts, n)}."


def _unlike_turned(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"Unlike {scene.rival.name}, {scene.main.name} {_joined(facts, n)}."


def _nameless(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    noun = scene.main.kind.noun.split(" ", 1)[1]
    return f"The {noun} that {facts[0].pred(n)} also {facts[1].pred(n)}."


def _nameless_turned(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"There is {scene.main.kind.noun} that {facts[1].pred(n)} and {facts[0].pred(n)}."


def _single(scene: Scene, facts: tuple[WorldFact, ...], n: int) -> str:
    return f"{scene.main.name} {facts[0].pred(n)}."


_Form = Callable[[Scene, tuple[WorldFact, ...], int], str]
FORMS: dict[str, tuple[_Form, _Form]] = {
    "both": (_both, _relative),
    "aside": (_relative, _both),
    "link": (_link, _link_first),
    "hidden": (_hidden, _hidden),
    "contrast": (_contrast, _contrast_turned),
    "unlike": (_unlike, _unlike_turned),
    "nameless": (_nameless, _nameless_turned),
    "single": (_single, _single),
}
