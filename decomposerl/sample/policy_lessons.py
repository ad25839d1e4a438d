"""Lessons for the warm start of the tiny policy: invented claims with traces that verify them.

Takes a seed, gives lessons without end: a claim of the same forms as the sample's, over
evidence from the same invented world (other names, since the seed is another), and a trace
that takes the claim apart, holds each thing a part names against the evidence, and asks and
answers accordingly.

A clean trace is right in all it says, but traces differ: some ask about a part once, some
twice in other words. Which pays is for the rewards to teach. A flawed trace
(``policy_flaws``) gives the policy habits that training can undo.

Left out deliberately: claims on tables, copies and every other planted kind of the sample, and
the training (``resources.embedded.tiny_warm_start``).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from decomposerl.sample.planting import FORMS_ORDINARY, KINDS_OF, WIKI
from decomposerl.sample.policy_flaws import Block, flawed
from decomposerl.sample.prose import Statement, core, padded, spoil, state
from decomposerl.sample.rewording import names
from decomposerl.sample.world import Fact, World
from decomposerl.traces.trace import Verdict
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView

_KINDS = (WIKI, WIKI, WIKI, WIKI, *KINDS_OF.values())
_LEAST_NAMES = 2
_LEAST_WORDS = 150
_ASKED_TWICE = 0.25
"""Share of clean traces that ask about one of their facts twice."""
HELD, MISSING = "✓", "✗"
"""Marks of what the evidence has and has not."""
_FRAMES = ("Is it true that", "Is it right that")
"""What a question opens with, the first and the second time."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A claim, what the policy sees of its evidence, and the trace to imitate.

    ``flaw`` is the kind of flaw that was put into the trace, empty for a clean one.
    """

    claim: str
    view: str
    trace: str
    label: Verdict
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class _Point:
    """One fact as the evidence has it and as the claim states it, and the part that states it.

    ``part`` stands in the claim word for word, but for an "it" where the claim names the subject
    elsewhere; ``named`` are the things it names, in order, each with whether it is right.
    """

    true: Fact
    stated: Fact
    part: str
    named: tuple[tuple[str, bool], ...]

    def shows(self, claim: str) -> bool:
        """Whether the part stands in the claim, and what is wrong with it is named in it."""
        right = all(right for name, right in self.named if name in self.part)
        return self.part.removeprefix("it ") in claim and (self.true == self.stated) == right

    def checks(self) -> str:
        """The part, with a mark behind each thing it names."""
        told, rest = "", self.part
        for name, right in self.named:
            before, found, after = rest.partition(name)
            if found:
                told, rest = f"{told}{before}{name} {HELD if right else MISSING}", after
        return f"{told}{rest}."

    def answer(self) -> str:
        """Yes or no, in the claim's words."""
        holds = "Yes, it is true" if self.true == self.stated else "No, it is not true"
        return f"{holds} that {self.part}."


def lessons(seed: int, view: EvidenceView, flaws: float = 0.0) -> Iterator[Lesson]:
    """Lessons, as many as are asked for; ``flaws`` is the share with a flawed trace, 0..1.

    The same arguments give the same lessons, and both labels come alike. A claim makes none
    where the view does not show one of its facts, or its words do not name one.
    """
    rng = random.Random(seed)  # noqa: S311 - an invented world needs no secrets
    world = World(random.Random(rng.random()))  # noqa: S311 - the same
    while True:
        label: Verdict = rng.choice(("Supported", "Refuted"))
        lesson = None
        while lesson is None:
            world.keep_names()
            lesson = _lesson(world, rng, label, view, flaws)
            world.release_names()
        yield lesson


def _lesson(
    world: World, rng: random.Random, label: Verdict, view: EvidenceView, flaws: float
) -> Lesson | None:
    kinds, wording = rng.choice(_KINDS), rng.randrange(2)
    true = _statement(world, kinds, *rng.choices([*FORMS_ORDINARY], [*FORMS_ORDINARY.values()]))
    stated = true if label == "Supported" else _spoiled(world, true, wording)
    claim = stated.text(wording)
    pages = rng.sample(true.scene.pages(), len(true.scene.pages()))
    seen = evidence_view(claim, "\n".join(" ".join(page.sentences) for page in pages), view)
    points = _points(true, stated, claim, wording)
    apart = _taken_apart(claim, points)
    hidden = any(point.true.sentence() not in seen or not point.shows(claim) for point in points)
    if hidden or not apart:
        return None
    blocks = [Block("think", apart), *_blocks(rng, points, label)]
    flaw = ""
    if rng.random() < flaws:
        flaw, blocks = flawed(rng, blocks)
    return Lesson(
        claim,
        seen,
        "\n".join(f"<{b.kind}>{b.text}{b.end}" for b in blocks),
        label,
        flaw,
    )


def _statement(world: World, kinds: Sequence[str], form: str) -> Statement:
    """A statement of two names over a padded scene."""
    while True:
        made = state(world, core(world, kinds), form)
        if min(names(made, wording) for wording in (0, 1)) >= _LEAST_NAMES:
            return replace(made, scene=padded(world, made.scene, kinds, _LEAST_WORDS))


def _spoiled(world: World, statement: Statement, wording: int) -> Statement:
    while names(wrong := spoil(world, statement, wording), wording) < _LEAST_NAMES:
        pass
    return wrong


def _points(true: Statement, stated: Statement, claim: str, wording: int) -> list[_Point]:
    """The facts in pairs, in the claim's order.

    In a claim that exchanges two things, the subject is what is wrong.
    """
    claimed = stated.facts
    if stated.scene.main != true.scene.main:
        claimed = tuple(replace(fact, subject=stated.scene.main.name) for fact in true.facts)
    pairs = sorted(
        zip(true.facts, claimed, strict=True), key=lambda pair: claim.find(pair[1].pred(wording))
    )
    made: list[_Point] = []
    for fact, said in pairs:
        named = [(said.subject, fact.subject)] if true.form == "unlike" else []
        named += [(said.values[slot], fact.values[slot]) for slot in said.slots(wording)]
        right = tuple((name, name == held) for name, held in named)
        made.append(_Point(fact, said, _part(said, claim, wording, first=not made), right))
    return made


def _part(stated: Fact, claim: str, wording: int, *, first: bool) -> str:
    """The words of a claim that state a fact; the first part has all that stands before them."""
    said = stated.pred(wording)
    if first:
        return claim[: claim.find(said) + len(said)]
    return f"{stated.subject} {said}" if f"{stated.subject} {said}" in claim else f"it {said}"


def _taken_apart(claim: str, points: list[_Point]) -> str:
    """The claim with the number of each part in front of it; empty where one is in another."""
    told, rest = "", claim
    for number, point in enumerate(points, 1):
        before, found, after = rest.partition(point.part.removeprefix("it "))
        if not found:
            return ""
        told, rest = f"{told}{before}({number}) {point.part}", after
    return told + rest


def _blocks(rng: random.Random, points: list[_Point], label: Verdict) -> list[Block]:
    """What follows the first thought in the clean trace of a claim."""
    asked = [(number, point, _FRAMES[0]) for number, point in enumerate(points, 1)]
    again = rng.randrange(len(points))
    if rng.random() < _ASKED_TWICE:
        asked.insert(again + 1, (again + 1, points[again], _FRAMES[1]))
    blocks: list[Block] = []
    for number, point, frame in asked:
        blocks += [
            Block("think", f"({number}) {point.checks()}"),
            Block("question", f"{frame} {point.part}?"),
            Block("answer", point.answer()),
        ]
    blocks.append(Block("think", "All is checked."))
    return [*blocks, Block("verification", label)]
