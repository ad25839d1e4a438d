"""Whether a run with failed requests may continue.

It must stop where continuing would turn a wrong key, an outage or a spent budget into missing
answers that nobody notices.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from decomposerl.chat import ChatFailure, ChatReply
from decomposerl.errors import EngineError

# These may be due to the request; any other reason is the endpoint's.
_OF_THE_REQUEST = {"refused", "empty", "truncated", "unparsable"}
_KEPT = "What was answered is kept, and the next run asks for the rest alone"


class FailurePolicy:
    """Counts the outcomes of one caller and decides whether it may continue."""

    def __init__(self, most_unanswered: float) -> None:
        """``most_unanswered`` is a share, 0..1; at 1 no share is too large."""
        self._most = most_unanswered
        self._requests = self._stored = self._answered = 0
        self._lasting, self._given_up = "", False
        self.failures: Counter[str] = Counter()
        """Requests without an answer, by reason."""
        self.examples: dict[str, str] = {}
        """The message of the first failure of each reason."""

    def note(self, outcomes: Sequence[ChatReply[Any] | ChatFailure]) -> None:
        """Count the outcomes of a batch."""
        self._requests += len(outcomes)
        for one in outcomes:
            if not isinstance(one, ChatFailure):
                self._stored += one.cached
                self._answered += not one.cached
                continue
            self.failures[one.reason] += 1
            self.examples.setdefault(one.reason, one.detail)
            if one.lasting:
                self._lasting = self._lasting or f"{one.reason}: {one.detail}"
                self._given_up = self._given_up or one.reason == "circuit_open"

    def check(self, who: str) -> None:
        """Raise where the caller must stop; call it after each batch.

        Raises:
            EngineError: a ceiling was reached, no endpoint answers, or too few requests were
                answered; the message says which, and what an endpoint said.
        """
        why = self._why_stop()
        if why:
            raise EngineError(f"{who}: {why}. {_KEPT}")

    def _why_stop(self) -> str:
        if self.failures["budget"]:
            return f"stopped at the {self.examples['budget']} of one run, as it was set to do"
        # A stored reply does not show that the endpoint answers today.
        if self._lasting and (self._given_up or not self._answered):
            return f"the endpoint answers no request ({self._lasting})"
        reasons = "; ".join(
            f"{reason} {times} times, for example: {self.examples[reason]}"
            for reason, times in self.failures.most_common()
        )
        answered = self._answered + self._stored
        if self.failures and not answered and not _OF_THE_REQUEST.issuperset(self.failures):
            return f"not one of {self._requests:,} requests was answered ({reasons})"
        missing = self._requests - answered
        if missing > self._most * self._requests:
            return (
                f"{missing:,} of {self._requests:,} requests got no answer, more than the share "
                f"of {self._most:g} that most_unanswered allows ({reasons})"
            )
        return ""
