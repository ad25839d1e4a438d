"""Base of the engines that ask a chat model, in batches.

The chat client's store is the engines' memory. A run whose replies are all stored makes no
calls, and a killed run asks only for the rest.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from threading import Event
from typing import Any, Generic, Self, TypeVar

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest, Parse, Value
from decomposerl.errors import EngineError
from decomposerl.progress import bar

Item = TypeVar("Item", bound=Hashable)
# These may be due to the request; any other reason is the endpoint's.
_OF_THE_REQUEST = {"refused", "empty", "truncated", "unparsable"}
_KEPT = "What was answered is kept, and the next run asks for the rest alone"


class ChatEngine(Generic[Item]):
    """What the chat engines of all ports share: counting, batches, and when to stop.

    It stops where continuing would turn a wrong key, an outage or a spent budget into missing
    answers that nobody notices.
    """

    _port: str

    def __init__(self, chat: Chat, batch_size: int = 1024, most_unanswered: float = 1.0) -> None:
        """``batch_size`` items are asked at a time.

        ``most_unanswered`` is a share of all requests, 0..1; at 1 no share is too large.
        """
        self._chat, self._batch_size, self._most_unanswered = chat, batch_size, most_unanswered
        self._heard = Event()  # that the endpoint answers today, shared with ``renewed`` ones
        self._begin()

    def _begin(self) -> None:
        self.calls = 0
        """Items sent to the model since this object was made."""
        self.hits = 0
        """Items answered without the model: stored earlier, or repeated in one pass."""
        self.failures: Counter[str] = Counter()
        """Requests without an answer since then, by reason."""
        self.examples: dict[str, str] = {}
        """The message of the first failure of each reason."""
        self._answered, self._lasting, self._given_up = 0, "", False

    def renewed(self) -> Self:
        """The engine over the same client, so with its limits, and with counts of its own.

        For one of several callers in threads: an outage that one met does not stop the next. A
        reply that one got shows the others, which find it stored, that the endpoint answers.
        """
        own = copy(self)
        own._begin()  # noqa: SLF001 - its own class
        return own

    @property
    def engine(self) -> str:
        """Model, prompts and settings: answers under different ones are never confused."""
        raise NotImplementedError

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
            EngineError: a ceiling was reached, no endpoint answers, or too few requests were
                answered; the message says which, and what an endpoint said.
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
                if why := self._why_stop(outcomes):
                    raise EngineError(f"{self._port} '{self.engine}': {why}. {_KEPT}")
                progress.advance(len(batch))
        return [answers[item] for item in items]

    def _complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value]
    ) -> list[ChatReply[Value] | ChatFailure]:
        """The outcome of each request, in order."""
        return self._chat.complete(requests, parse)

    def _why_stop(self, outcomes: Sequence[ChatReply[Any] | ChatFailure]) -> str:
        """Why the engine must stop after one more batch with these outcomes; empty: it need not."""
        for outcome in outcomes:
            if isinstance(outcome, ChatReply):
                self._answered += 1
                if not outcome.cached:
                    self._heard.set()
                continue
            self.failures[outcome.reason] += 1
            self.examples.setdefault(outcome.reason, outcome.detail)
            if outcome.lasting:
                self._lasting = self._lasting or f"{outcome.reason}: {outcome.detail}"
                self._given_up |= outcome.reason == "circuit_open"
        if self.failures["budget"]:
            return f"stopped at the {self.examples['budget']} of one run, as it was set to do"
        if self._lasting and (self._given_up or not self._heard.is_set()):
            return f"the endpoint answers no request ({self._lasting})"
        reasons = "; ".join(
            f"{reason} {times} times, for example: {self.examples[reason]}"
            for reason, times in self.failures.most_common()
        )
        missing = self.failures.total()
        requests = self._answered + missing
        if missing == requests and not _OF_THE_REQUEST.issuperset(self.failures):
            return f"not one of {requests:,} requests was answered ({reasons})"
        if missing > self._most_unanswered * requests:
            return (
                f"{missing:,} of {requests:,} requests got no answer, more than the share "
                f"of {self._most_unanswered:g} that most_unanswered allows ({reasons})"
            )
        return ""
