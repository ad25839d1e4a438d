"""Questions with their answers: lines for the next prompt, cycles for the rewards.

The cycles of a trace are ones that ``traces.grammar.build_trace`` can write: our tags are escaped,
white space is single, and an answer that only says that the evidence does not state it becomes "I
don't know." (which rewards read as an abstention). A repeated question stays in the trace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from decomposerl.baselines.method import ClaimInput
from decomposerl.prompts.escape import escaped
from decomposerl.replies.answers import says_unknown
from decomposerl.replies.lines import one_line
from decomposerl.traces.trace import Cycle

Pair = tuple[str, str]

ABSTENTION = "I don't know."
ANSWERED = "The evidence answers this."
NOT_ANSWERED = "The evidence leaves this open."


@dataclass(slots=True)
class Transcript:
    """A method's run so far: the text that the model continues, and the pairs in it."""

    given: ClaimInput
    text: str = ""
    pairs: list[Pair] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """Claim, evidence and the pairs by the names that templates give them."""
        return {**self.given.variables, "qa": qa_lines(self.pairs)}


def qa_lines(pairs: Iterable[Pair]) -> str:
    """``Q1: …`` and ``A1: …`` for each pair, a line each; "none" where there is no pair."""
    lines = (
        f"Q{number}: {one_line(question)}\nA{number}: {one_line(answer)}"
        for number, (question, answer) in enumerate(pairs, start=1)
    )
    return "\n".join(lines) or "none"


def numbered(items: Iterable[str]) -> str:
    """``1. …`` for each item, a line each; "none" where there is no item."""
    lines = (f"{number}. {one_line(item)}" for number, item in enumerate(items, start=1))
    return "\n".join(lines) or "none"


def cycles_of(pairs: Sequence[Pair]) -> tuple[Cycle, ...]:
    """The pairs as cycles of a trace; a pair whose question has no text is left out."""
    return tuple(_cycle(question, answer) for question, answer in pairs if one_line(question))


def thought(text: str) -> str:
    """Any text as the text of one block of a trace: one line, our tags escaped."""
    return escaped(one_line(text))


def repeats(question: str, pairs: Iterable[Pair]) -> bool:
    """Whether a question is one of the pairs', letter case and white space aside."""
    asked = {one_line(earlier).casefold() for earlier, _ in pairs}
    return one_line(question).casefold() in asked


def _cycle(question: str, answer: str) -> Cycle:
    if says_unknown(answer):
        return Cycle(thought(question), ABSTENTION, NOT_ANSWERED)
    return Cycle(thought(question), thought(answer), ANSWERED)
