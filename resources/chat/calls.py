"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection, a body that is no
reply) and waits as long as ``Retry-After`` says. What it does not know is here: each of its calls
is counted, accounted and read; the least loaded endpoint gets a request, and one that fails all
calls gets none until it is well again. This module loads the package, so it is imported late.

``OneHost``, the HTTP client below the package, talks to one host and reads bounded replies. A
redirect is refused: prompt and key would follow it to a host that nobody configured. No cookie is
kept. The size limit counts decoded bytes, so compression cannot bypass it, and of a refusal (status
400 and above) only the beginning is read.

A server with more calls than it runs at once queues the rest, in the order of their arrival. That
is no failure: while calls that were sent to the endpoint before this one are answered, its deadline
moves, up to ``queue_deadline_s``. A hung endpoint answers none, and a lost call is not held up by
those behind it.
"""

import asyncio
import json
import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    OpenAIError,
)
from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from decomposerl.endpoint import Endpoint
from resources.chat.budget import Budget, Counts, Pace, Timing, Usage
from resources.chat.connection import MOST_BYTES, NO_KEY, is_loopback, moved, without_key
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
_UNREACHED_S = 10.0
"""Most seconds to wait for an endpoint that no call has reached: wrong address, or not started."""
REFUSAL_BYTES = 2**16
_SHOWN = 300
_FRAME_BYTES = 2**18  # what the endpoint adds to the model's text: headers, filters, echoes
_BYTES_A_TOKEN = 256  # of JSON-escaped text, twice where reasoning has two names
_UNREAD = "x-no-completion"
_FREE = Usage(0, 0)
_OF_ENDPOINT = {"transport", "rate_limited", "server_error"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class Redirected(OpenAIError):  # noqa: N818 - the name is what happened
    """The endpoint redirects; the target was not called. Never retried by the package."""


class ReplyTooLong(OpenAIError):  # noqa: N818 - the same
    """A reply's body exceeded its limit and was cut off. Never retried by the package."""


class CeilingReached(OpenAIError):  # noqa: N818 - the same
    """A ceiling refuses another call. Never retried by the package."""


class OneHost(DefaultAsyncHttpxClient):
    """The openai package's HTTP client, within these bounds."""

    def __init__(self, url: str, deadline_s: float | None) -> None:
        """``deadline_s`` bounds one request and all of its reply; None: the caller does."""
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(trust_env=not is_loopback(url), follow_redirects=False, cookies=jar)
        self._deadline_s = deadline_s

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The whole reply; ``stream`` is ignored.

        Raises:
            Redirected: the endpoint answers with another address.
            ReplyTooLong: the body has more than ``MOST_BYTES``.
            APITimeoutError: the deadline passed.
        """
        how |= {"stream": True, "follow_redirects": False}
        try:
            async with asyncio.timeout(self._deadline_s) as deadline:
                reply = await super().send(request, **how)
                try:
                    content = await _body(reply)
                finally:
                    await reply.aclose()
        except TimeoutError:
            if deadline.expired():
                raise APITimeoutError(request=request) from None
            raise
        coded = {b"content-encoding", b"content-length", b"transfer-encoding"}
        plain = [(name, text) for name, text in reply.headers.raw if name.lower() not in coded]
        return type(reply)(reply.status_code, headers=plain, content=content, request=request)


async def _body(reply: Any) -> bytes:  # noqa: ANN401 - httpx's types
    """The decoded body; the beginning of a refusal's."""
    if reply.has_redirect_location:
        where = moved(str(reply.request.url), reply.headers["location"])
        raise Redirected(f"HTTP {reply.status_code}: {where}")
    most, parts, size = MOST_BYTES.get(), list[bytes](), 0
    async for part in reply.aiter_bytes():
        parts.append(part)
        size += len(part)
        if reply.is_error and size > REFUSAL_BYTES:
            break
        if size > most:
            raise ReplyTooLong(f"the reply has more than {most:,} bytes")
    return b"".join(parts)


def openai_client(
    url: str,
    key: SecretStr | None,
    http_client: OneHost | None = None,
    *,
    deadline_s: float | None = None,
    retries: int,
) -> AsyncOpenAI:
    """A client of the openai package for one address; ``retries`` are the package's own.

    ``deadline_s`` limits each wait for the endpoint, and twice that the whole request.
    """
    return AsyncOpenAI(
        api_key=key.get_secret_value() if key is not None else NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=deadline_s,
        http_client=http_client or OneHost(url, 2 * deadline_s if deadline_s else None),
    )


@dataclass(eq=False, slots=True)
class Call:
    """A request in progress, with the times of the event loop at which it was sent.

    ``since`` is that of its first attempt, or of the latest reply to a call ahead of it. ``fault``
    is why it waits for an endpoint once more.
    """

    request: ChatRequest
    expected: Usage
    deadline: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    timer: asyncio.TimerHandle | None = None
    host: "Host | None" = None
    attempts: int = 0
    tokens: int = 0
    sent: float = 0.0
    since: float = 0.0
    reply: ChatReply[None] | None = None
    instead: str = ""
    fault: ChatFailure | None = None


@dataclass(eq=False)
class Host:
    """One base URL: the calls that it has to answer, in order, and its health.

    ``faults`` are its latest calls without a reply; ``down_since`` is when they were too many, long
    ago for a fault that lasts, None while it is well.
    """

    url: str
    client: AsyncOpenAI = field(repr=False)
    running: dict[Call, None] = field(default_factory=dict, repr=False)
    faults: int = 0
    fault: str = ""
    down_since: float | None = None
    ready_at: float = -math.inf
    reached: bool = False
    lists_one: bool | None = None

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

    async def lists_one_model(self) -> bool:
        """Whether it lists a single model, which then answers by whatever name it reports."""
        if self.lists_one is None:
            try:
                raw = await self.client.models.with_raw_response.list()
                self.lists_one = len(json.loads(raw.content)["data"]) == 1
            except Exception:  # noqa: BLE001 - without a list nothing is known of its names
                return False
        return self.lists_one


_CALL: ContextVar[tuple["Caller", Call, Host]] = ContextVar("_CALL")


class _Metered(OneHost):
    """``OneHost`` for requests of a ``Caller``: each call that it makes is counted and read."""

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The response, or a server's fault (502) where its body is no reply: that is retried.

        Raises:
            CeilingReached: no further call is allowed.
        """
        if request.method != "POST":  # the list of models
            return await super().send(request, **how)
        caller, call, host = _CALL.get()
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
                needs = caller.needs_logprobs and call.request.sampling.top_logprobs > 0
                call.reply, call.instead, used = read_reply(
                    response.content, latency_s, call.request, needs_logprobs=needs
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
        clients = [openai_client(u, key, _Metered(u, None), retries=timing.retries) for u in urls]
        self.hosts = [Host(*pair) for pair in zip(urls, clients, strict=True)]
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
            await host.client.close()

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

    async def _answer(self, call: Call, arguments: dict[str, Any]) -> Outcome:
        """Its outcome; a request that failed at an endpoint that is down goes to the next one."""
        while True:
            host = await self.next_host()
            if not isinstance(host, Host):
                return call.fault or host
            call.host = host
            _CALL.set((self, call, host))
            host.running[call] = None
            try:
                await host.client.chat.completions.with_raw_response.create(**arguments)
                outcome = await self._outcome(call, host)
            except Exception as error:  # noqa: BLE001 - no request raises
                outcome = _failure_from(error, call.attempts)
            finally:
                del host.running[call]
            if not isinstance(outcome, ChatFailure):
                host.succeeded()
                return outcome
            outcome = failure_without_key(outcome, self._key)
            host.fault = outcome.detail
            if outcome.lasting:
                host.failed(self.timing, lasting=True)
            elif outcome.reason in _OF_ENDPOINT and host.down_since is not None:
                call.fault = outcome
                continue
            elif outcome.reason not in _OF_ENDPOINT | {"budget"}:
                host.succeeded()
            return outcome

    async def _outcome(self, call: Call, host: Host) -> Outcome:
        """The reply that was received, or why it cannot be used."""
        assert call.reply is not None  # noqa: S101 - a response without one is a server's fault
        known = names_the_model(self._endpoint, self._name, call.reply.model)
        known = known or await host.lists_one_model()
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
        if call.host is not None:
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
