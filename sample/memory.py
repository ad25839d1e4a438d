"""Earlier claims, so that no two ordinary claims are alike.

A claim is new enough if its relations were rarely combined before, none of them states a thing
twice, and it shares few words with earlier claims of its relations. The limits relax as a search
goes on, so that it ends even among used-up relations.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sample.banks import BANKS
from sample.prose import ClaimDraft
from sample.world import bank_of

_ALIKE = 0.5  # share of common words from which two claims are alike
_LENIENCE = 300  # tries until that share has grown by one
_PATIENCE = 6  # scenes to try before relations are combined again
_INSISTENCE = 20  # scenes to try before a thing may repeat


@dataclass(slots=True)
class ClaimMemory:
    """Combined relations, stated things and words of the admitted claims."""

    joined: Counter[frozenset[str]] = field(default_factory=Counter)
    stated: set[tuple[str, str]] = field(default_factory=set)
    wording: defaultdict[str, list[frozenset[str]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def admits(self, statement: ClaimDraft, tries: int) -> bool:
        """Whether a claim is new enough after this many tries; if so, record it."""
        relations = frozenset(fact.relation.key for fact in statement.facts)
        things = _things(statement)
        worn = self.joined[relations] > tries // _PATIENCE
        repeats = tries < _INSISTENCE and not things.isdisjoint(self.stated)
        if worn or repeats or not self.admits_words(statement.text(0), sorted(relations), tries):
            return False
        self.joined[relations] += 1
        self.stated |= things
        return True

    def admits_words(self, text: str, topics: list[str], tries: int) -> bool:
        """Whether a claim shares few words with earlier ones on its topics; if so, record it."""
        words = frozenset(text.lower().split())
        limit = _ALIKE + tries / _LENIENCE
        earlier = [other for topic in topics for other in self.wording[topic]]
        if any(len(words & other) >= limit * len(words | other) for other in earlier):
            return False
        for topic in topics:
            self.wording[topic].append(words)
        return True


def _things(statement: ClaimDraft) -> set[tuple[str, str]]:
    """The everyday things that the facts state, each with its relation."""
    return {
        (fact.relation.key, fact.values[slot])
        for fact in statement.facts
        for slot in fact.slots(0)
        if bank_of(slot) in BANKS and bank_of(slot) != "month"
    }
