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
        self._answered = 0

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
                outcomes = self._chat.complete(list(chain.from_iterable(requests)), parse)
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

    def _why_stop(self, outcomes: Sequence[ChatReply[Any] | ChatFailure]) -> str:
        """Why the engine must stop after one more batch with these outcomes; empty: it need not."""
        failed = [each for each in outcomes if isinstance(each, ChatFailure)]
        self._answered += len(outcomes) - len(failed)
        if any(isinstance(each, ChatReply) and not each.cached for each in outcomes):
            self._heard.set()
        self.failures.update(each.reason for each in failed)
        self.examples = {each.reason: each.detail for each in reversed(failed)} | self.examples
        if "budget" in self.failures:
            return f"stopped at the {self.examples['budget']} of one run, as it was set to do"
        lasting = [each for each in failed if each.lasting]
        given_up = any(each.reason == "circuit_open" for each in lasting)
        if lasting and (given_up or not self._heard.is_set()):
            why = f"{lasting[0].reason}: {lasting[0].detail}"
            return f"the endpoint answers no request ({why})"
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
