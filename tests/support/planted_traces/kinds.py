"""The kinds of planted traces: one good way to verify a claim, and known ways to go wrong.

Takes a claim with its facts, gives drafts: cycles, verdict, and the text where that is not
simply what the parts make. Each kind differs from the good trace in one respect.

Left out deliberately: injections and groups (``traces.py``), and any measurement: a trace is
of its kind because it was written so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from decomposerl.traces.grammar import build_trace, write_trace
from decomposerl.traces.trace import Cycle, Verdict
from planted_traces.claims import Part, TraceClaim
from planted_traces.wording import (
    cycle,
    joined_question,
    no,
    no_again,
    opening_thought,
    question,
    unanswered_question,
    yes,
    yes_again,
)

_OTHER: dict[Verdict, Verdict] = {"Supported": "Refuted", "Refuted": "Supported"}


@dataclass(frozen=True, slots=True)
class Draft:
    """A trace before writing. ``verdict`` is what the trace says, true or not."""

    opening: str
    cycles: tuple[Cycle, ...]
    verdict: Verdict

    def text(self) -> str:
        """The trace in its canonical form."""
        return write_trace(build_trace(self.opening, self.cycles, self.verdict))


def good(claim: TraceClaim, _turn: int) -> Draft:
    """One atomic question a sub-claim, each answered from the evidence; the right verdict."""
    n = claim.wording
    opening = opening_thought([part.stated for part in claim.parts], n)
    cycles = tuple(cycle(question(part.stated, n), _truth(part, n)) for part in claim.parts)
    return Draft(opening, cycles, claim.label)


def redundant(claim: TraceClaim, turn: int) -> Draft:
    """The good trace, with one of its questions asked and answered again in other words."""
    part, n = claim.parts[turn % len(claim.parts)], claim.wording + 1
    answer = yes_again(part.true, n) if part.holds else no_again(part.true, _wrong(part), n)
    return _with(good(claim, turn), cycle(question(part.stated, n), answer))


def hallucinated(claim: TraceClaim, turn: int) -> Draft:
    """The good trace, with an answer that goes on to assert what the evidence does not hold."""
    draft = good(claim, turn)
    place = turn % len(draft.cycles)
    held, n = draft.cycles[place], claim.wording
    extra = f"{claim.invented.subject} also {claim.invented.pred(n)}."
    return _at(draft, place, replace(held, answer=f"{held.answer} {extra}"))


def non_atomic(claim: TraceClaim, turn: int) -> Draft:
    """Two sub-questions of the good trace joined by "and"; what contradicts comes first."""
    n = claim.wording
    rest, pair = claim.parts[:-2], sorted(claim.parts[-2:], key=lambda part: part.holds)
    asked = joined_question(pair[0].stated, pair[1].stated, n)
    joined = cycle(asked, " ".join(_truth(part, n) for part in pair))
    draft = good(claim, turn)
    return replace(draft, cycles=(*draft.cycles[: len(rest)], joined))


def dodging(claim: TraceClaim, turn: int) -> Draft:
    """The good trace and an abstention on a question that the evidence answers."""
    said, n = claim.aside, claim.wording
    answer = f"I don't know whether {said.subject} {said.pred(n)}."
    return _with(good(claim, turn), cycle(question(said, n), answer))


def honest_abstention(claim: TraceClaim, turn: int) -> Draft:
    """The good trace and an abstention on a question that the evidence cannot answer."""
    asked, topic = unanswered_question(claim.aside.subject, turn)
    answer = f"I don't know, the document does not mention {topic}."
    return _with(good(claim, turn), cycle(asked, answer))


def mislabelled(claim: TraceClaim, turn: int) -> Draft:
    """The good questions and answers under the wrong verdict."""
    return replace(good(claim, turn), verdict=_OTHER[claim.label])


def misled(claim: TraceClaim, turn: int) -> Draft:
    """A false answer in place of the deciding one, and the wrong verdict that follows.

    Of a supported claim, every sub-claim decides: one is denied. Of a refuted one, the
    sub-claim that is wrong is affirmed.
    """
    n, draft = claim.wording, good(claim, turn)
    place = turn % len(claim.parts)
    if claim.label == "Refuted":
        place = [part.holds for part in claim.parts].index(False)
    part = claim.parts[place]
    answer = _lie(part, n) if part.holds else yes(part.stated, n)
    wrong = _at(draft, place, cycle(draft.cycles[place].question, answer))
    return replace(wrong, verdict=_OTHER[claim.label])


def harmful(claim: TraceClaim, turn: int) -> Draft | None:
    """The good trace and a further question whose false answer turns what the answers say.

    Only of supported claims, where one denial is enough. A refuted claim stays contradicted
    by its good answers, whatever is added.
    """
    if claim.label == "Refuted":
        return None
    part, n = claim.parts[turn % len(claim.parts)], claim.wording + 1
    return _with(good(claim, turn), cycle(question(part.stated, n), _lie(part, n)))


Maker = Callable[[TraceClaim, int], Draft | None]
MAKERS: dict[str, Maker] = {
    "good": good,
    "redundant": redundant,
    "hallucinated": hallucinated,
    "non_atomic": non_atomic,
    "dodging": dodging,
    "honest_abstention": honest_abstention,
    "mislabelled": mislabelled,
    "misled": misled,
    "harmful": harmful,
}
"""Kind to its maker; None where a claim allows no such trace. Good is first."""


def _truth(part: Part, wording: int) -> str:
    return yes(part.true, wording) if part.holds else no(part.true, _wrong(part), wording)


def _lie(part: Part, wording: int) -> str:
    """A denial of what holds, with a value that the evidence does not know."""
    return no(part.true.with_value(part.slot, part.lie), part.true.values[part.slot], wording)


def _wrong(part: Part) -> str:
    return part.stated.values[part.slot]


def _with(draft: Draft, extra: Cycle) -> Draft:
    return replace(draft, cycles=(*draft.cycles, extra))


def _at(draft: Draft, place: int, new: Cycle) -> Draft:
    return replace(draft, cycles=(*draft.cycles[:place], new, *draft.cycles[place + 1 :]))
