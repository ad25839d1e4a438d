"""The claims of the sample: ordinary ones and those planted for each filter.

Every planting rule is a way of writing (copy a sentence, omit names, change a number), never a
measurement by the engines that process the sample later.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sample import tables
from sample.banks import BANKS, listed
from sample.memory import ClaimMemory
from sample.prose import (
    ClaimDraft,
    Page,
    Scene,
    core,
    generic,
    padded,
    spoil,
    state,
)
from sample.rewording import (
    FRAMES,
    OPENINGS,
    cut_pages,
    echoed,
    names,
    number_slots,
    one_sentence,
    opening_words,
    reverse,
    within,
)
from sample.tables import InventedTable
from sample.world import NAME_SLOTS, World, WorldFact, bank_of

WIKI = listed(
    "bridge film museum university company team lake festival railway novel garden tower "
    "mine newspaper person city ship law agency breed mountain device microbe"
)
PLAIN = tuple(kind for kind in WIKI if kind not in ("microbe", "device"))
MEDICAL = listed("drug gene trial hospital outbreak supplement microbe device")
PUBLIC = [*MEDICAL, "agency", "law", "city"]
POLITICS = listed("senator law agency newspaper city company university senator")
KINDS_OF = {
    "pubhealth": PUBLIC,
    "scifact": MEDICAL,
    "pubmedclaim": MEDICAL,
    "claimdecomp": POLITICS,
}
FORMS_ORDINARY = {
    "both": 6,
    "aside": 6,
    "link": 6,
    "contrast": 6,
    "nameless": 2,
    "unlike": 2,
    "hidden": 1,
}
_LEAST_NAMES = 2
# What makes a second question: a further clause, a number, a circumstance.
_COMPOUND = re.compile(
    r"\b(?:and|that|which|who|when|where|because|while|with|without|during|among|after|following"
    r"|owing|so|why|as|under|whereas)\b|[,\d]"
)
_OPENED = 0.08
TABLE_SOURCES = {"scitab": tables.science, "pubhealthtab": tables.health}


@dataclass(frozen=True, slots=True)
class SampleClaim:
    """A claim, its evidence, and what the generator knows about it.

    ``label`` is Supported, Refuted or middle. ``statement`` and ``wording`` allow a
    paraphrase; ``group`` is the ``uid`` of a copy's original; ``fault`` is the defect of its native
    row.
    """

    uid: str
    source: str
    kind: str
    claim: str
    label: str
    pages: tuple[Page, ...] = ()
    table: InventedTable | None = None
    statement: ClaimDraft | None = field(default=None, compare=False)
    wording: int = 0
    group: str = ""
    split: str = "train"
    fault: str = ""


@dataclass(slots=True)
class Planter:
    """Writes claims over one world; remembers them, to keep claims dissimilar."""

    world: World
    memory: ClaimMemory = field(default_factory=ClaimMemory)
    count: int = 0

    def uid(self) -> str:
        """An uninformative id: a hash of a running number."""
        self.count += 1
        return hashlib.sha256(f"{self.world.rng.random()}:{self.count}".encode()).hexdigest()[:20]

    def ordinary(
        self, source: str, label: str, kind: str = "ordinary", least: int = 0
    ) -> SampleClaim:
        """Two facts or a contrast, worded unlike the evidence; false where refuted."""
        if source in TABLE_SOURCES:
            return self._tabular(source, label, kind)
        (form,) = self.world.rng.choices([*FORMS_ORDINARY], [*FORMS_ORDINARY.values()])
        return self._stated(source, label, kind, form, least)

    def single(self, source: str, label: str) -> SampleClaim:
        """One atomic fact between two names: one question settles it."""
        return self._stated(source, label, "one_question", "single", 0)

    def _tabular(self, source: str, label: str, kind: str) -> SampleClaim:
        tries = 0
        while True:
            tries += 1
            rows, true = self.world.rng.randint(12, 16), label != "Refuted"
            made = TABLE_SOURCES[source](self.world, rows, true=true)
            if self.memory.admits_words(made.claim, [source], tries):
                return SampleClaim(self.uid(), source, kind, made.claim, label, table=made.table)

    def _stated(self, source: str, label: str, kind: str, form: str, least: int) -> SampleClaim:
        statement = self._new_statement(source, form)
        scene = self._padded(source, statement.scene, least)
        statement = replace(statement, scene=scene)
        wording = self.world.rng.randrange(2)
        if label == "Refuted":
            statement = self._spoiled(statement, wording)
        pages = self._shuffled(statement.scene.pages())
        text = statement.text(wording)
        if kind == "ordinary" and self.world.rng.random() < _OPENED:
            # Openings and their echoes must not be a mark of the obvious claims.
            _, echo = self.world.rng.choice(OPENINGS)
            text = f"{OPENINGS[0][0]}{within(text)}"
            pages = echoed(pages, statement.scene.main.name, echo)
        return SampleClaim(self.uid(), source, kind, text, label, pages, None, statement, wording)

    def _spoiled(self, statement: ClaimDraft, wording: int) -> ClaimDraft:
        """The statement made false, still with two names."""
        while names(wrong := spoil(self.world, statement, wording), wording) < _LEAST_NAMES:
            pass
        return wrong

    def _core(self, source: str) -> Scene:
        return core(self.world, KINDS_OF.get(source, WIKI))

    def _padded(self, source: str, scene: Scene, least: int = 0) -> Scene:
        least = least or self.world.rng.randint(178, 330)
        return padded(self.world, scene, KINDS_OF.get(source, WIKI), least)

    def _new_statement(self, source: str, form: str) -> ClaimDraft:
        """A statement with two names, unlike the claims before it."""
        self.world.keep_names()
        tries = 0
        while True:
            tries += 1
            statement = state(self.world, self._core(source), form)
            if self._is_fit(statement) and self.memory.admits(statement, tries):
                return statement
            self.world.release_names()

    def _is_fit(self, statement: ClaimDraft) -> bool:
        if statement.form == "single" and not _is_atomic(statement):
            return False
        return min(names(statement, wording) for wording in (0, 1)) >= _LEAST_NAMES

    def _shuffled(self, pages: tuple[Page, ...]) -> tuple[Page, ...]:
        return tuple(self.world.rng.sample(pages, len(pages)))

    # --- rules -----------------------------------------------------------------------

    def few_sentences(self, source: str, label: str) -> SampleClaim:
        """Evidence of two very long sentences."""
        case = self.ordinary(source, label, "few_sentences")
        half = len(case.pages) // 2
        parts = (case.pages[:half], case.pages[half:])
        joined = tuple(Page(part[0].title, (one_sentence(part),)) for part in parts)
        return replace(case, pages=joined)

    def few_tokens(self, source: str, label: str) -> SampleClaim:
        """Evidence of a handful of sentences, far below the least length."""
        case = self.ordinary(source, label, "few_tokens")
        if case.table is not None:
            return replace(case, table=replace(case.table, rows=case.table.rows[:3]))
        return replace(case, pages=cut_pages(case.pages, 95))

    def many_tokens(self, source: str, label: str) -> SampleClaim:
        """Evidence far above the greatest length."""
        return self.ordinary(source, label, "many_tokens", least=8_200)

    def long_evidence(self, source: str, label: str) -> SampleClaim:
        """Evidence long enough for the long-evidence share, below the greatest length."""
        return self.ordinary(
            source, label, "long_evidence", least=self.world.rng.randint(2_500, 4_200)
        )

    def verbatim(self, source: str, label: str) -> SampleClaim:
        """The claim is one evidence sentence, at most without its full stop."""
        scene, fact = self._plain_fact(source)
        text = fact.sentence()
        text = self.world.rng.choice((text, text.removesuffix(".")))
        return self._of(source, "overlap", text, label, scene)

    def nameless(self, source: str, label: str) -> SampleClaim:
        """A claim without a name, a number or a capital after its first letter."""
        while True:
            scene = core(self.world, PLAIN)
            text = generic(state(self.world, scene, "single"), self.world.rng.randrange(2))
            if not re.search(r"[A-Z0-9]|\b(?:first|one|once|twice)\b", text[1:]):
                return self._of(source, "no_entities", text, label, self._padded(source, scene))

    # --- difficulty ------------------------------------------------------------------

    def easy(self, source: str, label: str) -> SampleClaim:
        """A sentence of the evidence restated, or with its number or sense reversed."""
        return self._obvious(source, label, label, "easy")

    def mislabelled(self, source: str, label: str) -> SampleClaim:
        """An obvious claim under the wrong label."""
        truth = "Refuted" if label == "Supported" else "Supported"
        return self._obvious(source, truth, label, "mislabelled")

    def _obvious(self, source: str, truth: str, label: str, kind: str) -> SampleClaim:
        scene, fact = self._plain_fact(source, numbered=truth == "Refuted")
        text = reverse(self.world, fact) if truth == "Refuted" else fact.sentence()
        opening, echo = opening_words(text, spare=truth == "Supported")
        case = self._of(source, kind, f"{opening}{within(text) if opening else text}", label, scene)
        return replace(case, pages=echoed(case.pages, scene.main.name, echo))

    def _plain_fact(self, source: str, *, numbered: bool = False) -> tuple[Scene, WorldFact]:
        """A scene and a fact whose sentence names its subject and another entity."""
        while True:
            scene = self._core(source)
            fact = self.world.rng.choice(scene.main.facts)
            named = [s for s in fact.values if bank_of(s) in NAME_SLOTS]
            plain = not fact.relation.says.startswith(("Its ", "On ", "A ", "Captain "))
            if named and plain and (numbered <= bool(number_slots(fact))):
                return self._padded(source, scene), fact

    def _of(self, source: str, kind: str, text: str, label: str, scene: Scene) -> SampleClaim:
        pages = self._shuffled(scene.pages())
        return SampleClaim(self.uid(), source, kind, text, label, pages)

    # --- copies ----------------------------------------------------------------------

    def copy(
        self, original: SampleClaim, source: str, kind: str, reword: Callable[[SampleClaim], str]
    ) -> SampleClaim:
        """A second claim about the same evidence; ``group`` links it to its original."""
        return replace(
            original,
            uid=self.uid(),
            source=source,
            kind=kind,
            claim=reword(original),
            pages=self._shuffled(original.pages),
            group=original.uid,
            split="train",
        )

    def exact(self, original: SampleClaim) -> str:
        """The claim with other punctuation: no full stop, an exclamation mark, or two spaces."""
        bare = original.claim.rstrip(".")
        return self.world.rng.choice((bare, f"{bare}!", f"{bare} .", bare.replace(" ", "  ", 2)))

    def near(self, original: SampleClaim) -> str:
        """The claim with one or two words inserted."""
        head, _, tail = original.claim.rpartition(" ")
        adverb = self.world.rng.choice(("reportedly", "indeed", "in fact", "apparently"))
        return f"{head} {tail.rstrip('.')}, {adverb}."

    def reworded(self, original: SampleClaim) -> str:
        """The same facts in the other wording and order."""
        if original.statement is None:
            raise ValueError(f"case '{original.uid}' has no statement to reword")
        return original.statement.text(original.wording + 1)

    def wrapped(self, original: SampleClaim) -> str:
        """The claim inside a frame of other words, which lowers the share of common words."""
        bare = original.claim.rstrip(".")
        frame = self.world.rng.choice(FRAMES)
        return frame.format(within(bare))


def _is_atomic(statement: ClaimDraft) -> bool:
    """Whether one question settles the claim and something in it identifies it."""
    texts = [statement.text(wording) for wording in (0, 1)]
    things = [slot for slot in statement.facts[0].slots(0) if bank_of(slot) in BANKS]
    return bool(things) and not any(_COMPOUND.search(text) for text in texts)
