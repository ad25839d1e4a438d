"""Lessons for the warm start of the tiny policy: invented claims with traces that verify them.

Takes a seed, gives lessons without end: a claim of the same forms as the sample's, over
evidence from the same invented world (other names, since the seed is another), and a trace
that takes the claim apart, holds each thing a part names against the evidence, and asks and
answers accordingly. A claim on a table is true and taken for true: what it compares cannot be
told from names, and of a row that the view leaves out nothing is marked.

A clean trace has the right verdict, but traces differ: of those with two parts half ask about
each once, half about one of them twice in other words; those with one part ask it twice, since
fewer than two questions are a fault. Which pays is for the rewards to teach. A flawed trace
(``policy_flaws``) gives the policy habits that training can undo.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from decomposerl.claims.passages import table_passages
from decomposerl.traces.trace import Verdict
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from sample.planting import FORMS_ORDINARY, KINDS_OF, WIKI
from sample.policy_flaws import Block, flawed
from sample.prose import Statement, core, padded, spoil, state
from sample.rewording import OPENINGS, names, within
from sample.tables import health, science
from sample.world import Fact, World

_KINDS = (WIKI, WIKI, WIKI, WIKI, *KINDS_OF.values())
_FORMS = FORMS_ORDINARY | {"single": 3}
_LEAST_NAMES = 2
_LEAST_WORDS = 150
_ASKED_TWICE = 0.5
"""Share of traces with two parts that ask about one of them twice."""
_TABLES, _TITLED, _NOISED = 0.12, 0.4, 0.08
"""Shares of claims drawn: on a table, with titled pages, with another opening or another end.

Of lessons tables are more (one in six), since claims in prose are drawn again more often."""
_NAME = re.compile(r"\b[A-Z\d][\w-]*")
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
    """One part of a claim, and what the evidence makes of it.

    ``part`` stands in the claim word for word, but for an "it" where the claim names the subject
    elsewhere; ``named`` are the things it names, in order, each with whether it is right;
    ``lines`` are the sentences that decide.
    """

    part: str
    named: tuple[tuple[str, bool], ...]
    holds: bool
    lines: tuple[str, ...]

    def shown(self, claim: str, seen: str) -> bool:
        """Whether part and sentences are there, and what is wrong with the part is named in it."""
        right = all(right for name, right in self.named if name in self.part)
        stands = self.part.removeprefix("it ") in claim
        return stands and self.holds == right and all(line in seen for line in self.lines)

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
        holds = "Yes, it is true" if self.holds else "No, it is not true"
        return f"{holds} that {self.part}."


def lessons(seed: int, view: EvidenceView, flaws: float = 0.0) -> Iterator[Lesson]:
    """Lessons, as many as are asked for; ``flaws`` is the share with a flawed trace, 0..1.

    The same arguments give the same lessons. Both labels come about alike in claims on prose; a
    claim on a table is true. A claim on prose makes no lesson where the view does not show one of
    its facts, or its words do not name one.
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
    told = _table(world, rng, view) if rng.random() < _TABLES else _prose(world, rng, label)
    seen = evidence_view(told.claim, told.evidence, view)
    apart = _taken_apart(told.claim, told.points)
    if not apart or not all(point.shown(told.claim, seen) for point in told.points):
        return None
    supported = all(point.holds for point in told.points)
    verdict: Verdict = "Supported" if supported else "Refuted"
    blocks = [Block("think", apart), *_blocks(rng, told.points, verdict)]
    flaw = ""
    if rng.random() < flaws:
        flaw, blocks = flawed(rng, blocks)
    trace = "\n".join(f"<{b.kind}>{b.text}{b.end}" for b in blocks)
    return Lesson(told.claim, seen, trace, verdict, flaw)


@dataclass(frozen=True, slots=True)
class _Told:
    """A claim with its evidence, and its parts in order."""

    claim: str
    evidence: str
    points: list[_Point]


def _prose(world: World, rng: random.Random, label: Verdict) -> _Told:
    """A claim about two facts, or one, over pages as one corpus or another writes them."""
    kinds, wording = rng.choice(_KINDS), rng.randrange(2)
    true = _statement(world, kinds, *rng.choices([*_FORMS], [*_FORMS.values()]))
    stated = true if label == "Supported" else _spoiled(world, true, wording)
    claim = _in_other_type(rng, stated.text(wording))
    pages = rng.sample(true.scene.pages(), len(true.scene.pages()))
    titled = rng.random() < _TITLED
    lines = [
        " ".join(f"{page.title}: {line}" if titled else line for line in page.sentences)
        for page in pages
    ]
    return _Told(claim, "\n".join(lines), _points(true, stated, claim, wording))


def _in_other_type(rng: random.Random, claim: str) -> str:
    """Most claims as they are; some open or end as near copies in the sample do."""
    told = rng.choice(OPENINGS)[0] + within(claim) if rng.random() < _NOISED else claim
    if rng.random() < _NOISED:
        return told.rstrip(".") + rng.choice(("", "!", " .", ", reportedly.", ", indeed."))
    return told


def _table(world: World, rng: random.Random, view: EvidenceView) -> _Told:
    """A true claim about a table: one part, since what it compares cannot be told from names."""
    made = rng.choice((science, health))(world, rng.randint(12, 16), true=True)
    rows = "\n".join(table_passages(made.table.caption, made.table.header, made.table.rows))
    seen, part = evidence_view(made.claim, rows, view), made.claim.rstrip(".")
    named = [(name, True) for name in dict.fromkeys(_NAME.findall(part)) if name in seen]
    return _Told(made.claim, rows, [_Point(part, tuple(named), holds=True, lines=())])


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
        part = _part(said, claim, wording, first=not made)
        made.append(_Point(part, right, fact == said, (fact.sentence(),)))
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
    if len(points) == 1 or rng.random() < _ASKED_TWICE:  # fewer than two questions are a fault
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
