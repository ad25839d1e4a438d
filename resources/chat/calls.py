"""One request to the endpoints of a model: within its limits, retried, and within its deadline.

The ``openai`` package sends it, retries what passes (429, 5xx, a lost connection) and waits as long
as ``Retry-After`` says. What it does not know is here: a request is accounted and its reply read;
the least busy endpoint gets it, the next one where that one fails; and after many failures in a
row requests fail at once for a while. It loads the package, so it is imported late.

Requests in flight count at their largest possible size, so a ceiling in tokens or money is not
exceeded unless a prompt has more tokens than estimated. Reported usage counts where it is plausible
for the request, else the estimate does.

A server with more calls than it runs at once queues the rest. That is no failure: while it answers
others, the deadline of a request moves, up to ``queue_deadline_s``. A hung endpoint answers none.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
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
from resources.chat.connection import NO_KEY, is_loopback, moved, without_key
from resources.chat.wire import (
    Counts,
    Garbled,
    Outcome,
    Usage,
    arguments_of,
    as_utf8,
    failure_of,
    names_the_model,
    read_reply,
    tokens_of,
)

DOWN_AFTER = 10
"""Requests in a row that the endpoints failed, after which they are asked nothing for a while."""
REFUSAL_BYTES = 2**16
_SHOWN = 300
_OF_ENDPOINT = {"transport", "rate_limited", "server_error"}
# With one of these as the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# With these every request fails: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


class CeilingReached(OpenAIError):  # noqa: N818 - the name is what happened
    """A ceiling refuses another call; the package does not retry its own errors."""


class Budget:
    """The ceilings of an endpoint, inside one event loop.

    A request is counted with its estimate until it is settled, so those in flight count too.
    """

    def __init__(self, endpoint: Endpoint, counts: Counts) -> None:
        """``counts`` is what the ceilings are compared with."""
        self._ceilings, self._counts, self._in_flight = endpoint, counts, 0
        self._settled = asyncio.Event()
        self.spent_at = ""
        """The ceiling that stopped the run, empty while none has."""

    async def reserve(self, expected: Usage) -> bool:
        """Whether the ceilings allow a request, which is then counted, and to be settled.

        Waits while requests in flight may leave room. After the first refusal every later request
        is refused at once.
        """
        while not self.spent_at and (reached := self._reached(expected)):
            if not self._in_flight:
                self.spent_at = reached
                break
            self._settled.clear()
            await self._settled.wait()
        if not self.spent_at:
            self._in_flight += 1
            self._counts.add(calls=1, prompt_tokens=expected[0], completion_tokens=expected[1])
        return not self.spent_at

    def go_on(self) -> None:
        """Count one more call of a request that was counted once.

        Raises:
            CeilingReached: the ceiling in calls refuses it.
        """
        if self._ceilings.calls and self._counts["calls"] >= self._ceilings.calls:
            raise CeilingReached(f"ceiling of {self._ceilings.calls:,} calls")
        self._counts.add(calls=1, retries=1)

    def settle(self, expected: Usage) -> None:
        """Take back the estimate of a request, once what it used is counted."""
        self._counts.add(prompt_tokens=-expected[0], completion_tokens=-expected[1])
        self._in_flight -= 1
        self._settled.set()

    def _reached(self, expected: Usage) -> str:
        """The ceiling that a further request would exceed if all in flight use their estimates."""
        most, counts = self._ceilings, self._counts
        prompt = counts["prompt_tokens"] + expected[0]
        completion = counts["completion_tokens"] + expected[1]
        if most.calls and counts["calls"] + 1 > most.calls:
            return f"ceiling of {most.calls:,} calls"
        if most.tokens and prompt + completion > most.tokens:
            return f"ceiling of {most.tokens:,} tokens"
        if most.dollars and most.price and most.price.dollars(prompt, completion) > most.dollars:
            return f"ceiling of {most.dollars:,.2f} US dollars"
        return ""


class OneHost(DefaultAsyncHttpxClient):
    """The openai package's HTTP client, for one host and bounded replies.

    A redirect is not followed: prompt and key would go to a host that nobody configured. No cookie
    is kept. The bound counts decoded bytes, so compression cannot bypass it, and of a refusal
    (status 400 and above) only the beginning is read.
    """

    def __init__(self, url: str, most_bytes: int, retry: Callable[[], object] = int) -> None:
        """``most_bytes`` of one reply; ``retry`` is called before the package repeats a call."""
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(trust_env=not is_loopback(url), follow_redirects=False, cookies=jar)
        self._most_bytes, self._retry = most_bytes, retry

    async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - httpx's types
        """The whole reply; ``stream`` is ignored.

        Raises:
            OpenAIError: the body has more than ``most_bytes``; the package does not retry its own.
        """
        if int(request.headers.get("x-stainless-retry-count", 0)):
            self._retry()
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
    url: str,
    key: SecretStr,
    http_client: OneHost,
    retries: int,
    wait_s: float | None = None,
) -> AsyncOpenAI:
    """A client of the openai package; ``retries`` are its own.

    ``wait_s`` limits each wait for the endpoint.
    """
    return AsyncOpenAI(
        api_key=key.get_secret_value() or NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=wait_s,
        http_client=http_client,
    )


def failure_from(error: Exception) -> ChatFailure:
    """What an exception of the openai package says of a request, and where a redirect leads."""
    if isinstance(error, CeilingReached):
        return ChatFailure("budget", str(error))
    if isinstance(error, APIStatusError):
        status, said, reply = error.status_code, error.message, error.response
        reason: FailureReason = "server_error" if reply.is_server_error else "refused"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            reason = "rate_limited"
        if reply.is_redirect:
            said = moved(str(error.request.url), reply.headers.get("location", ""))
        lasting = status in _LASTING or reply.is_redirect
        return ChatFailure(reason, f"HTTP {status}: {said}", lasting=lasting)
    if isinstance(error, APIConnectionError):
        cause = error.__cause__ or error
        return ChatFailure("transport", f"{type(cause).__name__}: {cause}")
    return ChatFailure("refused", f"{type(error).__name__}: {error}")


@dataclass(eq=False)
class Host:
    """One base URL. ``answered`` is when its latest reply came, by the event loop's clock."""

    client: AsyncOpenAI = field(repr=False)
    running: int = 0
    answered: float = 0.0


class Sender:
    """Sends requests, inside one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        urls: Sequence[str],
        key: SecretStr,
        counts: Counts,
        sent_as: str,
        retries: int,
        cooldown_s: float,
    ) -> None:
        """``counts`` gets calls, retries and usage; as in ``ChatClient``."""
        self._endpoint, self._name = endpoint, sent_as or endpoint.model
        self._key, self._counts, self._cooldown_s = key, counts, cooldown_s
        self._budget, self._known = Budget(endpoint, counts), set[str]()
        most, again = endpoint.most_reply_bytes, self._budget.go_on
        bounded = ((url, OneHost(url, most, again)) for url in urls)
        self._hosts = [Host(openai_client(url, key, one, retries)) for url, one in bounded]
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._faults, self._fault, self._down_until = 0, ChatFailure("transport", ""), 0.0

    async def send(self, request: ChatRequest) -> Outcome:
        """The reply, or why there is none; raises nothing but ``CancelledError``."""
        try:
            arguments = arguments_of(request, self._endpoint, self._name)
        except ValueError as error:
            return ChatFailure("refused", f"the schema is not JSON: {error}")
        expected = tokens_of(request)
        async with self._slots:
            if self._faults >= DOWN_AFTER and time.monotonic() < self._down_until:
                detail = f"no endpoint can be asked at present: {self._fault.detail}"
                return ChatFailure("circuit_open", detail, lasting=self._fault.lasting)
            if not await self._budget.reserve(expected):
                return ChatFailure("budget", self._budget.spent_at)
            try:
                for place, host in enumerate(sorted(self._hosts, key=lambda host: host.running)):
                    outcome = await self._in_time(host, request, arguments, further=place > 0)
                    if not isinstance(outcome, ChatFailure) or outcome.reason not in _OF_ENDPOINT:
                        break
            finally:
                self._budget.settle(expected)
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
        self, host: Host, request: ChatRequest, arguments: dict[str, Any], *, further: bool
    ) -> Outcome:
        """The outcome at an endpoint, before the deadline; what it used is counted."""
        # Whatever comes of it, the endpoint may have read the prompt and charge for it.
        prompt_tokens, _, estimated = tokens_of(request)
        completion_tokens = 0
        loop, each = asyncio.get_running_loop(), self._endpoint.deadline_s
        sent, most = loop.time(), max(each, self._endpoint.queue_deadline_s)
        create = host.client.chat.completions.with_raw_response.create

        async def ask() -> Any:  # noqa: ANN401 - the package's raw reply
            if further:  # ``reserve`` counted the first
                self._budget.go_on()
            return await create(**arguments)

        asking = asyncio.ensure_future(ask())
        host.running += 1
        try:
            while not asking.done():
                due = min(max(sent, host.answered) + each, sent + most)
                if due <= loop.time():
                    return ChatFailure("timeout", f"no reply within {due - sent:,.1f} s")
                await asyncio.wait([asking], timeout=due - loop.time())
            raw = asking.result()
            host.answered = loop.time()
            reply, refusal, estimated = read_reply(raw.content, loop.time() - sent, request)
            prompt_tokens, completion_tokens = reply.prompt_tokens, reply.completion_tokens
        except Garbled as error:
            return ChatFailure("server_error", str(error))
        except Exception as error:  # noqa: BLE001 - no request raises
            lost = isinstance(error, OpenAIError) and not isinstance(error, APIStatusError)
            if not lost or type(error.__cause__).__name__ in _NEVER_SENT:
                prompt_tokens, estimated = 0, False
            return failure_from(error)
        finally:
            asking.cancel()
            host.running -= 1
            self._counts.add(
                estimated=estimated,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
            )
        reply = replace(reply, text=without_key(reply.text, self._key))
        if not await self._names(host, reply.model):
            detail = (
                f"asked for {self._name!r}, the endpoint serves {reply.model!r}; if they are the "
                f"same model, add served_as = [{json.dumps(reply.model)}]"
            )
            return ChatFailure("wrong_model", detail, reply.text, lasting=True)
        if refusal:
            return ChatFailure("empty", f"the model refused ({refusal})", refusal)
        return failure_of(reply, request) or reply

    async def _names(self, host: Host, reported: str) -> bool:
        """Whether a reply's name is the model's, or that of the only model the endpoint lists."""
        if reported in self._known or names_the_model(self._endpoint, self._name, reported):
            return True
        try:
            listed = await host.client.with_options(max_retries=0).models.list()
            only = len(listed.data) == 1
        except Exception:  # noqa: BLE001 - without a list nothing is known of its names
            return False
        self._known |= {reported} if only else set()
        return only
