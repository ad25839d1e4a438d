"""Claims for the planted traces: invented, with all they state known fact by fact.

Takes a world, gives ``TraceClaim`` values: a claim, its evidence, its label, and for each
sub-claim the fact that the evidence states, the fact that the claim states, and a value that
stands nowhere in the evidence.

Left out deliberately: links over two hops, claims on tables, and the native files of a corpus:
these claims carry traces, the funnel has its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.traces.trace import Verdict
from sample.banks import BANKS, listed
from sample.prose import Scene, core
from sample.world import NAME_SLOTS, SLOT, Entity, World, WorldFact, bank_of, capital

KINDS = listed(
    "bridge museum university company team lake festival railway garden tower mine newspaper "
    "person city ship senator law agency breed mountain drug gene hospital supplement device"
)
"""Kinds of things whose names hold no quotation mark and no other thing's name."""
FORMS = ("pair", "triple", "contrast")
_STATED = {"pair": 2, "triple": 3, "contrast": 1}
"""Facts that a form states of the claim's own subject."""
_TWO_THINGS = re.compile(r",|\b(?:and|or|but|while|when|which|who|that|where)\b")
_DENIES = re.compile(r"\b(?:not?|nothing|without|fail(?:s|ed)?)\b")


@dataclass(frozen=True, slots=True)
class Part:
    """One sub-claim: ``true`` as the evidence has it, ``stated`` as the claim has it.

    They differ in ``slot`` at most. ``lie`` is a value of that slot which the evidence does
    not hold at all. Both wordings of the predicate name the slot.
    """

    true: WorldFact
    stated: WorldFact
    slot: str
    lie: str

    @property
    def holds(self) -> bool:
        """Whether the evidence agrees with the claim here."""
        return self.true == self.stated


@dataclass(frozen=True, slots=True)
class TraceClaim:
    """A claim with evidence and label; ``parts`` are its sub-claims in order.

    ``aside`` is a fact of the evidence that the claim leaves out, ``invented`` one about the
    claim's subject that the evidence does not hold. ``wording`` (0 or 1) is the claim's.
    """

    claim: str
    evidence: str
    label: Verdict
    parts: tuple[Part, ...]
    aside: WorldFact
    invented: WorldFact
    wording: int


def trace_claim(world: World, form: str, label: Verdict, wording: int) -> TraceClaim:
    """Draw a claim of one of ``FORMS``; its names are new to the world.

    ``pair`` states two facts of one subject, ``triple`` three, ``contrast`` one of each of two
    things of a kind. A refuted claim has one sub-claim wrong.
    """
    while True:
        world.keep_names()
        scene = core(world, KINDS)
        if made := _from_scene(world, scene, form, label, wording):
            return made
        world.release_names()


def usable(fact: WorldFact) -> bool:
    """Whether a fact makes one atomic question: sentence and predicates name all they need.

    A fact that denies something makes none: "yes, it did nothing" can be read two ways.
    """
    said = set(SLOT.findall(fact.relation.says))
    worded = (fact.relation.says, *fact.relation.preds)
    plain = ";" not in fact.relation.says and all(
        said.issuperset(fact.slots(n)) and not _TWO_THINGS.search(fact.pred(n)) for n in (0, 1)
    )
    denies = any(map(_DENIES.search, worded))
    return "s" in said and plain and not denies and bool(_contested(fact))


def _contested(fact: WorldFact) -> list[str]:
    """Slots that both predicates state, names and things before numbers."""
    both = [slot for slot in fact.slots(0) if slot in fact.slots(1)]
    return sorted(both, key=lambda slot: bank_of(slot) not in NAME_SLOTS | BANKS.keys())


def _from_scene(
    world: World, scene: Scene, form: str, label: Verdict, wording: int
) -> TraceClaim | None:
    """The claim, or None where the scene has too few facts of the right make."""
    facts, aside = _facts(world, scene, form)
    evidence = "\n".join(" ".join(page.sentences) for page in scene.pages())
    double = world.entity(scene.main.kind.key, scene.main.name)
    claimed = {fact.relation for fact in facts}
    invented = [f for f in double.facts if f.relation not in claimed and _is_new(f, evidence)]
    if aside is None or not invented:
        return None
    wrong = world.rng.randrange(len(facts)) if label == "Refuted" else None
    parts = tuple(
        _part(world, scene, fact, evidence, refuted=index == wrong)
        for index, fact in enumerate(facts)
    )
    text = _text(parts, form, wording)
    return TraceClaim(text, evidence, label, parts, aside, invented[0], wording)


def _facts(world: World, scene: Scene, form: str) -> tuple[list[WorldFact], WorldFact | None]:
    """The facts to claim, and one to leave out; None where there are too few."""
    own = [fact for fact in scene.main.facts if usable(fact)]
    if len(own) <= _STATED[form]:
        return [], None
    *claimed, aside = world.rng.sample(own, _STATED[form] + 1)
    if form != "contrast":
        return claimed, aside
    known = {fact.relation for fact in (*claimed, aside)}
    rival = [fact for fact in scene.rival.facts if usable(fact) and fact.relation not in known]
    return ([*claimed, world.rng.choice(rival)], aside) if rival else ([], None)


def _is_new(fact: WorldFact, evidence: str) -> bool:
    """Whether a fact's first predicate names something that the evidence does not."""
    names = [fact.values[slot] for slot in fact.slots(0) if bank_of(slot) in NAME_SLOTS]
    return usable(fact) and any(name not in evidence for name in names)


def _part(world: World, scene: Scene, fact: WorldFact, evidence: str, *, refuted: bool) -> Part:
    slot = _contested(fact)[0]
    lie = _unheard(world, slot, evidence)
    if not refuted:
        return Part(fact, fact, slot, lie)
    elsewhere = _elsewhere(scene.rival, fact, slot)
    wrong = elsewhere if elsewhere is not None else _unheard(world, slot, evidence)
    return Part(fact, fact.with_value(slot, wrong), slot, lie)


def _unheard(world: World, slot: str, evidence: str) -> str:
    """A value that stands nowhere in the evidence, in any letter case."""
    said = evidence.casefold()
    while (value := world.value(slot)).casefold() in said:
        pass
    return value


def _elsewhere(rival: Entity, fact: WorldFact, slot: str) -> str | None:
    """What the evidence says of the rival in the same respect, if that is another value.

    Such a claim is wrong although each of its words stands in the evidence.
    """
    values = [f.values[slot] for f in rival.facts if f.relation == fact.relation]
    return next((value for value in values if value != fact.values[slot]), None)


def _text(parts: Sequence[Part], form: str, wording: int) -> str:
    subject = parts[0].stated.subject
    preds = [part.stated.pred(wording) for part in parts]
    if form == "contrast":
        return capital(f"{subject} {preds[0]}, while {parts[1].stated.subject} {preds[1]}.")
    if form == "triple":
        return capital(f"{subject} {preds[0]}, {preds[1]} and {preds[2]}.")
    return capital(f"{subject} {preds[0]} and {preds[1]}.")
