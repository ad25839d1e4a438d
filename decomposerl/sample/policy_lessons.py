"""Lessons for the warm start of the tiny policy: invented claims with traces that verify them.

Takes a seed, gives lessons without end: a claim of the same forms as the sample's, over
evidence from the same invented world (other names, since the seed is another), and a trace
that first quotes the sentences that decide, then asks about one fact at a time and holds each
question against what it quoted.

A clean trace is right in all it says, but traces differ: some ask about a fact in one wording,
some in both. Which pays is for the rewards to teach. A flawed trace (``policy_flaws``) gives
the policy habits that training can undo.

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
from decomposerl.sample.trace_wording import question
from decomposerl.sample.world import Fact, World
from decomposerl.traces.trace import Verdict
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView

_KINDS = (WIKI, WIKI, WIKI, WIKI, *KINDS_OF.values())
_LEAST_NAMES = 2
_LEAST_WORDS = 150
_ASKED_TWICE = 0.25
"""Share of clean traces that ask about one of their facts in both wordings."""


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
    """One fact as the evidence has it and as the claim states it."""

    true: Fact
    stated: Fact

    @property
    def holds(self) -> bool:
        return self.true == self.stated

    def said_in(self, wording: int) -> bool:
        """Whether a wording names all in which the two differ."""
        stated = self.stated.values.items()
        wrong = {slot for slot, value in stated if value != self.true.values[slot]}
        return wrong <= set(self.stated.slots(wording))

    def checks(self, wording: int, *, subject: bool) -> str:
        """Each thing that the claim says here, and whether the deciding sentence has it."""
        named = [(self.stated.subject, self.true.subject)] if subject else []
        named += [(self.stated.values[s], self.true.values[s]) for s in self.stated.slots(wording)]
        told = [f"{said}: {'yes' if said == true else 'no'}" for said, true in dict.fromkeys(named)]
        return ", ".join(told) + "."

    def answer(self, wording: int) -> str:
        """What holds in the claim's words, what differs in the document's."""
        if self.holds:
            return f"Yes, {self.stated.subject} {self.stated.pred(wording)}."
        return f"No, {self.true.sentence()}"


def lessons(seed: int, view: EvidenceView, flaws: float = 0.0) -> Iterator[Lesson]:
    """Lessons, as many as are asked for; ``flaws`` is the share with a flawed trace, 0..1.

    The same arguments give the same lessons. A claim one of whose facts the view does not
    show makes none.
    """
    rng = random.Random(seed)  # noqa: S311 - an invented world needs no secrets
    world = World(random.Random(rng.random()))  # noqa: S311 - the same
    while True:
        world.keep_names()
        if lesson := _lesson(world, rng, view, flaws):
            yield lesson
        world.release_names()


def _lesson(world: World, rng: random.Random, view: EvidenceView, flaws: float) -> Lesson | None:
    label: Verdict = rng.choice(("Supported", "Refuted"))
    kinds, wording = rng.choice(_KINDS), rng.randrange(2)
    true = _statement(world, kinds, *rng.choices([*FORMS_ORDINARY], [*FORMS_ORDINARY.values()]))
    stated = true if label == "Supported" else _spoiled(world, true, wording)
    claim = stated.text(wording)
    pages = rng.sample(true.scene.pages(), len(true.scene.pages()))
    seen = evidence_view(claim, "\n".join(" ".join(page.sentences) for page in pages), view)
    points = sorted(_points(true, stated), key=lambda point: claim.find(point.stated.pred(wording)))
    if any(point.true.sentence() not in seen for point in points):
        return None
    blocks = _blocks(rng, points, wording, label, subject=true.form == "unlike")
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


def _points(true: Statement, stated: Statement) -> list[_Point]:
    """The facts in pairs; in a claim that exchanges two things, the subject is what is wrong."""
    if stated.scene.main != true.scene.main:
        other = stated.scene.main.name
        return [_Point(fact, replace(fact, subject=other)) for fact in true.facts]
    return [_Point(*pair) for pair in zip(true.facts, stated.facts, strict=True)]


def _blocks(
    rng: random.Random,
    points: list[_Point],
    wording: int,
    label: Verdict,
    *,
    subject: bool,
) -> list[Block]:
    """The clean trace of a claim."""
    asked = [(point, wording) for point in points]
    again = rng.randrange(len(points))
    if rng.random() < _ASKED_TWICE and points[again].said_in(wording + 1):
        asked.insert(again + 1, (points[again], wording + 1))
    blocks: list[Block] = []
    for point, worded in asked:
        blocks += [
            Block(
                "think",
                f"{point.true.sentence()} {point.checks(worded, subject=subject)}",
            ),
            Block("question", question(point.stated, worded)),
            Block("answer", point.answer(worded)),
        ]
    blocks.append(Block("think", "All is checked."))
    return [*blocks, Block("verification", label)]
