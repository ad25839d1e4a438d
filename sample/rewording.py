"""The ways of writing of planted claims: openings, frames, reversals, cuts."""

from sample.banks import listed
from sample.prose import ClaimDraft, Page, words
from sample.world import NAME_SLOTS, NUMBER, World, WorldFact, bank_of

FRAMES = (
    "What we have been told about this, and it is so, is that {}.",
    "And so it is, as we have all been told about this: {}.",
    "What they have told us here, and it was so before, is that {}.",
)


def names(statement: ClaimDraft, wording: int) -> int:
    """Distinct invented names in a wording of a statement."""
    text = statement.text(wording)
    found = {entity.name for entity in statement.scene.entities() if entity.name in text}
    for fact in statement.facts:
        held = {v for slot, v in fact.values.items() if bank_of(slot) in NAME_SLOTS}
        found |= {value for value in held if value in text}
    return len(found)


def one_sentence(pages: tuple[Page, ...]) -> str:
    """All sentences of some pages as one, joined by semicolons."""
    parts = [text.rstrip(".") for page in pages for text in page.sentences]
    return "; ".join(parts) + "."


def cut_pages(pages: tuple[Page, ...], most_words: int) -> tuple[Page, ...]:
    """The first sentences of pages, up to ``most_words``."""
    kept: list[Page] = []
    for page in pages:
        for count in range(len(page.sentences), 0, -1):
            shorter = Page(page.title, page.sentences[:count])
            if words((*kept, shorter)) <= most_words:
                kept.append(shorter)
                break
    return tuple(kept)


OPENINGS = (
    ("Reportedly, ", "So it was reportedly."),
    ("Records confirm that ", "Records confirm it."),
    ("Public records confirm that ", "Public records confirm it."),
)
_SMALL = frozenset(
    listed(
        "a an the of in on at to for from by with and or but is was were are be been had has "
        "have it its that this which who as while after before under over than into near "
        "about"
    )
)


def opening_words(text: str, *, spare: bool) -> tuple[str, str]:
    """Words before a restated sentence, more for a longer one, and their echo.

    ``spare`` requires at least one word that the sentence lacks; a reversed sentence already has
    one, its number.
    """
    weight = len({word.strip(".,'\"").lower() for word in text.split()} - _SMALL)
    more = (weight > _SHORT) + (weight > _SHORT * 2) + spare
    return OPENINGS[more - 1] if more else ("", "")


_SHORT = 8


def within(text: str) -> str:
    """The sentence in the form that follows an opening."""
    first = text.split(" ", 1)[0]
    return text[0].lower() + text[1:] if first in _STARTS else text


_STARTS = frozenset(
    listed(
        "The There It Unlike After At In Since Before During Under With Among Most Every For "
        "Old Grown Poor "
        "Along Divers Courses Burglars Students Shooting Censors Visitors Children Passengers "
        "Volunteers Readers Fans Judges Polls Auditors Shepherds Herds Surgeons Health "
        "Letters Adverts Stores Tests Strains Farms Fitting Patients Carriers Loss Silencing "
        "Regulators Combined Money Lead Waiting Therapy Bound Rising Restorers Road Breeding "
        "Wild Swimming Ticket Spending"
    )
)


def echoed(pages: tuple[Page, ...], title: str, echo: str) -> tuple[Page, ...]:
    """The pages with a closing sentence on the one about ``title``."""
    if not echo:
        return pages
    return tuple(
        Page(page.title, (*page.sentences, echo)) if page.title == title else page for page in pages
    )


def number_slots(fact: WorldFact) -> list[str]:
    """Slots of the fact's sentence that hold a number."""
    return [s for s in fact.values if NUMBER.match(s) and "{" + s + "}" in fact.relation.says]


def reverse(world: World, fact: WorldFact) -> str:
    """The fact's sentence with each number changed by a clear amount."""
    for slot in number_slots(fact):
        shift = world.rng.choice((23, 31, 47))
        fact = fact.with_value(slot, str(int(fact.values[slot]) + shift))
    return fact.sentence()
