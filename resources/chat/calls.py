"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection, a body that is no
reply) and waits as long as ``Retry-After`` says. What it does not know is here: each of its calls
is counted, accounted and read; the least busy endpoint gets a request, the next one gets it where
that one fails; and after many failures in a row requests fail at once for a while. This module
loads the package, so it is imported late.

``OneHost``, the HTTP client below the package, talks to one host and reads bounded replies. A
redirect is refused: prompt and key would follow it to a host that nobody configured. No cookie is
kept. The size limit counts decoded bytes, so compression cannot bypass it, and of a refusal (status
400 and above) only the beginning is read.

A server with more calls than it runs at once queues the rest. That is no failure: while it answers
others, the deadline of a request moves, up to ``queue_deadline_s``. A hung endpoint answers none.
"""

import asyncio
import json
import time
from contextvars import ContextVar
from dataclasses import dataclass, replace
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

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, FailureReason
from decomposerl.endpoint import Endpoint
from resources.chat.budget import Budget, Counts, Tokens, estimated_tokens
from resources.chat.connection import NO_KEY, Access, is_loopback, moved, without_key
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
"""Requests in a row that the endpoints failed, after which they are asked nothing for a while."""
REFUSAL_BYTES = 2**16
_SHOWN = 300
_UNREAD = "x-no-completion"
_FREE = (0, 0)
_OF_ENDPOINT = {"transport", "rate_limited", "server_error"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class GivenUp(OpenAIError):  # noqa: N818 - the name is what happened
    """A request ends here, as the package retries no error of its own kind."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        """``reason`` as in a failure."""
        super().__init__(detail)
        self.reason = reason


class OneHost(DefaultAsyncHttpxClient):
    """The openai package's HTTP client, within these bounds."""

    def __init__(self, url: str, most_bytes: int, deadline_s: float | None = None) -> None:
        """``most_bytes`` of a reply; ``deadline_s`` of one call (None: the caller has one)."""
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(trust_env=not is_loopback(url), follow_redirects=False, cookies=jar)
        self.url, self._most_bytes, self._deadline_s = url, most_bytes, deadline_s

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The whole reply; ``stream`` is ignored.

        Raises:
            GivenUp: the endpoint redirects, or the body has more than ``most_bytes``.
            APITimeoutError: the deadline passed.
        """
        how |= {"stream": True, "follow_redirects": False}
        try:
            async with asyncio.timeout(self._deadline_s) as deadline:
                reply = await super().send(request, **how)
                try:
                    content = await self._body(reply)
                finally:
                    await reply.aclose()
        except TimeoutError:
            if deadline.expired():
                raise APITimeoutError(request=request) from None
            raise
        coded = {b"content-encoding", b"content-length", b"transfer-encoding"}
        plain = [(name, text) for name, text in reply.headers.raw if name.lower() not in coded]
        return type(reply)(reply.status_code, headers=plain, content=content, request=request)

    async def _body(self, reply: Any) -> bytes:  # noqa: ANN401 - as above
        """The decoded body; the beginning of a refusal's."""
        if reply.has_redirect_location:
            where = moved(str(reply.request.url), reply.headers["location"])
            raise GivenUp("refused", f"HTTP {reply.status_code}: {where}")
        content = bytearray()
        async for part in reply.aiter_bytes():
            content += part
            if reply.is_error and len(content) > REFUSAL_BYTES:
                break
            if len(content) > self._most_bytes:
                text = f"the reply has more than {self._most_bytes:,} bytes"
                raise GivenUp("server_error", text)
        return bytes(content)


def openai_client(
    host: OneHost, key: SecretStr | None, retries: int, wait_s: float | None = None
) -> AsyncOpenAI:
    """A client of the openai package; ``retries`` are the package's own.

    ``wait_s`` limits each wait for the endpoint.
    """
    return AsyncOpenAI(
        api_key=key.get_secret_value() if key is not None else NO_KEY,
        base_url=host.url,
        max_retries=retries,
        timeout=wait_s,
        http_client=host,
    )


@dataclass(eq=False, slots=True)
class Call:
    """A request in progress at a host, and the reply to its latest call with what came instead."""

    request: ChatRequest
    arguments: dict[str, Any]
    expected: Tokens
    deadline: asyncio.Timeout
    host: "Host"
    sent: float
    timer: asyncio.TimerHandle | None = None
    attempts: int = 0
    received: tuple[ChatReply[None], str] | None = None


_CALL: ContextVar[Call] = ContextVar("_CALL")


class Host(OneHost):
    """One base URL for requests of a ``Sender``: each call that the package makes is accounted."""

    def __init__(self, url: str, sender: "Sender", key: SecretStr | None, retries: int) -> None:
        """Opens its client of the package, which closes it."""
        super().__init__(url, sender.endpoint.most_reply_bytes)
        self.client, self._sender = openai_client(self, key, retries), sender
        self.running, self.answered = 0, 0.0
        """Requests in progress; when its latest reply came, by the event loop's clock."""
        self._lists_one: bool | None = None

    async def lists_one_model(self) -> bool:
        """Whether it lists a single model, which then answers by whatever name it reports."""
        if self._lists_one is None:
            try:
                raw = await self.client.models.with_raw_response.list()
                self._lists_one = len(json.loads(raw.content)["data"]) == 1
            except Exception:  # noqa: BLE001 - without a list nothing is known of its names
                return False
        return self._lists_one

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The response, or a server's fault (502) where its body is no reply: that is retried.

        Raises:
            GivenUp: as ``OneHost``, or a ceiling refuses another call.
        """
        if request.method != "POST":  # the list of models
            return await super().send(request, **how)
        call, sender = _CALL.get(), self._sender
        if call.attempts and (reached := sender.budget.reached()):
            raise GivenUp("budget", reached)
        if call.attempts:
            sender.counts.add(calls=1, retries=1)
        call.attempts += 1
        # Whatever comes of it, the endpoint may have read the prompt and charge for it.
        used, estimated = (call.expected[0], 0), True
        try:
            started = time.monotonic()
            response = await super().send(request, **how)
            if response.is_error:
                used, estimated = _FREE, False
            else:
                self.answered = asyncio.get_running_loop().time()
                needs = sender.needs_logprobs and call.request.sampling.top_logprobs > 0
                reply, instead, estimated = read_reply(
                    response.content, time.monotonic() - started, call.request, needs_logprobs=needs
                )
                call.received, used = (
                    (reply, instead),
                    (reply.prompt_tokens, reply.completion_tokens),
                )
        except Garbled as error:
            text = str(error).encode("utf-8", "replace")
            bad = {"headers": {_UNREAD: "yes"}, "content": text, "request": request}
            response = type(response)(HTTPStatus.BAD_GATEWAY, **bad)
        except Exception as error:
            if type(error).__name__ in _NEVER_SENT:
                used, estimated = _FREE, False
            raise
        finally:
            sender.budget.spend(used, estimated=estimated)
        return response


class Sender:
    """Sends requests, inside one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        access: Access,
        counts: Counts,
        *,
        sent_as: str,
        needs_logprobs: bool,
        retries: int,
        cooldown_s: float,
    ) -> None:
        """``counts`` is where calls, retries and usage are counted; as in ``ChatClient``."""
        urls, self._key = access
        self.endpoint, self._name = endpoint, sent_as or endpoint.model
        self.counts, self.budget = counts, Budget(endpoint, counts)
        self.needs_logprobs, self._cooldown_s = needs_logprobs, cooldown_s
        self._hosts = [Host(url, self, self._key, retries) for url in urls]
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._faults, self._fault, self._down_until = 0, ChatFailure("transport", "", 0), 0.0

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self.endpoint, self._name)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}", 0)
        expected = estimated_tokens(request)
        async with self._slots:
            if self._faults >= DOWN_AFTER and time.monotonic() < self._down_until:
                detail = f"no endpoint can be asked at present: {self._fault.detail}"
                return ChatFailure("circuit_open", detail, 0, lasting=self._fault.lasting)
            if not await self.budget.reserve(expected):
                return ChatFailure("budget", self.budget.spent_at, 0)
            try:
                outcome = await self._in_time(request, arguments, expected)
            finally:
                self.budget.release(expected)
        if isinstance(outcome, ChatFailure):
            detail, text = (
                as_utf8(without_key(part, self._key)) for part in (outcome.detail, outcome.text)
            )
            outcome = replace(outcome, detail=detail[:_SHOWN], text=text)
            if outcome.lasting or outcome.reason in {*_OF_ENDPOINT, "timeout"}:
                self._faults, self._fault = self._faults + 1, outcome
                self._down_until = time.monotonic() + self._cooldown_s
                return outcome
        self._faults = 0
        return outcome

    async def close(self) -> None:
        """Close all connections."""
        for host in self._hosts:
            await host.client.close()

    async def _in_time(
        self, request: ChatRequest, arguments: dict[str, Any], expected: Tokens
    ) -> Outcome:
        """The outcome at the least busy endpoint, or at the next one where that one fails."""
        first, *others = sorted(self._hosts, key=lambda host: host.running)
        now, deadline = asyncio.get_running_loop().time(), asyncio.timeout(None)
        call = Call(request, arguments, expected, deadline, first, now)
        try:
            async with deadline:
                self._watch(call)
                outcome = await self._outcome(call)
                for call.host in others:
                    if not isinstance(outcome, ChatFailure) or outcome.reason not in _OF_ENDPOINT:
                        break
                    outcome = await self._outcome(call)
                return outcome
        except TimeoutError:
            waited_s = asyncio.get_running_loop().time() - call.sent
            return ChatFailure("timeout", f"no reply within {waited_s:,.1f} s", call.attempts)
        finally:
            if call.timer is not None:
                call.timer.cancel()

    def _watch(self, call: Call) -> None:
        """End the call where its time is over, else look again when it would be."""
        loop = asyncio.get_running_loop()
        each, most = self.endpoint.deadline_s, self.endpoint.queue_deadline_s
        due = min(max(call.sent, call.host.answered) + each, call.sent + max(each, most))
        if due <= loop.time():
            call.deadline.reschedule(due)
        else:
            call.timer = loop.call_at(due, self._watch, call)

    async def _outcome(self, call: Call) -> Outcome:
        """The reply of the call's host, or why there is none that can be used."""
        host = call.host
        _CALL.set(call)
        host.running += 1
        try:
            await host.client.chat.completions.with_raw_response.create(**call.arguments)
        except Exception as error:  # noqa: BLE001 - no request raises
            return _failure_from(error, call.attempts)
        finally:
            host.running -= 1
        assert call.received is not None  # noqa: S101 - a response without one is a server's fault
        reply, instead = call.received
        known = names_the_model(self.endpoint, self._name, reply.model)
        known = known or await host.lists_one_model()
        reply = replace(reply, text=without_key(reply.text, self._key))
        failure = failure_of(
            reply,
            instead,
            call.request,
            attempts=call.attempts,
            unknown="" if known else self._name,
            needs_logprobs=self.needs_logprobs,
        )
        return failure or reply


def _failure_from(error: Exception, attempts: int) -> ChatFailure:
    """What an exception of the openai package says of a request."""
    match error:
        case GivenUp():
            lasting = error.reason == "refused"
            return ChatFailure(error.reason, str(error), attempts, lasting=lasting)
        case APIStatusError(status_code=status, message=text):
            reason: FailureReason = "refused"
            if status == HTTPStatus.TOO_MANY_REQUESTS:
                reason = "rate_limited"
            elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                reason = "server_error"
            text = text if _UNREAD in error.response.headers else f"HTTP {status}: {text}"
            return ChatFailure(reason, text, attempts, lasting=status in _LASTING)
        case APIConnectionError():
            cause = error.__cause__ or error
            return ChatFailure("transport", f"{type(cause).__name__}: {cause}", attempts)
    text = f"the request could not be sent ({type(error).__name__}: {error})"
    return ChatFailure("refused", text, attempts)
