"""One request to the endpoints: paced, budgeted, sent, retried, within its deadline.

Takes a ``ChatRequest``, gives a ``ChatReply`` or a typed ``ChatFailure``.

Left out deliberately: caches, parsing and equal requests (``resources.chat.client``).
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from resources.chat.budget import Budget, Estimate, Usage
from resources.chat.connection import MOST_BYTES, without_key
from resources.chat.counts import Counts
from resources.chat.endpoints import Endpoint, Endpoints
from resources.chat.faults import Fault, failure_without_key, fault_from
from resources.chat.pace import Pace, Timing, pause_before_retry
from resources.chat.settings import ChatSettings
from resources.chat.wire import arguments_of, fault_of, read_reply

Outcome = ChatReply | ChatFailure


@dataclass(slots=True)
class _Call:
    """One request on its way. ``waiting`` is why it is not being answered right now."""

    request: ChatRequest
    arguments: dict[str, Any]
    estimate: Estimate
    attempt: int = 0
    asked: Endpoint | None = None
    waiting: ChatFailure | None = None


class Caller:
    """Sends requests. To be used inside one event loop."""

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

    async def ask(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but cancellation."""
        try:
            arguments = arguments_of(request, self._settings)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is no JSON: {error}", 0)
        call = _Call(request, arguments, Estimate.of(request))
        try:
            async with asyncio.timeout(None) as deadline:
                return await self._until_answered(call, deadline)
        except TimeoutError:
            return self._overdue(call)

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoints.close()

    async def _until_answered(self, call: _Call, deadline: asyncio.Timeout) -> Outcome:
        while True:
            outcome = await self._attempt(call, deadline)
            if not isinstance(outcome, Fault):
                return outcome
            if not outcome.again or call.attempt >= self._settings.attempts:
                return outcome.failure
            call.waiting = outcome.failure
            if not outcome.pause_s:  # else the endpoint rests, and another may be free
                await self._timing.sleep(pause_before_retry(call.attempt, self._timing.dice))

    async def _attempt(self, call: _Call, deadline: asyncio.Timeout) -> Outcome | Fault:
        """Wait for everything a call needs, then send it.

        The budget comes first: what it refuses takes no time and no part of the pace.
        """
        number = await self._budget.reserve(call.estimate)
        if number is None:
            return ChatFailure("budget", self._budget.spent_at, call.attempt)
        before, sent = call.attempt, None
        try:
            await self._requests.take(1)
            await self._tokens.take(call.estimate.tokens)
            async with self._slots:
                endpoint = await self._endpoints.next()
                if not isinstance(endpoint, Endpoint):
                    self._requests.give_back(1)
                    self._tokens.give_back(call.estimate.tokens)
                    return call.waiting or endpoint
                sent = await self._send(call, endpoint, deadline)
                return sent.result
        finally:
            if call.attempt == before:
                self._budget.release(number)
            else:
                self._account(number, call.estimate, sent)

    def _account(self, number: int, estimate: Estimate, sent: "_Sent | None") -> None:
        """Settle a call that went out; one that was cut off has sent its prompt at least."""
        used = sent.used if sent is not None else None
        if used is None:
            used = Usage(estimate.prompt_tokens, 0, estimated=True)
        self._counts.add(estimated=used.estimated, implausible_usage=used.implausible)
        self._budget.settle(number, used.prompt_tokens, used.completion_tokens)
        self._tokens.give_back(estimate.tokens - used.prompt_tokens - used.completion_tokens)

    async def _send(self, call: _Call, endpoint: Endpoint, deadline: asyncio.Timeout) -> "_Sent":
        MOST_BYTES.set(self._settings.reply_bytes(call.request))
        with endpoint.client() as client:
            started = self._begin(call, endpoint, deadline)
            try:
                raw = await client.chat.completions.with_raw_response.create(**call.arguments)
                latency_s = self._timing.clock() - started
                needs = self._settings.needs_logprobs and call.request.sampling.top_logprobs > 0
                reply, reasoning, used = read_reply(
                    raw.content, latency_s, call.request, needs_logprobs=needs
                )
            except Exception as error:  # noqa: BLE001 - no request raises; the fault is typed
                fault = self._note(fault_from(error, call.attempt), endpoint, started)
                return _Sent(fault, None if fault.charged else Usage(0, 0))
        reply = replace(reply, text=without_key(reply.text, self._key))
        failure = fault_of(reply, reasoning, call.request, self._settings, call.attempt)
        if failure is None:
            endpoint.served(started)
            return _Sent(reply, used)
        fault = Fault(failure, unwell=failure.lasting, lasting=failure.lasting)
        return _Sent(self._note(fault, endpoint, started), used)

    def _begin(self, call: _Call, endpoint: Endpoint, deadline: asyncio.Timeout) -> float:
        """Note that the call goes out; the time of the clock. The deadline starts once."""
        if not call.attempt:
            now = asyncio.get_running_loop().time()
            deadline.reschedule(now + self._settings.call_deadline_s)
        call.attempt += 1
        call.asked, call.waiting = endpoint, None
        self._counts.add(retries=call.attempt > 1)
        return self._timing.clock()

    def _note(self, fault: Fault, endpoint: Endpoint, started: float) -> Fault:
        """Tell the endpoint's circuit, let it rest where it asked to, cut out the key."""
        failure = failure_without_key(fault.failure, self._key)
        if fault.unwell:
            endpoint.circuit.failed(failure.detail, lasting=fault.lasting)
        elif failure.reason != "rate_limited":
            endpoint.served(started)
        if fault.pause_s is not None:
            endpoint.rest(self._timing.clock(), fault.pause_s, failure.detail)
        return replace(fault, failure=failure)

    def _overdue(self, call: _Call) -> ChatFailure:
        """The deadline passed: while waiting, the last fault tells more than the time."""
        if call.waiting is not None:
            return call.waiting
        detail = f"no reply within {self._settings.call_deadline_s:g} s"
        if call.asked is not None:
            call.asked.circuit.failed(detail)
        return ChatFailure("timeout", detail, call.attempt)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What one HTTP request came to, and what is booked for it.

    ``used`` is None where the request arrived and no reply did.
    """

    result: Outcome | Fault
    used: Usage | None
