"""One request to the endpoints: paced, budgeted, sent and retried within its deadline.

A server with more calls than it runs at once queues the rest, in the order of their arrival. That
is no failure: while calls that were sent to the endpoint before this one are answered, its deadline
moves, up to ``queue_deadline_s``. A hung endpoint answers none, and a lost call is not held up by
those behind it.

Stored replies, parsing and equal requests are handled in ``resources.chat.client``.
"""

import asyncio
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from resources.chat.budget import Budget, Counts, Usage
from resources.chat.connection import MOST_BYTES, without_key
from resources.chat.endpoints import (
    Endpoint,
    Endpoints,
    Pace,
    Timing,
    Turn,
    pause_before_retry,
    retry_after_s,
)
from resources.chat.settings import ChatSettings
from resources.chat.wire import Garbled, arguments_of, as_utf8, failure_of, read_reply

if TYPE_CHECKING:
    from openai import APIStatusError

Outcome = ChatReply[Any] | ChatFailure
_SHOWN = 300
_TOO_LONG_ATTEMPTS = 2  # for requests whose replies exceed the size limit
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


@dataclass(frozen=True, slots=True)
class AttemptFault:
    """A failed attempt.

    ``again``: another attempt may help. ``unwell``: the endpoint is at fault, not the request.
    ``pause_s``: the pause it requested, in seconds. ``charged``: the request
    arrived, so it may be billed although no usage came back.
    """

    failure: ChatFailure
    again: bool = False
    unwell: bool = False
    pause_s: float | None = None
    charged: bool = False


@dataclass(slots=True)
class _Pending:
    """A request in progress. ``waiting`` is the last fault while it waits for another attempt."""

    request: ChatRequest
    arguments: dict[str, Any]
    expected: Usage
    attempt: int = 0
    endpoint: Endpoint | None = None
    waiting: ChatFailure | None = None
    turn: Turn = field(default_factory=Turn)
    timer: asyncio.TimerHandle | None = None


class Caller:
    """Sends requests, inside one event loop."""

    def __init__(
        self, settings: ChatSettings, key: SecretStr | None, counts: Counts, timing: Timing
    ) -> None:
        """``counts`` is where calls, retries and usage are counted."""
        self._settings, self._key, self._counts, self._timing = settings, key, counts, timing
        self._endpoints = Endpoints(settings, key, timing)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._requests = Pace(settings.requests_per_minute, timing)
        self._tokens = Pace(settings.tokens_per_minute, timing)
        self._budget = Budget(settings.ceilings, settings.price, counts)

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self._settings)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}", 0)
        call = _Pending(request, arguments, Usage.expected(request))
        try:
            async with asyncio.timeout(None) as deadline:
                return await self._until_answered(call, deadline)
        except TimeoutError:
            return self._overdue(call)
        finally:
            if call.timer is not None:
                call.timer.cancel()

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoints.close()

    async def _until_answered(self, call: _Pending, deadline: asyncio.Timeout) -> Outcome:
        while True:
            outcome = await self._attempt(call, deadline)
            if not isinstance(outcome, AttemptFault):
                return outcome
            if not outcome.again or call.attempt >= self._settings.attempts:
                return outcome.failure
            call.waiting = outcome.failure
            if not outcome.pause_s:  # with a pause this endpoint rests, and another may be free
                await self._timing.sleep(pause_before_retry(call.attempt, self._timing.dice))

    async def _attempt(self, call: _Pending, deadline: asyncio.Timeout) -> Outcome | AttemptFault:
        """Wait for everything a call needs, then send it."""
        # The budget comes first: a call that it refuses uses nothing of the rate limits.
        if not await self._budget.reserve(call.expected):
            return ChatFailure("budget", self._budget.spent_at, call.attempt)
        before, sent = call.attempt, None
        try:
            await self._requests.take(1)
            await self._tokens.take(call.expected.tokens)
            async with self._slots:
                endpoint = await self._endpoints.next()
                if not isinstance(endpoint, Endpoint):
                    self._requests.give_back(1)
                    self._tokens.give_back(call.expected.tokens)
                    return call.waiting or endpoint
                sent = await self._send(call, endpoint, deadline)
                return sent.result
        finally:
            if call.attempt == before:
                self._budget.release(call.expected)
            else:
                self._account(call.expected, sent.used if sent is not None else None)

    def _account(self, expected: Usage, used: Usage | None) -> None:
        """Settle a call that was sent; one that was cut off has at least used its prompt."""
        used = used or replace(expected, completion_tokens=0)
        self._budget.settle(expected, used)
        self._tokens.give_back(expected.tokens - used.tokens)

    async def _send(self, call: _Pending, endpoint: Endpoint, deadline: asyncio.Timeout) -> "_Sent":
        MOST_BYTES.set(self._settings.reply_bytes(call.request))
        with endpoint.client(call.turn) as client:
            started = self._begin(call, endpoint, deadline)
            try:
                raw = await client.chat.completions.with_raw_response.create(**call.arguments)
                latency_s = self._timing.clock() - started
                needs = self._settings.needs_logprobs and call.request.sampling.top_logprobs > 0
                reply, instead, used = read_reply(
                    raw.content, latency_s, call.request, needs_logprobs=needs
                )
                endpoint.answered(call.turn, asyncio.get_running_loop().time())
                known = self._settings.names_the_model(reply.model)
                known = known or await endpoint.lists_one_model(client)
            except Exception as error:  # noqa: BLE001 - no request raises; the fault is typed
                fault = self._note(fault_from(error, call.attempt), endpoint, started)
                return _Sent(fault, None if fault.charged else Usage(0, 0))
        reply = replace(reply, text=without_key(reply.text, self._key))
        failure = failure_of(
            reply, instead, call.request, self._settings, call.attempt, known=known
        )
        if failure is None:
            endpoint.served(started)
            return _Sent(reply, used)
        fault = AttemptFault(failure, unwell=failure.lasting)
        return _Sent(self._note(fault, endpoint, started), used)

    def _begin(self, call: _Pending, endpoint: Endpoint, deadline: asyncio.Timeout) -> float:
        """Record that the call is sent, return the clock's time. Its deadline starts once."""
        if not call.attempt:
            call.turn.since = call.turn.sent = asyncio.get_running_loop().time()
            self._watch(call, deadline)
        call.attempt += 1
        call.endpoint, call.waiting = endpoint, None
        self._counts.add(retries=call.attempt > 1)
        return self._timing.clock()

    def _watch(self, call: _Pending, deadline: asyncio.Timeout) -> None:
        """End the call where its time is over, else look again when it would be."""
        loop = asyncio.get_running_loop()
        each, most = self._settings.call_deadline_s, self._settings.queue_deadline_s
        due = min(call.turn.since + each, call.turn.sent + max(each, most))
        if due <= loop.time():
            deadline.reschedule(due)
        else:
            call.timer = loop.call_at(due, self._watch, call, deadline)

    def _note(self, fault: AttemptFault, endpoint: Endpoint, started: float) -> AttemptFault:
        """Update the endpoint's circuit and rest; return the fault without the key."""
        failure = failure_without_key(fault.failure, self._key)
        if fault.unwell:
            arrived = fault.charged or failure.reason != "transport"
            endpoint.circuit.failed(failure.detail, lasting=failure.lasting, arrived=arrived)
        elif failure.reason != "rate_limited":
            endpoint.served(started)
        if fault.pause_s is not None:
            endpoint.rest(self._timing.clock(), fault.pause_s, failure.detail)
        return replace(fault, failure=failure)

    def _overdue(self, call: _Pending) -> ChatFailure:
        """The failure of a request whose deadline passed: its last fault, else a timeout."""
        if call.waiting is not None:
            return call.waiting
        waited_s = asyncio.get_running_loop().time() - call.turn.sent
        detail = f"no reply within {waited_s:,.1f} s"
        if call.endpoint is not None:
            call.endpoint.circuit.failed(detail)
        return ChatFailure("timeout", detail, call.attempt)


@dataclass(frozen=True, slots=True)
class _Sent:
    """Outcome and usage of one HTTP request; ``used`` is None where no reply came back."""

    result: Outcome | AttemptFault
    used: Usage | None


def fault_from(error: Exception, attempt: int) -> AttemptFault:
    """The fault behind an exception of sending a request or reading its reply."""
    import openai

    from resources.chat.one_host import Redirected, ReplyTooLong

    if isinstance(error, Redirected):
        return AttemptFault(ChatFailure("refused", str(error), attempt, lasting=True), unwell=True)
    if isinstance(error, ReplyTooLong | Garbled):
        again = isinstance(error, Garbled) or attempt < _TOO_LONG_ATTEMPTS
        failure = ChatFailure("server_error", str(error), attempt)
        return AttemptFault(failure, again, unwell=True, charged=True)
    if isinstance(error, openai.APIStatusError):
        return _status_fault(error, attempt)
    if isinstance(error, openai.APIConnectionError):
        name = type(error.__cause__ or error).__name__
        failure = ChatFailure("transport", f"{name}: {error.__cause__ or error}", attempt)
        return AttemptFault(failure, again=True, unwell=True, charged=name not in _NEVER_SENT)
    text = f"the request could not be sent ({type(error).__name__}: {error})"
    return AttemptFault(ChatFailure("refused", text, attempt))


def failure_without_key(failure: ChatFailure, key: SecretStr | None) -> ChatFailure:
    """The failure without the key in its texts, and as valid UTF-8."""
    detail, text = (as_utf8(without_key(part, key)) for part in (failure.detail, failure.text))
    return replace(failure, detail=detail[:_SHOWN], text=text)


def _status_fault(error: "APIStatusError", attempt: int) -> AttemptFault:
    status = error.status_code
    text = f"HTTP {status}: {error.message}"
    busy = status == HTTPStatus.TOO_MANY_REQUESTS
    if busy or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        failure = ChatFailure("rate_limited" if busy else "server_error", text, attempt)
        pause_s = retry_after_s(error.response.headers)
        return AttemptFault(failure, again=True, unwell=not busy, pause_s=pause_s)
    failure = ChatFailure("refused", text, attempt, lasting=status in _LASTING)
    return AttemptFault(failure, unwell=failure.lasting)
