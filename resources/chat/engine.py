"""Base of the engines that ask a chat model, in batches.

The chat client's store is the engines' memory. A run whose replies are all stored makes no
calls, and a killed run asks only for the rest.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from threading import Event
from typing import Any, Generic, Protocol, Self, TypeVar

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest, Parse, Value
from decomposerl.errors import EngineError
from decomposerl.progress import bar

Item = TypeVar("Item", bound=Hashable)
# These may be due to the request; any other reason is the endpoint's.
_OF_THE_REQUEST = {"refused", "empty", "truncated", "unparsable"}
_KEPT = "What was answered is kept, and the next run asks for the rest alone"


class StoringChat(Chat, Protocol):
    """A ``Chat`` that stores its replies and counts what it does."""

    def recall(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | None]:
        """The stored reply of each request, in order; None where none is usable."""
        ...

    def details(self) -> Mapping[str, int | float | str]:
        """Counters by name."""
        ...


class FailurePolicy:
    """Counts the outcomes of one caller and decides whether it may continue.

    It must stop where continuing would turn a wrong key, an outage or a spent budget into
    missing answers that nobody notices.
    """

    def __init__(self, most_unanswered: float, heard: Event | None = None) -> None:
        """``most_unanswered`` is a share, 0..1; at 1 no share is too large.

        ``heard`` is another caller's ``helped``, set when this one is answered.
        """
        self.most_unanswered = most_unanswered
        self.helped, self._heard = Event(), heard or Event()
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
                if not one.cached:
                    self._heard.set()
                continue
            self.failures[one.reason] += 1
            self.examples.setdefault(one.reason, one.detail)
            if one.lasting:
                self._lasting = self._lasting or f"{one.reason}: {one.detail}"
                self._given_up = self._given_up or one.reason == "circuit_open"

    def forget(self, reasons: Sequence[str]) -> None:
        """Take back requests that failed for these reasons, as they are sent once more."""
        self._requests -= len(reasons)
        self.failures -= Counter(reasons)

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
        # A stored reply does not show that the endpoint answers today, unless a helper got it.
        unheard = not self._answered and not self.helped.is_set()
        if self._lasting and (self._given_up or unheard):
            return f"the endpoint answers no request ({self._lasting})"
        reasons = "; ".join(
            f"{reason} {times} times, for example: {self.examples[reason]}"
            for reason, times in self.failures.most_common()
        )
        answered = self._answered + self._stored
        if self.failures and not answered and not _OF_THE_REQUEST.issuperset(self.failures):
            return f"not one of {self._requests:,} requests was answered ({reasons})"
        missing = self._requests - answered
        if missing > self.most_unanswered * self._requests:
            return (
                f"{missing:,} of {self._requests:,} requests got no answer, more than the share "
                f"of {self.most_unanswered:g} that most_unanswered allows ({reasons})"
            )
        return ""


class ChatEngine(Generic[Item]):
    """What the chat engines of all ports share: counting, batches, and when to stop."""

    _port: str

    def __init__(
        self, chat: StoringChat, batch_size: int = 1024, most_unanswered: float = 1.0
    ) -> None:
        """``batch_size`` items are asked at a time; ``most_unanswered`` as ``FailurePolicy``."""
        self._chat, self._batch_size = chat, batch_size
        self._policy = FailurePolicy(most_unanswered)
        self.calls = 0
        """Items sent to the model since this object was made."""
        self.hits = 0
        """Items answered without the model: stored earlier, or repeated in one pass."""

    def renewed(self) -> Self:
        """The engine over the same client, so with its limits, and with counts of its own.

        For one of several callers in threads: an outage that one met does not stop the next. A
        reply that one got shows this engine, which finds it stored, that the endpoint answers.
        """
        own, known = copy(self), self._policy
        own._policy = FailurePolicy(known.most_unanswered, known.helped)  # noqa: SLF001 - its own class
        own.calls = own.hits = 0
        return own

    @property
    def engine(self) -> str:
        """Model, prompts and settings: answers under different ones are never confused."""
        raise NotImplementedError

    @property
    def failures(self) -> Counter[str]:
        """Requests without an answer since this object was made, by reason."""
        return self._policy.failures

    def details(self) -> Mapping[str, int | float | str]:
        """What else was counted, by name: HTTP calls, money, failures."""
        return self._chat.details()

    def _answers(
        self,
        items: Sequence[Item],
        requests_of: Callable[[Item], Sequence[ChatRequest]],
        parse: Parse[Value],
    ) -> list[list[Value | ChatFailure]]:
        """The values, or failures, of each item's requests, in order.

        Raises:
            EngineError: the run must stop (``FailurePolicy``); what was answered is stored.
        """
        answers: dict[Item, list[Value | ChatFailure]] = {}
        distinct = list(dict.fromkeys(items))
        self.hits += len(items) - len(distinct)
        with bar(self._port, len(distinct)) as progress:
            for start in range(0, len(distinct), self._batch_size):
                batch = distinct[start : start + self._batch_size]
                requests = [list(requests_of(item)) for item in batch]
                outcomes = self._complete(list(chain.from_iterable(requests)), parse)
                left = iter(outcomes)
                for item, own in zip(batch, requests, strict=True):
                    replies = list(islice(left, len(own)))
                    stored = all(isinstance(each, ChatReply) and each.cached for each in replies)
                    self.calls, self.hits = self.calls + (not stored), self.hits + stored
                    # Values alone: the replies of a whole stage would fill the memory.
                    answers[item] = [
                        each if isinstance(each, ChatFailure) else each.value for each in replies
                    ]
                self._policy.note(outcomes)
                self._policy.check(f"{self._port} '{self.engine}'")
                progress.advance(len(batch))
        return [answers[item] for item in items]

    def _complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value]
    ) -> list[ChatReply[Value] | ChatFailure]:
        """The outcome of each request, in order."""
        return self._chat.complete(requests, parse)
