"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection) and waits as long
as ``Retry-After`` says. What it does not know is here: a request is accounted and its reply read;
the least busy endpoint gets it, the next one where that one fails; and after many failures in a
row requests fail at once for a while. It loads the package, so it is imported late.

Requests in flight count at their largest possible size, so a ceiling in tokens or money is not
exceeded unless a prompt has more tokens than estimated. Reported usage counts where it is plausible
for the request, else the estimate does.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import openai
from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, FailureReason
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from resources.chat.connection import is_loopback, moved, without_key
from resources.chat.wire import Counts, Outcome, Usage, arguments_of, as_utf8, read_reply, tokens_of

DOWN_AFTER = 10
"""Requests in a row that the endpoints failed, after which they are asked nothing for a while."""
REFUSAL_BYTES = 2**16
_SHOWN = 300
_OF_ENDPOINT = {"transport", "rate_limited", "server_error"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class CeilingReached(openai.OpenAIError):
    """A ceiling refuses another call; the package does not retry its own errors."""


class OneHost(openai.DefaultAsyncHttpxClient):
    """The openai package's HTTP client, for one host and bounded replies.

    A redirect is not followed: prompt and key would go to a host that nobody configured. No cookie
    is kept. The bound counts decoded bytes, so compression cannot bypass it, and of a refusal
    (status 400 and above) only the beginning is read.
    """

    most_bytes = 0

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The whole reply; how it is to be read and redirected is ignored.

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
                if len(content) > self.most_bytes:
                    raise openai.OpenAIError(f"the reply has more than {self.most_bytes:,} bytes")
        finally:
            await reply.aclose()
        coded = {b"content-encoding", b"content-length", b"transfer-encoding"}
        plain = [(name, text) for name, text in reply.headers.raw if name.lower() not in coded]
        return type(reply)(
            reply.status_code, headers=plain, content=bytes(content), request=request
        )


def openai_client(
    url: str,
    key: SecretStr,
    most_bytes: int,
    retries: int,
    *,
    wait_s: float | None = None,
    count: Callable[[Any], Awaitable[None]] | None = None,
) -> openai.AsyncOpenAI:
    """A client of the openai package, with its own ``retries`` and replies of ``most_bytes``.

    ``wait_s`` limits each wait for the endpoint; ``count`` sees each request before it is sent.

    Raises:
        ConfigError: no header can carry the key; the message does not show it.
    """
    value = key.get_secret_value().strip()
    if not value.isascii() or not value.isprintable():
        raise ConfigError(
            "the endpoint's key holds a control character, or one that is not ASCII, within it; "
            "copy it again"
        )
    host = OneHost(
        trust_env=not is_loopback(url),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"request": [count] if count else []},
    )
    host.most_bytes = most_bytes
    value = value or "none"  # the package requires a key, a local server does not
    return openai.AsyncOpenAI(
        api_key=value, base_url=url, max_retries=retries, timeout=wait_s, http_client=host
    )


def failure_from(error: Exception) -> ChatFailure:
    """What an exception of the openai package says of a request, and where a redirect leads."""
    if isinstance(error, CeilingReached):
        return ChatFailure("budget", str(error))
    if isinstance(error, openai.APIStatusError):
        status, said, reply = error.status_code, error.message, error.response
        reason: FailureReason = "server_error" if reply.is_server_error else "refused"
        if reply.is_redirect:
            said = moved(str(error.request.url), reply.headers.get("location", ""))
        return ChatFailure(
            "rate_limited" if status == HTTPStatus.TOO_MANY_REQUESTS else reason,
            f"HTTP {status}: {said}",
            lasting=status in _LASTING or reply.is_redirect,
        )
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return ChatFailure("transport", f"{type(cause).__name__}: {cause}")
    return ChatFailure("refused", f"{type(error).__name__}: {error}")


@dataclass(eq=False)
class Sender:
    """Sends requests, inside one event loop.

    ``counts`` gets calls, retries and usage, with which the ceilings are compared; the rest is as
    in ``ChatClient``.
    """

    endpoint: Endpoint
    urls: Sequence[str]
    key: SecretStr
    counts: Counts
    sent_as: str = ""
    retries: int = 0
    cooldown_s: float = 0.0

    def __post_init__(self) -> None:
        """Nothing is connected before the first request."""
        most, open_one = self.endpoint.most_reply_bytes, partial(openai_client, count=self.count)
        clients = (open_one(url, self.key, most, self.retries) for url in self.urls)
        self._running = dict.fromkeys(clients, 0)  # requests in flight at each address
        self._single = set[openai.AsyncOpenAI]()  # those that list one model
        self._name = self.sent_as or self.endpoint.model
        self._slots, self._ended = asyncio.Semaphore(self.endpoint.concurrency), asyncio.Event()
        self._in_flight, self._busy_since, self._spent = 0, 0.0, ""
        self._faults, self._fault, self._down_until = 0, ChatFailure("transport", ""), 0.0

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self.endpoint, self._name)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}")
        async with self._slots:
            if self._faults >= DOWN_AFTER and time.monotonic() < self._down_until:
                detail = f"no endpoint can be asked at present: {self._fault.detail}"
                return ChatFailure("circuit_open", detail, lasting=self._fault.lasting)
            try:
                async with self.room(tokens_of(request)):
                    for client in sorted(self._running, key=self._running.__getitem__):
                        outcome = await self._outcome(client, request, arguments)
                        if isinstance(outcome, ChatReply) or outcome.reason not in _OF_ENDPOINT:
                            break
            except CeilingReached as reached:
                return failure_from(reached)
        outcome = replace(outcome, text=without_key(outcome.text, self.key))
        faults, self._faults = self._faults, 0
        if isinstance(outcome, ChatFailure):
            detail = as_utf8(without_key(outcome.detail, self.key))
            outcome = replace(outcome, detail=detail[:_SHOWN])
            if outcome.lasting or outcome.reason in {*_OF_ENDPOINT, "timeout"}:
                self._faults, self._fault = faults + 1, outcome
                self._down_until = time.monotonic() + self.cooldown_s
        return outcome

    async def close(self) -> None:
        """Close all connections."""
        for client in self._running:
            await client.close()

    @asynccontextmanager
    async def room(self, expected: Usage) -> AsyncIterator[None]:
        """Room for a request, which is counted with its estimate as long as the block runs.

        Waits while requests in flight may leave room.

        Raises:
            CeilingReached: there is none, now or before; after it every later request is refused.
        """
        while reached := self._spent or self._reached(expected):
            if self._spent or not self._in_flight:
                self._spent = reached
                raise CeilingReached(reached)
            self._ended.clear()
            await self._ended.wait()
        self._busy_since = self._busy_since if self._in_flight else time.monotonic()
        self._in_flight += 1
        self.counts.add(prompt_tokens=expected[0], completion_tokens=expected[1])
        try:
            yield
        finally:
            self.counts.add(prompt_tokens=-expected[0], completion_tokens=-expected[1])
            self._in_flight -= 1
            if not self._in_flight:  # what is in flight at once counts once
                self.counts.add(busy_s=time.monotonic() - self._busy_since)
            self._ended.set()

    def _reached(self, expected: Usage) -> str:
        """The ceiling that a further request would exceed if all in flight use their estimates."""
        most, counts = self.endpoint, self.counts
        prompt = counts["prompt_tokens"] + expected[0]
        completion = counts["completion_tokens"] + expected[1]
        if most.tokens and prompt + completion > most.tokens:
            return f"ceiling of {most.tokens:,} tokens"
        if most.dollars and most.price and most.price.dollars(prompt, completion) > most.dollars:
            return f"ceiling of {most.dollars:,.2f} US dollars"
        return ""

    async def count(self, request: Any) -> None:  # noqa: ANN401 - httpx's type
        """Count an HTTP request before it is sent, also one that the package repeats.

        Raises:
            CeilingReached: the ceiling in calls refuses it.
        """
        if request.method == "GET":  # a list of models, which costs nothing
            return
        if self.endpoint.calls and self.counts["calls"] >= self.endpoint.calls:
            self._spent = self._spent or f"ceiling of {self.endpoint.calls:,} calls"
            raise CeilingReached(self._spent)
        repeated = int(request.headers.get("x-stainless-retry-count", 0)) > 0
        self.counts.add(calls=1, retries=repeated)

    async def _outcome(
        self, client: openai.AsyncOpenAI, request: ChatRequest, arguments: dict[str, Any]
    ) -> Outcome:
        """The outcome at an address, before the deadline; what it used is counted."""
        # Whatever comes of it, the endpoint may have read the prompt and charge for it.
        usage: Usage = (tokens_of(request)[0], 0, True)
        sent, limit_s = time.monotonic(), self.endpoint.deadline_s
        self._running[client] += 1
        try:
            async with asyncio.timeout(limit_s):
                raw = await client.chat.completions.with_raw_response.create(**arguments)
            read = partial(read_reply, raw.content, time.monotonic() - sent, request, self.endpoint)
            outcome, usage = read("" if client in self._single else self._name)
            if isinstance(outcome, ChatFailure) and outcome.reason == "wrong_model":
                outcome = read("")[0] if await self._lists_one(client) else outcome
        except TimeoutError:
            detail = f"no reply within {limit_s:g} s: raise deadline_s, or lower concurrency"
            return ChatFailure("timeout", detail)
        except Exception as error:  # noqa: BLE001 - no request raises
            # A refused prompt is not charged for, and one that no JSON can hold not sent.
            unread = isinstance(error, openai.APIStatusError | CeilingReached | ValueError)
            if unread or type(error.__cause__).__name__ in _NEVER_SENT:
                usage = (0, 0, False)
            return failure_from(error)
        finally:
            self._running[client] -= 1
            prompt, completion, guessed = usage
            self.counts.add(prompt_tokens=prompt, completion_tokens=completion, estimated=guessed)
        return outcome

    async def _lists_one(self, client: openai.AsyncOpenAI) -> bool:
        """Whether an address lists one model, which then answers by any name."""
        try:
            listed = await client.with_options(max_retries=0).models.list()
        except Exception:  # noqa: BLE001 - without a list nothing is known of its names
            return False
        self._single |= {client} if len(listed.data) == 1 else set()
        return client in self._single
