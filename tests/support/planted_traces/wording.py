"""Questions and answers about one fact, as a careful policy would write them.

Takes facts of the invented world, gives sentences. Every answer stands alone: it names its
subject, restates the evidence sentence and says what follows, because the coverage judge
sees neither question nor document. ``wording`` picks one of the two predicates of a fact.

Left out deliberately: which answers are true (``trace_kinds.py``).
"""

from decomposerl.traces.trace import Cycle
from sample.banks import listed
from sample.world import WorldFact, capital

_MOVED = frozenset(listed("is was can may"))  # auxiliaries that can open a question
_UNASKED = (
    ("the trademark of {s}", "Who owns the trademark of {s}?"),
    ("an insurance of {s}", "What does the insurance of {s} cost?"),
    ("the website of {s}", "When did the website of {s} go online?"),
    ("a postage stamp with {s}", "Who engraved the postage stamp with {s}?"),
    ("the telephone number of {s}", "What is the telephone number of {s}?"),
    ("an opera about {s}", "Where was the opera about {s} staged?"),
)
"""Topics that no sentence of the invented world touches, each with a question."""


def question(fact: WorldFact, wording: int) -> str:
    """One yes-no question: does the fact hold?"""
    first, _, rest = fact.pred(wording).partition(" ")
    if first in _MOVED:
        return f"{capital(first)} {fact.subject} {rest}?"
    return f"Is it true that {fact.subject} {fact.pred(wording)}?"


def joined_question(one: WorldFact, other: WorldFact, wording: int) -> str:
    """Two sub-questions in one, by "and": not atomic."""
    ends = [f"{fact.subject} {fact.pred(wording)}" for fact in (one, other)]
    return f"Is it true that {ends[0]} and that {ends[1]}?"


def unanswered_question(subject: str, turn: int) -> tuple[str, str]:
    """A question that no evidence of the invented world answers, and its topic in words."""
    topic, text = _UNASKED[turn % len(_UNASKED)]
    return text.format(s=subject), topic.format(s=subject)


def yes(fact: WorldFact, wording: int) -> str:
    """The answer that the fact holds, with the sentence that states it."""
    return f"Yes, the document says that {_said(fact)}, so {_stated(fact, wording)}."


def no(fact: WorldFact, wrong: str, wording: int) -> str:
    """The answer that the fact holds, and not with the value ``wrong``."""
    says, stated = _said(fact), _stated(fact, wording)
    return f"No, the document says that {says}, so {stated}, not {wrong}."


def yes_again(fact: WorldFact, wording: int) -> str:
    """``yes`` in another order of words."""
    return f"Yes, {_stated(fact, wording)}, as the document says that {_said(fact)}."


def no_again(fact: WorldFact, wrong: str, wording: int) -> str:
    """``no`` in another order of words."""
    return f"No, {_stated(fact, wording)}, not {wrong}, as the document says that {_said(fact)}."


def opening_thought(facts: list[WorldFact], wording: int) -> str:
    """The thought before the first question: what the claim says, point by point."""
    points = "; ".join(f"({i}) {_stated(fact, wording)}" for i, fact in enumerate(facts, start=1))
    return f"The claim makes {len(facts)} points: {points}. I check each in the document."


def cycle(asked: str, answer: str) -> Cycle:
    """A cycle with the thought that fits its answer."""
    return Cycle(asked, answer, _THOUGHTS.get(answer.partition(" ")[0], _OPEN))


_THOUGHTS = {
    "Yes,": "This point agrees with the document.",
    "No,": "This point disagrees with the document.",
}
_OPEN = "This stays open, so it decides nothing."


def _stated(fact: WorldFact, wording: int) -> str:
    return f"{fact.subject} {fact.pred(wording)}"


def _said(fact: WorldFact) -> str:
    """The evidence sentence as a clause after "that"."""
    text = fact.sentence().removesuffix(".")
    says = fact.relation.says
    slot, _, _ = says.removeprefix("{").partition("}")
    if not says.startswith("{"):
        return text[0].lower() + text[1:]
    return text if slot == "s" else fact.values[slot][0] + text[1:]
