"""Lessons for the warm start of the tiny policy: invented claims with traces that verify them.

Takes a seed, gives endless lessons. The claims have the forms of the sample, over evidence from the
same invented world with other names. The trace splits the claim, checks each named thing against
the evidence, and asks and answers accordingly. Claims on tables are always true, because names do
not show what they compare; rows outside the view are not marked.

A clean trace has the right verdict. Of those with two parts, half ask about each once and half
about one of them twice in other words; those with one part ask twice, since fewer than two
questions are a fault. The rewards teach which is better. Flawed traces (``policy_flaws``) give the
policy habits that training can remove. Where a share ``unknown`` is asked for, those claims stand
over the evidence of another claim, and the trace ends with the third verdict.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from decomposerl.claims.passages import table_passages
from decomposerl.schemas import LABELS, WRITTEN, Verdict
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from sample.planting import FORMS_ORDINARY, KINDS_OF, WIKI
from sample.policy_flaws import TraceBlock, flawed
from sample.prose import ClaimDraft, core, padded, spoil, state
from sample.rewording import OPENINGS, names, within
from sample.tables import health, science
from sample.world import World, WorldFact

_KINDS = (WIKI, WIKI, WIKI, WIKI, *KINDS_OF.values())
_FORMS = FORMS_ORDINARY | {"single": 3}
_LEAST_NAMES = 2
_LEAST_WORDS = 150
_ASKED_TWICE = 0.5
"""Share of traces with two parts that ask about one of them twice."""
_TABLES, _TITLED, _NOISED = 0.12, 0.4, 0.08
"""Shares of drawn claims: on a table, with titled pages, with another opening or ending.

One lesson in six is on a table, because claims in prose are redrawn more often."""
_NAME = re.compile(r"\b[A-Z\d][\w-]*")
HELD, MISSING = "✓", "✗"
"""Marks of things that the evidence contains or lacks."""
_FRAMES = ("Is it true that", "Is it right that")
"""The opening of a part's first and second question."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A claim, the policy's view of its evidence, and the trace to imitate.

    ``flaw`` is the kind of flaw in the trace, empty for a clean one.
    """

    claim: str
    view: str
    trace: str
    label: Verdict
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class _ClaimPart:
    """One part of a claim, and whether the evidence supports it.

    ``part`` is verbatim from the claim, except for an "it" where the claim names the subject
    elsewhere; ``named`` are the things it names, in order, each with whether it is right;
    ``lines`` are the deciding sentences. ``holds`` is None where the evidence does not say.
    ``subject`` is what the part is about.
    """

    part: str
    named: tuple[tuple[str, bool], ...]
    holds: bool | None
    lines: tuple[str, ...]
    subject: str = ""

    def shown(self, claim: str, seen: str) -> bool:
        """Whether part and sentences are visible, and the part names what is wrong with it."""
        verbatim = self.part.removeprefix("it ") in claim
        if self.holds is None:
            return verbatim and not any(name in seen for name, _ in self.named)
        right = all(right for name, right in self.named if name in self.part)
        return verbatim and self.holds == right and all(line in seen for line in self.lines)

    def with_subject(self) -> "_ClaimPart":
        """The part that also names its subject: absent evidence lacks it, false parts do not."""
        known = not self.subject or any(name == self.subject for name, _ in self.named)
        return self if known else replace(self, named=((self.subject, True), *self.named))

    def unknown(self) -> "_ClaimPart":
        """The part over evidence that does not say."""
        named = tuple((name, False) for name, _ in self.named)
        return replace(self, named=named, holds=None, lines=())

    def checks(self) -> str:
        """The part, with a mark after each thing it names."""
        marked, rest = "", self.part
        for name, right in self.named:
            before, match, after = rest.partition(name)
            if match:
                marked, rest = f"{marked}{before}{name} {HELD if right else MISSING}", after
        return f"{marked}{rest}."

    def answer(self) -> str:
        """Yes or no, in the claim's words; not known where the evidence does not say."""
        if self.holds is None:
            return "I don't know."
        holds = "Yes, it is true" if self.holds else "No, it is not true"
        return f"{holds} that {self.part}."


def lessons(
    seed: int, view: EvidenceView, flaws: float = 0.0, unknown: float = 0.0
) -> Iterator[Lesson]:
    """Endless lessons; ``flaws`` is the share with a flawed trace, 0..1.

    ``unknown`` is the share of claims over evidence that does not say.

    The same arguments give the same lessons. Claims on prose have both labels about equally often;
    claims on tables are true. A claim on prose is redrawn where the view hides one of its facts, or
    its words do not name one.
    """
    rng = random.Random(seed)  # noqa: S311 - an invented world needs no secrets
    world = World(random.Random(rng.random()))  # noqa: S311 - the same
    while True:
        label: Verdict = rng.choice(LABELS)
        if unknown and rng.random() < unknown:
            label = "NotEnoughInfo"
        lesson = None
        while lesson is None:
            world.keep_names()
            lesson = _lesson(world, rng, label, view, flaws, subjects=unknown > 0)
            world.release_names()
        yield lesson


def _lesson(
    world: World,
    rng: random.Random,
    label: Verdict,
    view: EvidenceView,
    flaws: float,
    *,
    subjects: bool,
) -> Lesson | None:
    worded = _worded(world, rng, label, view)
    if subjects:
        worded = replace(worded, points=[point.with_subject() for point in worded.points])
    if label == "NotEnoughInfo":  # over the evidence of another claim
        other = _prose(world, rng, "Supported").evidence
        worded = replace(worded, evidence=other, points=[one.unknown() for one in worded.points])
    seen = evidence_view(worded.claim, worded.evidence, view)
    numbered = _numbered(worded.claim, worded.points)
    if not numbered or not all(point.shown(worded.claim, seen) for point in worded.points):
        return None
    verdict = _verdict(worded.points)
    blocks = [TraceBlock("think", numbered), *_blocks(rng, worded.points, verdict)]
    flaw = ""
    if rng.random() < flaws:
        flaw, blocks = flawed(rng, blocks)
    trace = "\n".join(f"<{b.kind}>{b.text}{b.end}" for b in blocks)
    return Lesson(worded.claim, seen, trace, verdict, flaw)


def _verdict(points: Sequence[_ClaimPart]) -> Verdict:
    """Supported if every part holds, Refuted if one does not, else not known."""
    held = [point.holds for point in points]
    if False in held:
        return "Refuted"
    return "NotEnoughInfo" if None in held else "Supported"


@dataclass(frozen=True, slots=True)
class _WordedClaim:
    """A claim with its evidence, and its parts in order."""

    claim: str
    evidence: str
    points: list[_ClaimPart]


def _worded(world: World, rng: random.Random, label: Verdict, view: EvidenceView) -> _WordedClaim:
    if label == "NotEnoughInfo":
        return _prose(world, rng, "Supported")
    return _table(world, rng, view) if rng.random() < _TABLES else _prose(world, rng, label)


def _prose(world: World, rng: random.Random, label: Verdict) -> _WordedClaim:
    """A claim about one or two facts, over pages in the style of some corpus."""
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
    return _WordedClaim(claim, "\n".join(lines), _points(true, stated, claim, wording))


def _in_other_type(rng: random.Random, claim: str) -> str:
    """Most claims unchanged; some with the opening or ending of the sample's near copies."""
    text = rng.choice(OPENINGS)[0] + within(claim) if rng.random() < _NOISED else claim
    if rng.random() < _NOISED:
        return text.rstrip(".") + rng.choice(("", "!", " .", ", reportedly.", ", indeed."))
    return text


def _table(world: World, rng: random.Random, view: EvidenceView) -> _WordedClaim:
    """A true claim about a table, in one part, as names do not show what it compares."""
    made = rng.choice((science, health))(world, rng.randint(12, 16), true=True)
    rows = "\n".join(table_passages(made.table.caption, made.table.header, made.table.rows))
    seen, part = evidence_view(made.claim, rows, view), made.claim.rstrip(".")
    named = [(name, True) for name in dict.fromkeys(_NAME.findall(part)) if name in seen]
    return _WordedClaim(made.claim, rows, [_ClaimPart(part, tuple(named), holds=True, lines=())])


def _statement(world: World, kinds: Sequence[str], form: str) -> ClaimDraft:
    """A statement of two names over a padded scene."""
    while True:
        made = state(world, core(world, kinds), form)
        if min(names(made, wording) for wording in (0, 1)) >= _LEAST_NAMES:
            return replace(made, scene=padded(world, made.scene, kinds, _LEAST_WORDS))


def _spoiled(world: World, statement: ClaimDraft, wording: int) -> ClaimDraft:
    while names(wrong := spoil(world, statement, wording), wording) < _LEAST_NAMES:
        pass
    return wrong


def _points(true: ClaimDraft, stated: ClaimDraft, claim: str, wording: int) -> list[_ClaimPart]:
    """The claim's parts, in its order.

    In a claim that swaps two things, the subject is the wrong one.
    """
    claimed = stated.facts
    if stated.scene.main != true.scene.main:
        claimed = tuple(replace(fact, subject=stated.scene.main.name) for fact in true.facts)
    pairs = sorted(
        zip(true.facts, claimed, strict=True), key=lambda pair: claim.find(pair[1].pred(wording))
    )
    made: list[_ClaimPart] = []
    for fact, said in pairs:
        named = [(said.subject, fact.subject)] if true.form == "unlike" else []
        named += [(said.values[slot], fact.values[slot]) for slot in said.slots(wording)]
        right = tuple((name, name == held) for name, held in named)
        part = _part(said, claim, wording, first=not made)
        made.append(_ClaimPart(part, right, fact == said, (fact.sentence(),), said.subject))
    return made


def _part(stated: WorldFact, claim: str, wording: int, *, first: bool) -> str:
    """The words of a claim that state a fact; the first part includes all words before."""
    said = stated.pred(wording)
    if first:
        return claim[: claim.find(said) + len(said)]
    return f"{stated.subject} {said}" if f"{stated.subject} {said}" in claim else f"it {said}"


def _numbered(claim: str, points: list[_ClaimPart]) -> str:
    """The claim with a number before each part; empty where one part contains another."""
    numbered, rest = "", claim
    for number, point in enumerate(points, 1):
        before, found, after = rest.partition(point.part.removeprefix("it "))
        if not found:
            return ""
        numbered, rest = f"{numbered}{before}({number}) {point.part}", after
    return numbered + rest


def _blocks(rng: random.Random, points: list[_ClaimPart], label: Verdict) -> list[TraceBlock]:
    """The blocks after the first thought in a clean trace."""
    asked = [(number, point, _FRAMES[0]) for number, point in enumerate(points, 1)]
    again = rng.randrange(len(points))
    if len(points) == 1 or rng.random() < _ASKED_TWICE:  # fewer than two questions are a fault
        asked.insert(again + 1, (again + 1, points[again], _FRAMES[1]))
    blocks: list[TraceBlock] = []
    for number, point, frame in asked:
        blocks += [
            TraceBlock("think", f"({number}) {point.checks()}"),
            TraceBlock("question", f"{frame} {point.part}?"),
            TraceBlock("answer", point.answer()),
        ]
    blocks.append(TraceBlock("think", "All is checked."))
    return [*blocks, TraceBlock("verification", WRITTEN[label])]
