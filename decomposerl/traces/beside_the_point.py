"""Clauses beside "I don't know" that say what the document has in place of the answer.

"The document describes tidal mills but does not name the first" asserts nothing about what was
asked: its first half is background, the second a denial. The background counts only with that
denial after it in the same sentence, and holds no value, quotation or statement. "The document
mentions Kenya" alone is an answer, and so is "the document was published in 1998".
"""

import re
from collections.abc import Iterable

from decomposerl.traces.nothing_said import GENERAL, KINDS, NAMED, asserts_nothing
from decomposerl.traces.reported_facts import DOCUMENT, without_lead

_DATE = (
    r"(?:(?:early|late|mid|the|year|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|spring|summer|autumn|winter)[\s-])*(?:\d{1,2},?\s)?\d{3,4}s?"
)
_BACKGROUND = re.compile(
    rf"""{DOCUMENT}\s(?:
        (?:is|was)\s(?:published|written|issued|printed|compiled|dated|from)(?:\s(?:in|on|from))?\s{_DATE}
        |dates\s(?:from|to|back\sto)\s{_DATE}
        |(?:only\s|just\s|merely\s)?(?:mentions|describes|discusses|covers|concerns|refers\sto
            |talks\sabout|speaks\sof|deals\swith|focuses\son|is\s(?:only\s)?about){NAMED}
        |(?:says|states|mentions|notes|explains)\sthat\s{GENERAL}
        |is\s(?:only\s|just\s)?an?\s(?:[a-z-]+\s){{0,2}}{KINDS}(?:\s(?:of|on|about){NAMED})?
        )""",
    re.VERBOSE,
)
_WITHOUT = re.compile(
    r"\swithout\s(?:giving|naming|saying|mentioning|stating|specifying|telling|providing|listing"
    r"|explaining|identifying|discussing)\s[^\d\"]*\Z"
)
_ELIDED = re.compile(
    r"(?:(?:does|do|did)(?:n't|\snot)|never|says?\s(?:nothing|little)|(?:gives?|has|have|contains?"
    r"|provides?|offers?|makes?|names?|lists?|includes?|mentions?)\s(?:no|nothing|neither)|lacks?|omits?"
    r"|is\ssilent|fails?\sto|cannot)\b"
)
_OF_DOCUMENT = re.compile(
    rf"(?:it|they|{DOCUMENT})\s{_ELIDED.pattern}|(?:no|nothing|none)\b"
    r"|[^\"]{1,60}?\s(?:is|are)(?:n't|\snot|\snever)\s(?:mentioned|stated|specified|reported|documented)\b"
)
_PRONOUN = re.compile(
    r"it\s(?=(?:does(?:n't|\snot)|never)\s(?:say|state|mention|specify|tell|give|discuss|describe|name"
    r"|explain)s?\b)"
)
_NOT = re.compile(r"not\s(?:about\s)?(?P<thing>[^\d\"]{1,80})")


def all_beside_the_point(clauses: Iterable[str]) -> bool:
    """Whether the clauses of one sentence assert nothing, each alone or as such a pair.

    A denial may leave its subject out where the clause before it has the document for one.
    """
    pending = about_document = False
    for clause in clauses:
        said = without_lead(clause)
        if not said:
            continue
        denies = about_document and _denies_with_subject(said)
        background = not denies and _is_background(said)
        if not (denies or background or asserts_nothing(clause)):
            return False
        if background:
            pending = _WITHOUT.search(said) is None
        elif denies or _OF_DOCUMENT.match(said):
            pending = False
        about_document = about_document or re.match(DOCUMENT, said) is not None
    return not pending


def _is_background(said: str) -> bool:
    """Whether the clause tells what the document has; alone it may still assert nothing."""
    if asserts_nothing(said):
        return False
    return _BACKGROUND.fullmatch(_WITHOUT.sub("", said)) is not None


def _denies_with_subject(said: str) -> bool:
    """Whether the clause denies, with the document for the subject that it leaves out."""
    other = _NOT.fullmatch(said)
    if other is not None:
        return asserts_nothing(f"the document does not discuss {other['thing']}")
    pronoun = _PRONOUN.match(said)
    if pronoun is not None:
        return asserts_nothing(f"the document {said[pronoun.end() :]}")
    return _ELIDED.match(said) is not None and asserts_nothing(f"the document {said}")
