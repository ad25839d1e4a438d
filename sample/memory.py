"""What was claimed so far, so that no two ordinary claims look alike.

Takes statements and table claims one after another, says whether each is new enough: its
relations were rarely joined before, no relation states a thing it has stated before, and it
shares few words with earlier claims of its relations. The demands fall as a search goes on,
so that a search among used-up relations ends.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sample.banks import BANKS
from sample.prose import Statement
from sample.world import bank_of

_ALIKE = 0.5  # least share of common words that makes two claims alike
_LENIENCE = 300  # tries after which that share has grown by one
_PATIENCE = 6  # scenes to look through before relations are joined once more
_INSISTENCE = 20  # scenes to look through before a thing may be repeated


@dataclass(slots=True)
class Memory:
    """Joined relations, stated things and words of the claims that were admitted."""

    joined: Counter[frozenset[str]] = field(default_factory=Counter)
    stated: set[tuple[str, str]] = field(default_factory=set)
    said: defaultdict[str, list[frozenset[str]]] = field(default_factory=lambda: defaultdict(list))

    def admits(self, statement: Statement, tries: int) -> bool:
        """Whether a statement is new enough at this point of a search; if so, remember it."""
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
        """Whether a claim shares few words with earlier ones on its topics; if so, remember."""
        said = frozenset(text.lower().split())
        most = _ALIKE + tries / _LENIENCE
        earlier = [other for topic in topics for other in self.said[topic]]
        if any(len(said & other) >= most * len(said | other) for other in earlier):
            return False
        for topic in topics:
            self.said[topic].append(said)
        return True


def _things(statement: Statement) -> set[tuple[str, str]]:
    """Everyday things that the statement's facts state, each with its relation."""
    return {
        (fact.relation.key, fact.values[slot])
        for fact in statement.facts
        for slot in fact.slots(0)
        if bank_of(slot) in BANKS and bank_of(slot) != "month"
    }
