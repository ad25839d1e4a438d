"""Word classes and small phrase tests that the rule decomposer splits clauses by.

Takes lists of words, gives indices and truth values. English, without a parser: a finite
verb is an auxiliary, a listed form, or a lower-case word that ends like one.
"""

import re
from collections.abc import Sequence

from decomposerl.text.words import word_set

AUXILIARIES = word_set(
    "is are was were has have had do does did can could will would should may might must"
)
DETERMINERS = word_set("a an the this that these those its his her their our my your some any")
PRONOUNS = word_set("he she it they this these those")
PREPOSITIONS = word_set(
    "of in on at by for from to with into onto upon over under about between among through during "
    "after before since until near as than against alongside within without toward towards"
)
PARTICIPLES = word_set(
    "directed written produced starring released located founded based named known featuring "
    "played born published built owned composed created designed performed recorded established "
    "headquartered hosted portrayed edited developed invented called titled situated "
    "containing depicting"
)
_VERBS = word_set(
    "won quit made took came went got gave became began ran wrote sang led left sold held found "
    "said says lost met saw knew grew fell fought built bought brought taught caught thought sent "
    "spent kept stood understood told wore drove rose broke spoke chose drew flew threw hit cut "
    "put set read beat let hurt cost sat lay paid heard shot dealt died plays lives contains "
    "includes causes increases reduces decreases leads shows inhibits promotes regulates requires "
    "affects improves induces produces prevents targets works stars features follows remains "
    "becomes makes takes gives holds serves belongs consists refers comes goes runs lies appears "
    "begins ends receives provides allows helps offers uses outperforms achieves performs "
    "demonstrates enhances impairs activates suppresses mediates binds encodes interacts "
    "correlates results depends differs shares owns operates covers play share star contain "
    "include outperform achieve perform live work lead have show"
)
_NO_NOUN = PREPOSITIONS - {"of"} | {"and", "but"} | AUXILIARIES
_SHORTEST_PAST = 5


def is_finite(words: Sequence[str], position: int) -> bool:
    """Whether the word at ``position`` reads as a finite verb of a statement."""
    word = words[position].strip(",;:")
    if word in AUXILIARIES or word in _VERBS:
        return position > 0 and words[position - 1].lower() not in {"the", "a", "an", "to"}
    before = words[position - 1].lower() if position else ""
    return (
        word.endswith("ed")
        and word.islower()
        and len(word) >= _SHORTEST_PAST
        and not (word in PARTICIPLES and words[position + 1 : position + 2] == ["by"])
        and not before.endswith("ly")
        and before not in DETERMINERS | PREPOSITIONS | AUXILIARIES | {"and", "or", ""}
    )


def first_finite(words: Sequence[str], start: int = 1, end: int | None = None) -> int | None:
    """Index of the first finite verb in ``words[start:end]``; None where there is none."""
    stop = len(words) if end is None else min(end, len(words))
    return next((at for at in range(start, stop) if is_finite(words, at)), None)


def starts_with_verb(words: Sequence[str]) -> bool:
    """Whether a phrase goes on as a verb phrase without a subject of its own."""
    if not words:
        return False
    at = 1 if words[0] in {"also", "then", "later", "not", "never", "only"} and words[1:] else 0
    word = words[at].strip(",")
    past = word.endswith("ed") and word.islower() and len(word) >= _SHORTEST_PAST
    return word in AUXILIARIES or word in _VERBS or past


def noun_phrase_start(words: Sequence[str], end: int) -> int:
    """Where the noun phrase that ends before ``end`` begins."""
    at = end - 1
    while at > 0:
        before = words[at - 1]
        if before.endswith((",", ";", ":")) or before.lower() in _NO_NOUN:
            break
        if is_finite(words, at - 1):
            break
        at -= 1
        if words[at].lower() in DETERMINERS:
            break
    return at


def has_detail(text: str) -> bool:
    """Whether a phrase holds a number or a capitalised word after its first word."""
    return bool(re.search(r"\d", text) or re.search(r"\s[\"“(]?[A-Z]", " " + text))
