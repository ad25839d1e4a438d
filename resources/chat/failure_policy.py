"""Whether a batch with failures may go on, or must stop and be told to a person.

Takes outcomes, counts them, and raises where going on would turn a wrong key, an outage or
an empty purse into missing answers that nobody notices.

Left out deliberately: which answers are kept (``resources.store.stored_engine``, and the client's cache
for all that came before a stop).
"""

from collections import Counter
from collections.abc import Sequence

from decomposerl.chat import ChatFailure, ChatReply
from decomposerl.errors import EngineError

# These may come of the question; any other reason is the endpoint's.
_OF_THE_QUESTION = {"refused", "empty", "truncated", "unparsable"}
_KEPT = "What was answered is kept, and the next run asks for the rest alone"


class FailurePolicy:
    """The outcomes of one caller since it was made."""

    def __init__(self, most_unanswered: float) -> None:
        """``most_unanswered`` is a share, 0..1; at 1 no share is too large."""
        self._most = most_unanswered
        self._asked = self._answered = 0
        self._lasting, self._given_up = "", False
        self.failures: Counter[str] = Counter()
        """Questions without an answer, by reason."""
        self.examples: dict[str, str] = {}
        """What the first failure of each reason said."""

    def note(self, outcomes: Sequence[ChatReply | ChatFailure]) -> None:
        """Count the outcomes of a batch."""
        self._asked += len(outcomes)
        for one in outcomes:
            if not isinstance(one, ChatFailure):
                self._answered += 1
                continue
            self.failures[one.reason] += 1
            self.examples.setdefault(one.reason, one.detail)
            if one.lasting:
                self._lasting = self._lasting or f"{one.reason}: {one.detail}"
                self._given_up = self._given_up or one.reason == "circuit_open"

    def refuse(self, who: str, answered_before: int = 0) -> None:
        """Raise where the caller must not go on; call it after the answers were handed on.

        ``answered_before`` further questions of the same stage needed no asking.

        Raises:
            EngineError: a ceiling was reached, no endpoint answers, or too few questions
                were answered; the message says which, and what an endpoint said.
        """
        why = self._why(self._asked + answered_before, self._answered + answered_before)
        if why:
            raise EngineError(f"{who}: {why}. {_KEPT}")

    def _why(self, questions: int, answered: int) -> str:
        if self.failures["budget"]:
            return f"stopped at the {self.examples['budget']} of one run, as it was set to do"
        if self._lasting and (self._given_up or not self._answered):
            return f"the endpoint answers no request ({self._lasting})"
        reasons = "; ".join(
            f"{reason} {times} times, for example: {self.examples[reason]}"
            for reason, times in self.failures.most_common()
        )
        if self.failures and not answered and not _OF_THE_QUESTION.issuperset(self.failures):
            return f"not one of {questions:,} requests was answered ({reasons})"
        missing = questions - answered
        if missing > self._most * questions:
            return (
                f"{missing:,} of {questions:,} requests got no answer, more than the share of "
                f"{self._most:g} that most_unanswered allows ({reasons})"
            )
        return ""
