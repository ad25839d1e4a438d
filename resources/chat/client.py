"""Batching, storing client for OpenAI-compatible chat endpoints.

Each distinct request is looked up in the reply store, else sent once, however often it is in a
batch or in concurrent batches of other threads. Replies are on disk before they are returned.
Nothing is opened, started or connected before it is needed: a run whose replies are all stored
starts no server and needs no key.
"""

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Price, Value
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.progress import Bar, bar
from resources.chat.connection import LoopThread, key_of
from resources.chat.reply_store import REPLIES_FILE, ReplyStore
from resources.chat.wire import Counts, Outcome, as_sent, as_utf8, request_key

if TYPE_CHECKING:
    from resources.chat.calls import Sender

_LOG = logging.getLogger(__name__)
_LEAST_SHOWN = 16  # requests of a batch whose progress is shown
_CUT_OFF = ("truncated", "empty")  # by the token limit, or by a thought that used it up
Keyed = dict[str, ChatRequest]  # each distinct request as it is sent, by the key of its reply


class ChatClient(AbstractContextManager["ChatClient"]):
    """A ``Chat`` over OpenAI-compatible endpoints. Threads may share one."""

    def __init__(
        self,
        endpoint: Endpoint,
        data: Path | None,
        find_access: Callable[[], tuple[Sequence[str], SecretStr]] | None = None,
        *,
        find_revision: Callable[[], str] | None = None,
        sent_as: str = "",
        needs_logprobs: bool = True,
        retries: int = 4,
        cooldown_s: float = 10.0,
    ) -> None:
        """Replies are stored in ``<data>/chat_cache.sqlite`` (None: not at all).

        ``find_access`` gives the URLs and the key, by default those of ``endpoint``; it is called
        before the first request that is sent, and may start a server. The key stays in memory and
        is removed from whatever endpoints say. ``find_revision`` gives the revision of
        stored replies at the first use, in place of the endpoint's; ``sent_as`` is the model's name
        in requests, where it is not that of its stored replies. With ``needs_logprobs`` a reply
        without requested log probabilities is a failure. ``retries`` are those of the openai
        package; endpoints that fail one request after the other are left alone for ``cooldown_s``.

        Raises:
            ConfigError: the ceiling in money has no price.
        """
        if endpoint.dollars and endpoint.price is None:
            raise ConfigError(f"a ceiling in money needs a price of '{endpoint.model}'")
        self._endpoint, self._data = endpoint, data
        self._find_access = find_access or (lambda: (endpoint.base_url, key_of(endpoint)))
        self._find_revision = find_revision or (lambda: endpoint.identity)
        self._needs_logprobs, self._sending = needs_logprobs, (sent_as, retries, cooldown_s)
        self.counts = Counts()
        """What was done since this object was made."""
        self._opening = threading.Lock()
        self._store: ReplyStore | None = None
        self._loop: LoopThread | None = None
        self._sender: Sender  # of the loop
        self._flights: dict[str, asyncio.Task[Outcome]] = {}  # of the loop
        self._closed, self._warned = False, ""

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
            EngineError: the file cannot be used.
        """
        if self._store is None and self._data is not None:
            with self._opening:
                if self._store is None and not self._closed:
                    path, revision = self._data / REPLIES_FILE, self._find_revision()
                    self._store = ReplyStore(path, self._endpoint.model, revision)
        return self._store

    def details(self) -> Mapping[str, int | float | str]:
        """The counters as ``chat <name>``; empty before the first request."""
        if not self.counts["asked"]:
            return {}
        tokens = self.counts["prompt_tokens"], self.counts["completion_tokens"]
        money = {"money_usd": (self._endpoint.price or Price()).dollars(*tokens)}
        return {f"chat {name}": round(n, 6) for name, n in (self.counts | money).items()}

    def close(self) -> None:
        """Close connections, then the store; idempotent."""
        # Without the lock, which may wait for a server: what is opened meanwhile is closed there.
        self._closed = True
        try:
            if self._loop is not None and not self._loop.closed:
                self._loop.run(self._sender.close())
                self._loop.close()
        finally:
            if self._store is not None:
                self._store.close()

    def recall(self, requests: Sequence[ChatRequest]) -> list[ChatReply[None] | None]:
        """The stored reply of each request, in order; None where none is stored.

        Raises:
            ConfigError, EngineError, RuntimeError: as ``complete``.
        """
        keys, distinct = self._keyed(requests)
        replies = self._stored(distinct, None)
        return [replies.get(key) for key in keys]

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | ChatFailure]:
        """As ``Chat``; failures of a batch are logged in one warning.

        Raises:
            ConfigError: how to switch the model's thinking off is not known, or there is no
                endpoint, or no key.
            EngineError: replies can be neither read nor stored; nothing more is sent.
            RuntimeError: the client was closed.
        """
        keys, distinct = self._keyed(requests)
        outcomes: dict[str, Outcome] = dict(self._stored(distinct, parse))
        self.counts.add(asked=len(keys), shared=len(keys) - len(distinct), hits=len(outcomes))
        left = {key: asked for key, asked in distinct.items() if key not in outcomes}
        if left:
            loop = self._connected()
            known = len(outcomes) if len(distinct) >= _LEAST_SHOWN else len(distinct)
            with bar("chat", len(distinct), "requests", known) as shown:
                outcomes |= loop.run(self._work_off(left, parse, shown))
        ordered = [outcomes[key] for key in keys]
        if failed := [each for each in ordered if isinstance(each, ChatFailure)]:
            self._warn(failed, len(ordered))
        return ordered

    def _warn(self, failed: Sequence[ChatFailure], total: int) -> None:
        """Count a batch's failures; say how many, why, and what the first of each kind said."""
        times = Counter(each.reason for each in failed)
        self.counts.add(**{f"failed_{reason}": number for reason, number in times.items()})
        said = {each.reason: each.detail for each in reversed(failed)}
        parts = "; ".join(f"{reason} {n} ({said[reason]})" for reason, n in times.most_common())
        summary = f"{len(failed):,} of {total:,} requests got no reply: {parts}"
        if summary != self._warned:
            self._warned = summary  # batches of one request would repeat it
            _LOG.warning("%s: %s", self.engine, summary)

    def _keyed(self, requests: Sequence[ChatRequest]) -> tuple[list[str], Keyed]:
        """The key of each request, in order, and each distinct one."""
        if self._closed:
            raise RuntimeError("the chat client was closed")
        model, revision = self._endpoint.model, self._find_revision()
        sent = [as_sent(request, self._endpoint) for request in requests]
        keys = [request_key(request, model, revision) for request in sent]
        return keys, dict(zip(keys, sent, strict=True))

    def _stored(self, requests: Keyed, parse: Parse[Any] | None) -> dict[str, ChatReply[Any]]:
        """Stored replies that the parser accepts, by key."""
        if not requests or self.store is None:
            return {}
        stored = self.store.get(list(requests))
        read = ((key, self._read(requests[key], parse, stored[key])) for key in stored)
        return {key: reply for key, reply in read if isinstance(reply, ChatReply)}

    def _read(self, request: ChatRequest, parse: Parse[Any] | None, outcome: Outcome) -> Outcome:
        """The reply, received or stored, with its value; else why it is unusable."""
        if isinstance(outcome, ChatFailure):
            return outcome
        given = outcome.tokens and outcome.tokens[0].alternatives
        if self._needs_logprobs and request.sampling.top_logprobs > 0 and not given:
            text = "the reply has no log probabilities of its first token; vLLM gives them"
            return ChatFailure("no_logprobs", text, outcome.text, lasting=True)
        try:
            value = parse(outcome) if parse is not None else None
            # Every table must be able to hold what the parser returns.
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError:
            complaint = "the reply holds half a surrogate pair, which cannot be stored"
        except (ValueError, RecursionError) as error:  # the latter from deep nesting
            complaint = as_utf8(str(error)) or type(error).__name__
        else:
            return replace(outcome, value=value)
        return ChatFailure("unparsable", complaint, outcome.text)

    def _connected(self) -> LoopThread:
        """The event loop, and the sender on it, made at the first use."""
        with self._opening:
            if self._loop is None and not self._closed:
                from resources.chat.calls import Sender

                urls, key = self._find_access()
                if not urls:
                    raise ConfigError(f"'{self._endpoint.model}' has no endpoint: set its base_url")
                self._sender = Sender(self._endpoint, urls, key, self.counts, *self._sending)
                self._loop = LoopThread("chat-client")
        if self._loop is None or self._closed:
            self.close()
            raise RuntimeError("the chat client was closed")
        return self._loop

    async def _work_off(
        self, left: Keyed, parse: Parse[Any] | None, shown: Bar
    ) -> dict[str, Outcome]:
        """The outcomes by key, with as many workers as calls may be in flight."""
        outcomes, queue = dict[str, Outcome](), iter(left.items())

        async def work() -> None:
            for key, request in queue:
                outcomes[key] = await self._answer(key, request, parse)
                shown.advance()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._endpoint.concurrency, len(left))):
                    group.create_task(work())
        except ExceptionGroup as several:  # the store broke: one worker's error will do
            raise several.exceptions[0] from None
        return outcomes

    async def _answer(self, key: str, request: ChatRequest, parse: Parse[Any] | None) -> Outcome:
        """The outcome of an equal request in flight, else of sending this one."""
        while (flight := self._flights.get(key)) is not None:
            await asyncio.wait([flight])
            if flight.cancelled() or flight.exception():
                continue  # its batch was given up; this one was not
            outcome = flight.result()
            # The other batch may have had another parser.
            shared = self._read(request, parse, outcome)
            if isinstance(shared, ChatReply) or shared is outcome:
                self.counts.add(shared=1)
                return shared
        flight = self._flights[key] = asyncio.ensure_future(self._sent(key, request, parse))
        flight.add_done_callback(lambda _: self._flights.pop(key))
        return await flight

    async def _sent(self, key: str, request: ChatRequest, parse: Parse[Any] | None) -> Outcome:
        """The usable reply, on disk; where the first does not read, one more request is sent."""
        # A stored reply counts as the first attempt: another thread or process may have stored
        # one since the batch began, or a new parser may refuse what an old one accepted.
        stored = self._store.get([key]).get(key) if self._store else None
        outcome = self._read(request, parse, stored or await self._sender.send(request))
        unread = {"unparsable", *_CUT_OFF * request.resample}
        unread |= {"no_logprobs"} if stored else set()  # it was kept for one that needs none
        if isinstance(outcome, ChatFailure) and outcome.reason in unread:
            cut, switch = outcome.reason in _CUT_OFF, self._endpoint.style == "qwen"
            again = as_sent(request.repeated(cut=cut, switch=switch), self._endpoint)
            second = self._read(request, parse, await self._sender.send(again))
            # Where a longer reply does not fit the context, the first fault is the cause.
            if isinstance(second, ChatReply) or second.reason != "refused":
                outcome = second
        if isinstance(outcome, ChatFailure):
            return outcome
        if outcome.cached:
            self.counts.add(hits=1)
        elif self._store is not None:
            # Writing may wait for another process, which must not hold up the other requests.
            put, rejected = self._store.put, stored.text if stored else None
            if not await asyncio.to_thread(put, key, outcome, request.template, rejected):
                # Another process stored a reply first: where it reads, it is that one.
                outcome = self._stored({key: request}, parse).get(key, outcome)
        return outcome
