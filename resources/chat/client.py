"""Batching, storing client for OpenAI-compatible chat endpoints.

Each distinct request is looked up in the reply store, else sent once, however often it is in a
batch or in concurrent batches of other threads. Replies are on disk before they are returned.
Nothing is opened, started or connected before it is needed: a run whose replies are all stored
starts no server and needs no key.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Value
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from resources.chat.budget import Counts, Timing, batch_progress
from resources.chat.connection import LoopThread, clean_key
from resources.chat.reply_store import REPLIES_FILE, ReplyStore
from resources.chat.wire import KeyedRequest, Outcome, as_sent, readable, request_key

if TYPE_CHECKING:
    from resources.chat.calls import Caller

_LOG = logging.getLogger(__name__)
_ATTEMPTS_TO_PARSE = 2  # a request whose reply does not parse is repeated once
_CUT_OFF = ("truncated", "empty")  # by the token limit, or by a thought that used it up
Access = tuple[Sequence[str], SecretStr | None]
"""Endpoints and their key."""


class ChatClient:
    """A ``Chat`` over OpenAI-compatible endpoints. Threads may share one."""

    def __init__(
        self,
        endpoint: Endpoint,
        data: Path | None,
        find_access: Callable[[], Access] | None = None,
        *,
        find_revision: Callable[[], str] | None = None,
        sent_as: str = "",
        needs_logprobs: bool = True,
        timing: Timing | None = None,
    ) -> None:
        """Replies are stored in ``<data>/chat_cache.sqlite`` (None: not at all).

        ``find_access`` gives the URLs and the key, by default the URLs of ``endpoint`` and none; it
        is called before the first request that is sent, and may start a server. The key stays in
        memory and is removed from whatever endpoints say. ``find_revision`` gives the revision of
        stored replies at the first use, in place of the endpoint's; ``sent_as`` is the model's name
        in requests, where it is not that of its stored replies. With ``needs_logprobs`` a reply
        without requested log probabilities is a failure.

        Raises:
            ConfigError: the ceiling in money has no price.
        """
        if endpoint.dollars and endpoint.price is None:
            raise ConfigError(f"a ceiling in money needs a price of '{endpoint.model}'")
        self._endpoint, self._data = endpoint, data
        self._find_access = find_access or (lambda: (endpoint.base_url, None))
        self._find_revision = find_revision or (lambda: endpoint.revision)
        self._sent_as, self._needs_logprobs = sent_as, needs_logprobs
        self._timing = timing or Timing()
        self.counts = Counts()
        """What was done since this object was made."""
        self._opening = threading.Lock()
        # Finding access may start a server: closing must not wait for it.
        self._connecting = threading.Lock()
        self._store: ReplyStore | None = None
        self._connection: tuple[LoopThread, Caller] | None = None
        self._closed = False
        self._warned = ""
        self._flights: dict[str, asyncio.Future[Outcome]] = {}

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @property
    def engine(self) -> str:
        """``chat:<model>``, with the revision where one is set."""
        revision = self._find_revision()
        return f"chat:{self._endpoint.model}" + (f"@{revision}" if revision else "")

    @property
    def store(self) -> ReplyStore | None:
        """The store of replies, opened at the first use; None where nothing is stored.

        Raises:
            ReplyStoreError: the file cannot be used.
        """
        with self._opening:
            if self._store is None and self._data is not None and not self._closed:
                path, revision = self._data / REPLIES_FILE, self._find_revision()
                self._store = ReplyStore(path, self._endpoint.model, revision)
            return self._store

    def details(self) -> Mapping[str, int | float | str]:
        """The counters as ``chat <name>``; empty before the first request."""
        if not self.counts.asked:
            return {}
        return {f"chat {name}": value for name, value in self.counts.metadata().items()}

    def close(self) -> None:
        """Close connections, then the store; idempotent."""
        with self._opening:
            self._closed = True
            connection, store = self._connection, self._store
        with ExitStack() as last_first:
            if store is not None:
                last_first.callback(store.close)
            if connection is not None and not connection[0].closed:
                loop, caller = connection
                last_first.callback(loop.close)
                loop.run(caller.close())

    def recall(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | None]:
        """The stored reply of each request, in order; None where none is usable.

        Raises:
            ConfigError, ReplyStoreError, RuntimeError: as ``complete``.
        """
        keyed = self._keyed(requests, parse)
        distinct = {one.key: one for one in keyed}
        replies = self._stored(distinct)
        found = [replies.get(one.key) for one in keyed]
        known = len(found) - found.count(None)
        self.counts.add(asked=known, hits=len(replies), shared=known - len(replies))
        return found

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | ChatFailure]:
        """One outcome per request, in order; no request raises.

        ``parse`` gives each reply its ``value``, once per reply. Where it raises ``ValueError``
        the request is sent once more, with another seed and the line that names the form
        (``ChatRequest.repeated``); a second failure is ``unparsable``. With
        ``ChatRequest.resample`` a reply that was cut off or empty is repeated too. Whichever reply
        parses is stored under the key of the request as it was given. Failures of a batch are
        logged in one warning.

        Raises:
            ConfigError: how to switch the model's thinking off is not known, or there is no
                endpoint, or no key.
            ReplyStoreError: replies can be neither read nor stored; nothing more is sent.
            RuntimeError: the client was closed.
        """
        keyed = self._keyed(requests, parse)
        if not keyed:
            return []
        distinct = {one.key: one for one in keyed}
        outcomes: dict[str, Outcome] = dict(self._stored(distinct))
        self.counts.add(asked=len(keyed), shared=len(keyed) - len(distinct), hits=len(outcomes))
        rest = [one for key, one in distinct.items() if key not in outcomes]
        if rest:
            outcomes |= self._send_all(rest, len(distinct))
        ordered = [outcomes[one.key] for one in keyed]
        self.counts.fail(failed := [one for one in ordered if isinstance(one, ChatFailure)])
        if failed and (summary := failure_summary(failed, len(ordered))) != self._warned:
            self._warned = summary  # batches of one request would repeat it
            _LOG.warning("%s: %s", self.engine, summary)
        return ordered

    def _keyed(
        self, requests: Sequence[ChatRequest], parse: Parse[Any] | None
    ) -> list[KeyedRequest]:
        if self._closed:
            raise RuntimeError("the chat client was closed")
        model, revision = self._endpoint.model, self._find_revision()
        sent = [as_sent(request, self._endpoint) for request in requests]
        return [
            KeyedRequest(request_key(each, model, revision), each, parse, self._needs_logprobs)
            for each in sent
        ]

    def _stored(self, keyed: dict[str, KeyedRequest]) -> dict[str, ChatReply[Any]]:
        """Stored replies that the parser accepts, by key."""
        if not keyed or self.store is None:
            return {}
        return readable(keyed, self.store.get(list(keyed)))

    def _connected(self) -> "tuple[LoopThread, Caller]":
        """The event loop and the caller on it, made at the first use."""
        with self._connecting:
            if self._connection is None and not self._closed:
                from resources.chat.calls import Caller

                urls, key = self._find_access()
                if not urls:
                    raise ConfigError(f"'{self._endpoint.model}' has no endpoint: set its base_url")
                caller = Caller(
                    self._endpoint,
                    urls,
                    clean_key(key),
                    self.counts,
                    self._timing,
                    sent_as=self._sent_as,
                    needs_logprobs=self._needs_logprobs,
                )
                with self._opening:
                    if not self._closed:
                        self._connection = LoopThread("chat-client"), caller
        if self._connection is None or self._closed:
            raise RuntimeError("the chat client was closed")
        return self._connection

    def _send_all(self, keyed: Sequence[KeyedRequest], total: int) -> dict[str, Outcome]:
        loop, caller = self._connected()
        left = deque(keyed)
        with self.counts.busy(), batch_progress(total, total - len(keyed), self.counts) as step:
            return loop.run(self._work_off(left, caller, step), left.clear)

    async def _work_off(
        self, left: "deque[KeyedRequest]", caller: "Caller", step: Callable[[], None]
    ) -> dict[str, Outcome]:
        """Process the queue with as many workers as calls may be in flight.

        Emptying ``left`` stops them from starting new ones.
        """
        outcomes: dict[str, Outcome] = {}

        async def work() -> None:
            while left:
                keyed = left.popleft()
                outcomes[keyed.key] = await self._answer(keyed, caller)
                step()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._endpoint.concurrency, len(left))):
                    group.create_task(work())
        except ExceptionGroup as several:  # the store broke: one worker's error will do
            raise several.exceptions[0] from None
        return outcomes

    async def _answer(self, keyed: KeyedRequest, caller: "Caller") -> Outcome:
        """The outcome of an equal request in flight, else of sending this one."""
        while (flight := self._flights.get(keyed.key)) is not None:
            await asyncio.wait([flight])
            if flight.cancelled():
                continue  # its batch was given up; this one was not
            shared: Outcome | None = flight.result()
            if isinstance(shared, ChatReply):  # the other batch may have had another parser
                shared, _ = keyed.read(shared)
            if shared is not None:
                self.counts.add(shared=1)
                return shared
        flight = self._flights[keyed.key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._send(keyed, caller)
            flight.set_result(outcome)
        finally:
            del self._flights[keyed.key]
            flight.cancel()
        return outcome

    async def _send(self, keyed: KeyedRequest, caller: "Caller") -> Outcome:
        """Send, and once more as a repeated request where no reply reads; store the reply."""
        # A stored reply counts as the first attempt: another thread or process may have stored
        # one since the batch began, or a new parser may refuse what an old one accepted.
        reply = self._store.get([keyed.key]).get(keyed.key) if self._store else None
        replaced = reply.text if reply is not None else None
        outcome: Outcome | None = reply
        first: ChatFailure | None = None
        request, unread = keyed.request, {"unparsable", *_CUT_OFF * keyed.request.resample}
        for attempt in range(1, _ATTEMPTS_TO_PARSE + 1):
            outcome = outcome or await caller.send(request)
            if isinstance(outcome, ChatReply):
                usable, complaint = keyed.read(outcome)
                if usable is not None:
                    return await self._kept(keyed, usable, replaced)
                outcome = ChatFailure("unparsable", complaint, attempt, outcome.text)
            elif first is not None and outcome.reason == "refused":
                return first  # a longer reply does not fit the context: the first fault is reported
            elif outcome.reason not in unread:
                return outcome
            failure = first = replace(outcome, attempts=attempt)
            cut, switch = failure.reason in _CUT_OFF, self._endpoint.style == "qwen"
            request = as_sent(request.repeated(cut=cut, switch=switch), self._endpoint)
            outcome = None
        return failure

    async def _kept(
        self, keyed: KeyedRequest, reply: ChatReply[Any], replaced: str | None
    ) -> ChatReply[Any]:
        """The reply, on disk; else the one that another process stored first, where it reads."""
        if reply.cached:
            self.counts.add(hits=1)
        elif self._store is not None:
            # Writing may wait for another process, which must not hold up the other requests.
            new = await asyncio.to_thread(
                self._store.put, keyed.key, reply, keyed.request.template, replaced
            )
            if not new:
                return self._stored({keyed.key: keyed}).get(keyed.key, reply)
        return reply


def failure_summary(failed: Sequence[ChatFailure], total: int) -> str:
    """How many requests of a batch failed, why, and what the first of each kind said."""
    times = Counter(one.reason for one in failed)
    details = {one.reason: one.detail for one in reversed(failed)}
    parts = "; ".join(f"{reason} {n} ({details[reason]})" for reason, n in times.most_common())
    return f"{len(failed):,} of {total:,} requests got no reply: {parts}"
