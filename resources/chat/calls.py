"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection) and waits as long
as ``Retry-After`` says. What it does not know is here: a request is accounted and its reply read;
the least busy endpoint gets it, the next one where that one fails; and after many failures in a
row requests fail at once for a while. This module loads the package, so it is imported late.

A server with more calls than it runs at once queues the rest. That is no failure: while it answers
others, the deadline of a request moves, up to ``queue_deadline_s``. A hung endpoint answers none.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    OpenAIError,
)
from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatRequest, FailureReason
from decomposerl.endpoint import Endpoint
from resources.chat.budget import Budget, Counts, estimated_tokens
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
_FREE = (0, 0)
_OF_ENDPOINT = {"transport", "rate_limited", "server_error"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class OneHost(DefaultAsyncHttpxClient):
    """The openai package's HTTP client, for one host and bounded replies.

    A redirect is not followed: prompt and key would go to a host that nobody configured. No cookie
    is kept. The bound counts decoded bytes, so compression cannot bypass it, and of a refusal
    (status 400 and above) only the beginning is read.
    """

    def __init__(self, url: str, most_bytes: int) -> None:
        """``most_bytes`` of one reply."""
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(trust_env=not is_loopback(url), follow_redirects=False, cookies=jar)
        self._most_bytes = most_bytes

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The whole reply; ``stream`` is ignored.

        Raises:
            OpenAIError: the body has more than ``most_bytes``; the package does not retry its own.
        """
        content = bytearray()
        reply = await super().send(request, **how | {"stream": True, "follow_redirects": False})
        try:
            async for part in reply.aiter_bytes():
                content += part
                if reply.is_error and len(content) > REFUSAL_BYTES:
                    break
                if len(content) > self._most_bytes:
                    raise OpenAIError(f"the reply has more than {self._most_bytes:,} bytes")
        finally:
            await reply.aclose()
        coded = {b"content-encoding", b"content-length", b"transfer-encoding"}
        plain = [(name, text) for name, text in reply.headers.raw if name.lower() not in coded]
        return type(reply)(
            reply.status_code, headers=plain, content=bytes(content), request=request
        )


def openai_client(
    url: str, key: SecretStr | None, most_bytes: int, retries: int, wait_s: float | None = None
) -> AsyncOpenAI:
    """A client of the openai package over ``OneHost``; ``retries`` are the package's own.

    ``wait_s`` limits each wait for the endpoint.
    """
    return AsyncOpenAI(
        api_key=key.get_secret_value() if key is not None else NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=wait_s,
        http_client=OneHost(url, most_bytes),
    )


def said_by(error: Exception) -> str:
    """What an error of the openai package says, and where a redirect leads."""
    if not isinstance(error, APIStatusError):
        cause = error.__cause__ if isinstance(error, APIConnectionError) else None
        return f"{type(cause or error).__name__}: {cause or error}"
    said, headers = error.message, error.response.headers
    if error.response.is_redirect:
        said = moved(str(error.request.url), headers["location"])
    return f"HTTP {error.status_code}: {said}"


@dataclass(eq=False)
class Host:
    """One base URL. ``answered`` is when its latest reply came, by the event loop's clock."""

    client: AsyncOpenAI = field(repr=False)
    running: int = 0
    answered: float = 0.0
    lists_one: bool | None = None

    async def lists_one_model(self) -> bool:
        """Whether it lists a single model, which then answers by whatever name it reports."""
        if self.lists_one is None:
            try:
                raw = await self.client.models.with_raw_response.list()
                self.lists_one = len(json.loads(raw.content)["data"]) == 1
            except Exception:  # noqa: BLE001 - without a list nothing is known of its names
                return False
        return self.lists_one


class Sender:
    """Sends requests, inside one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        access: Access,
        counts: Counts,
        sent_as: str,
        retries: int,
        cooldown_s: float,
    ) -> None:
        """``counts`` is where calls, retries and usage are counted; as in ``ChatClient``."""
        urls, self._key = access
        self._endpoint, self._name = endpoint, sent_as or endpoint.model
        self._budget, self._cooldown_s = Budget(endpoint, counts), cooldown_s
        most = endpoint.most_reply_bytes
        self._hosts = [Host(openai_client(url, self._key, most, retries)) for url in urls]
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._faults, self._fault, self._down_until = 0, ChatFailure("transport", "", 0), 0.0

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self._endpoint, self._name)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}", 0)
        expected = estimated_tokens(request)
        async with self._slots:
            if self._faults >= DOWN_AFTER and time.monotonic() < self._down_until:
                detail = f"no endpoint can be asked at present: {self._fault.detail}"
                return ChatFailure("circuit_open", detail, 0, lasting=self._fault.lasting)
            if not await self._budget.reserve(expected):
                return ChatFailure("budget", self._budget.spent_at, 0)
            try:
                for host in sorted(self._hosts, key=lambda host: host.running):
                    outcome = await self._in_time(host, request, arguments)
                    if not isinstance(outcome, ChatFailure) or outcome.reason not in _OF_ENDPOINT:
                        break
            finally:
                self._budget.release(expected)
        if not isinstance(outcome, ChatFailure):
            self._faults = 0
            return outcome
        texts = (as_utf8(without_key(part, self._key)) for part in (outcome.detail, outcome.text))
        detail, text = texts
        failure = replace(outcome, detail=detail[:_SHOWN], text=text)
        if failure.lasting or failure.reason in {*_OF_ENDPOINT, "timeout"}:
            self._faults, self._fault = self._faults + 1, failure
            self._down_until = time.monotonic() + self._cooldown_s
        else:
            self._faults = 0
        return failure

    async def close(self) -> None:
        """Close all connections."""
        for host in self._hosts:
            await host.client.close()

    async def _in_time(
        self, host: Host, request: ChatRequest, arguments: dict[str, Any]
    ) -> Outcome:
        """The outcome at an endpoint, before the deadline; what it used is accounted."""
        # Whatever comes of it, the endpoint may have read the prompt and charge for it.
        prompt_tokens, _ = estimated_tokens(request)
        used, estimated, attempts = (prompt_tokens, 0), True, 1
        loop, each = asyncio.get_running_loop(), self._endpoint.deadline_s
        sent, most = loop.time(), max(each, self._endpoint.queue_deadline_s)
        create = host.client.chat.completions.with_raw_response.create
        asking = asyncio.ensure_future(create(**arguments))
        host.running += 1
        try:
            while not asking.done():
                due = min(max(sent, host.answered) + each, sent + most)
                if due <= loop.time():
                    return ChatFailure("timeout", f"no reply within {due - sent:,.1f} s", 1)
                await asyncio.wait([asking], timeout=due - loop.time())
            raw = asking.result()
            host.answered, attempts = loop.time(), raw.retries_taken + 1
            reply, instead, estimated = read_reply(raw.content, loop.time() - sent, request)
            used = reply.prompt_tokens, reply.completion_tokens
        except Garbled as error:
            return ChatFailure("server_error", str(error), attempts)
        except Exception as error:  # noqa: BLE001 - no request raises
            failure = _failure_from(error)
            attempts = failure.attempts
            if isinstance(error, APIStatusError) or type(error.__cause__).__name__ in _NEVER_SENT:
                used, estimated = _FREE, False
            return failure
        finally:
            asking.cancel()
            host.running -= 1
            self._budget.spend(used, estimated=estimated, retries=attempts - 1)
        reply = replace(reply, text=without_key(reply.text, self._key))
        known = names_the_model(self._endpoint, self._name, reply.model)
        if not known and not await host.lists_one_model():
            detail = (
                f"asked for {self._name!r}, the endpoint serves {reply.model!r}; if they are the "
                f"same model, add served_as = [{json.dumps(reply.model)}]"
            )
            return ChatFailure("wrong_model", detail, attempts, reply.text, lasting=True)
        return failure_of(reply, instead, request, attempts) or reply


def _failure_from(error: Exception) -> ChatFailure:
    """What an exception of the openai package says of a request."""
    reason: FailureReason = "refused"
    lasting, attempts = False, 1
    if isinstance(error, (APIStatusError, APIConnectionError)):
        attempts += int(error.request.headers.get("x-stainless-retry-count", 0))
    if isinstance(error, APIStatusError):
        status = error.status_code
        lasting = status in _LASTING or error.response.is_redirect
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            reason = "rate_limited"
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            reason = "server_error"
    elif isinstance(error, APIConnectionError):
        reason = "transport"
    return ChatFailure(reason, said_by(error), attempts, lasting=lasting)
