"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection, a body that is no
reply) and waits as long as ``Retry-After`` says. What it does not know is here: each of its calls
is counted, accounted and read; the least loaded endpoint gets a request, and one that fails all
calls gets none until it is well again. This module loads the package, so it is imported late.

A server with more calls than it runs at once queues the rest, in the order of their arrival. That
is no failure: while calls that were sent to the endpoint before this one are answered, its deadline
moves, up to ``queue_deadline_s``. A hung endpoint answers none, and a lost call is not held up by
those behind it.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    OpenAIError,
)
from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from decomposerl.endpoint import Endpoint
from resources.chat.budget import Budget, Counts, Pace, Timing, Usage
from resources.chat.connection import MOST_BYTES, without_key
from resources.chat.one_host import OneHost, Redirected, ReplyTooLong, openai_client
from resources.chat.wire import (
    Garbled,
    Outcome,
    arguments_of,
    as_utf8,
    failure_of,
    names_the_model,
    read_reply,
)

DOWN_AFTER = 10
"""Calls in a row without a reply after which an endpoint is down."""
LANE_WIDTH = 16
"""Most calls over one connection pool: the cost per call grows with a pool's connections."""
_UNREACHED_S = 10.0
"""Most seconds to wait for an endpoint that no call has reached: wrong address, or not started."""
_SHOWN = 300
_FRAME_BYTES = 2**18  # what the endpoint adds to the model's text: headers, filters, echoes
_BYTES_A_TOKEN = 256  # of JSON-escaped text, twice where reasoning has two names
_UNREAD = "x-no-completion"
_FREE = Usage(0, 0)
_OF_ENDPOINT = {"transport", "rate_limited", "server_error", "budget"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class CeilingReached(OpenAIError):  # noqa: N818 - the name is what happened
    """A ceiling refuses another call. Never retried by the package."""


@dataclass(eq=False, slots=True)
class Call:
    """A request in progress, with the times of the event loop at which it was sent.

    ``since`` is that of its first attempt, or of the latest reply to a call ahead of it. ``fault``
    is why it waits for an endpoint once more.
    """

    request: ChatRequest
    expected: Usage
    attempts: int = 0
    tokens: int = 0
    sent: float = 0.0
    since: float = 0.0
    reply: ChatReply[None] | None = None
    instead: str = ""
    host: "Host | ChatFailure | None" = None
    fault: ChatFailure | None = None
    deadline: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    timer: asyncio.TimerHandle | None = None


_CALL: ContextVar[Call] = ContextVar("_CALL")


@dataclass(eq=False)
class Host:
    """One base URL: its connections, the calls that it has to answer in order, and its health.

    ``faults`` are its latest calls without a reply; ``down_since`` is when they were too many, long
    ago for a fault that lasts, None while it is well.
    """

    url: str
    caller: "Caller" = field(repr=False)
    faults: int = 0
    fault: str = ""
    down_since: float | None = None
    ready_at: float = -math.inf
    reached: bool = False
    lists_one: bool | None = None
    clients: list[AsyncOpenAI] = field(default_factory=list, repr=False)
    running: dict[Call, AsyncOpenAI] = field(default_factory=dict, repr=False)

    @contextmanager
    def client(self, call: Call) -> Iterator[AsyncOpenAI]:
        """A client of the openai package for one call, which is ``running`` meanwhile."""
        loads = Counter(self.running.values())
        client = min(self.clients, key=loads.__getitem__, default=None)
        if client is None or loads[client] >= LANE_WIDTH:
            client = self.caller.client_of(self)
            self.clients.append(client)
        self.running[call] = client
        try:
            yield client
        finally:
            del self.running[call]

    def answered(self, call: Call) -> None:
        """It answered a call, whatever it said: those that were sent after it have moved up."""
        self.reached = True
        now = asyncio.get_running_loop().time()
        for behind in reversed(self.running):
            if behind is call:
                return
            behind.since = now

    def succeeded(self) -> None:
        """It served a request, so it is well."""
        self.faults, self.down_since, self.ready_at = 0, None, -math.inf

    def failed(self, timing: Timing, *, lasting: bool = False) -> None:
        """It failed a call; waiting does not help against a ``lasting`` fault (a wrong key)."""
        self.faults += 1
        if self.faults >= DOWN_AFTER and self.down_since is None:
            self.down_since = -math.inf if lasting else timing.clock()
            self.ready_at = timing.clock() + timing.cooldown_s

    async def lists_one_model(self, client: AsyncOpenAI) -> bool:
        """Whether it lists a single model, which then answers by whatever name it reports."""
        if self.lists_one is None:
            try:
                raw = await client.models.with_raw_response.list()
                self.lists_one = len(json.loads(raw.content)["data"]) == 1
            except Exception:  # noqa: BLE001 - without a list nothing is known of its names
                return False
        return self.lists_one


class _Metered(OneHost):
    """The HTTP client below the openai package: each call that it makes is counted and read."""

    def __init__(self, host: Host) -> None:
        """The client of an endpoint; the caller of a request bounds its time."""
        super().__init__(host.url, None)
        self._host = host

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The response, or a server's fault (502) where its body is no reply: that is retried.

        Raises:
            CeilingReached: no further call is allowed.
        """
        if request.method != "POST":  # the list of models
            return await super().send(request, **how)
        call, host, caller = _CALL.get(), self._host, self._host.caller
        caller.begin(call)
        response: Any = None
        # Whatever comes of it, the endpoint may have read the prompt and charge for it.
        used = replace(call.expected, completion_tokens=0)
        try:
            started = caller.timing.clock()
            response = await super().send(request, **how)
            host.answered(call)
            if response.is_error:
                used = _FREE
            else:
                latency_s = caller.timing.clock() - started
                call.reply, call.instead, used = caller.read(
                    response.content, latency_s, call.request
                )
        except Garbled as error:
            text = str(error).encode("utf-8", "replace")
            response = type(response)(
                HTTPStatus.BAD_GATEWAY, headers={_UNREAD: "yes"}, content=text, request=request
            )
        except Exception as error:
            if type(error).__name__ in _NEVER_SENT:
                used = _FREE
            host.reached |= used is not _FREE
            raise
        finally:
            if response is None or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                host.failed(caller.timing)
            caller.account(call, used)
        return response


class Caller:
    """Sends requests, inside one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        urls: Sequence[str],
        key: SecretStr | None,
        counts: Counts,
        timing: Timing,
        *,
        sent_as: str,
        needs_logprobs: bool,
    ) -> None:
        """``counts`` is where calls, retries and usage are counted; as in ``ChatClient``."""
        self._endpoint, self._key, self._name = endpoint, key, sent_as or endpoint.model
        self.timing, self.needs_logprobs = timing, needs_logprobs
        self.hosts = [Host(url, self) for url in urls]
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._requests = Pace(endpoint.requests_per_minute, timing)
        self._tokens = Pace(endpoint.tokens_per_minute, timing)
        self._budget = Budget(endpoint, counts)

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self._endpoint, self._name)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}", 0)
        call = Call(request, Usage.expected(request))
        # The budget comes first: a call that it refuses uses nothing of the rate limits.
        if not await self._budget.reserve(call.expected):
            return ChatFailure("budget", self._budget.spent_at, 0)
        try:
            async with call.deadline:
                await self._requests.take(1)
                await self._tokens.take(call.expected.tokens)
                async with self._slots:
                    return await self._answer(call, arguments)
        except TimeoutError:
            return self._overdue(call)
        finally:
            if call.timer is not None:
                call.timer.cancel()
            if not call.attempts:
                self._requests.give_back(1)
            self._tokens.give_back(call.expected.tokens - call.tokens)
            self._budget.release(call.expected, sent=call.attempts > 0)

    async def close(self) -> None:
        """Close all connections."""
        for host in self.hosts:
            while host.clients:
                await host.clients.pop().close()

    def client_of(self, host: Host) -> AsyncOpenAI:
        """A client of the openai package with a connection pool of its own."""
        return openai_client(host.url, self._key, _Metered(host), retries=self.timing.retries)

    def begin(self, call: Call) -> None:
        """Count one call of the package for a request, whose deadline starts with the first.

        Raises:
            CeilingReached: a ceiling refuses a retry.
        """
        if not call.attempts:
            call.sent = call.since = asyncio.get_running_loop().time()
            self._watch(call)
        elif reached := self._budget.retry():
            raise CeilingReached(reached)
        call.attempts += 1
        MOST_BYTES.set(reply_bytes(call.request, self._endpoint.most_reply_bytes))

    def account(self, call: Call, used: Usage) -> None:
        """Account what one call of the package used."""
        call.tokens += used.tokens
        self._budget.spend(used)

    def read(
        self, body: bytes, latency_s: float, request: ChatRequest
    ) -> tuple[ChatReply[None], str, Usage]:
        """The reply in a body, as ``read_reply``."""
        needed = self.needs_logprobs and request.sampling.top_logprobs > 0
        return read_reply(body, latency_s, request, needs_logprobs=needed)

    async def _answer(self, call: Call, arguments: dict[str, Any]) -> Outcome:
        """Its outcome; a request that failed at an endpoint that is down goes to the next one."""
        _CALL.set(call)
        while True:
            call.host = host = await self.next_host()
            if not isinstance(host, Host):
                return call.fault or host
            with host.client(call) as client:
                try:
                    await client.chat.completions.with_raw_response.create(**arguments)
                    outcome = await self._outcome(call, host, client)
                except Exception as error:  # noqa: BLE001 - no request raises
                    outcome = _failure_from(error, call.attempts)
            if not isinstance(outcome, ChatFailure):
                host.succeeded()
                return outcome
            outcome = failure_without_key(outcome, self._key)
            host.fault = outcome.detail
            if outcome.lasting:
                host.failed(self.timing, lasting=True)
            elif outcome.reason not in _OF_ENDPOINT:
                host.succeeded()
            elif outcome.reason != "budget" and host.down_since is not None:
                call.fault = outcome
                continue
            return outcome

    async def _outcome(self, call: Call, host: Host, client: AsyncOpenAI) -> Outcome:
        """The reply that was received, or why it cannot be used."""
        assert call.reply is not None  # noqa: S101 - a response without one is a server's fault
        known = names_the_model(self._endpoint, self._name, call.reply.model)
        known = known or await host.lists_one_model(client)
        reply = replace(call.reply, text=without_key(call.reply.text, self._key))
        failure = failure_of(
            reply,
            call.instead,
            call.request,
            attempts=call.attempts,
            unknown="" if known else self._name,
            needs_logprobs=self.needs_logprobs,
        )
        return failure or reply

    async def next_host(self) -> Host | ChatFailure:
        """The endpoint to call now, waiting while all are down; a failure if none is well soon."""
        while True:
            now = self.timing.clock()
            ready = [host for host in self.hosts if host.ready_at <= now]
            if ready:
                chosen = min(ready, key=lambda host: len(host.running))
                if chosen.down_since is not None:  # one call tries it; the others wait on
                    chosen.ready_at = now + self.timing.cooldown_s
                return chosen
            if all(self._given_up(host, now) for host in self.hosts):
                faults = "; ".join(sorted({host.fault for host in self.hosts}))
                lasting = all(host.down_since == -math.inf for host in self.hosts)
                detail = f"no endpoint can be asked at present: {faults}"
                return ChatFailure("circuit_open", detail, 0, lasting=lasting)
            await self.timing.sleep(min(host.ready_at for host in self.hosts) - now)

    def _given_up(self, host: Host, now: float) -> bool:
        patience_s = self.timing.patience_s
        patience_s = patience_s if host.reached else min(patience_s, _UNREACHED_S)
        return host.down_since is not None and now - host.down_since >= patience_s

    def _watch(self, call: Call) -> None:
        """End the call where its time is over, else look again when it would be."""
        loop = asyncio.get_running_loop()
        each, most = self._endpoint.deadline_s, self._endpoint.queue_deadline_s
        due = min(call.since + each, call.sent + max(each, most))
        if due <= loop.time():
            call.deadline.reschedule(due)
        else:
            call.timer = loop.call_at(due, self._watch, call)

    def _overdue(self, call: Call) -> ChatFailure:
        """The failure of a request whose deadline passed: its last fault, else a timeout."""
        if call.fault is not None:
            return call.fault
        waited_s = asyncio.get_running_loop().time() - call.sent
        detail = f"no reply within {waited_s:,.1f} s"
        if isinstance(call.host, Host):
            call.host.fault = detail
        return ChatFailure("timeout", detail, call.attempts)


def reply_bytes(request: ChatRequest, most: int) -> int:
    """The most bytes that the body of a reply may have, a multiple of what it can need."""
    likely = request.sampling.top_logprobs
    tokens = request.sampling.max_tokens * (2 + likely if likely else 1)
    return min(most, _FRAME_BYTES + _BYTES_A_TOKEN * tokens)


def failure_without_key(failure: ChatFailure, key: SecretStr | None) -> ChatFailure:
    """The failure without the key in its texts, and as valid UTF-8."""
    detail, text = (as_utf8(without_key(part, key)) for part in (failure.detail, failure.text))
    return replace(failure, detail=detail[:_SHOWN], text=text)


def _failure_from(error: Exception, attempts: int) -> ChatFailure:
    """What an exception of the openai package says of a request."""
    match error:
        case CeilingReached():
            return ChatFailure("budget", str(error), attempts)
        case APIStatusError():
            return _status_failure(error, attempts)
        case ReplyTooLong():
            return ChatFailure("server_error", str(error), attempts)
        case Redirected():
            return ChatFailure("refused", str(error), attempts, lasting=True)
        case APIConnectionError():
            cause = error.__cause__ or error
            return ChatFailure("transport", f"{type(cause).__name__}: {cause}", attempts)
    text = f"the request could not be sent ({type(error).__name__}: {error})"
    return ChatFailure("refused", text, attempts)


def _status_failure(error: APIStatusError, attempts: int) -> ChatFailure:
    status = error.status_code
    text = error.message if _UNREAD in error.response.headers else f"HTTP {status}: {error.message}"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ChatFailure("rate_limited", text, attempts)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ChatFailure("server_error", text, attempts)
    return ChatFailure("refused", text, attempts, lasting=status in _LASTING)
