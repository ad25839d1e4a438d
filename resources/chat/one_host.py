"""HTTP client for the openai package that talks to one host and reads bounded replies.

A redirect is refused: prompt and key would follow it to a host that nobody configured. No
cookie is kept. The size limit counts decoded bytes, so compression cannot bypass it, and of a
refusal (status 400 and above) only the beginning is read.
"""

import asyncio
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from openai import APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError
from pydantic import SecretStr

from resources.chat.connection import MOST_BYTES, NO_KEY, is_loopback, moved

REFUSAL_BYTES = 2**16


class Redirected(OpenAIError):  # noqa: N818 - the name is what happened
    """The endpoint redirects; the target was not called. Never retried by the package."""


class ReplyTooLong(OpenAIError):  # noqa: N818 - the same
    """A reply's body exceeded its limit and was cut off. Never retried by the package."""


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
                    content = await _read(reply)
                finally:
                    await reply.aclose()
        except TimeoutError:
            if deadline.expired():
                raise APITimeoutError(request=request) from None
            raise
        coded = {b"content-encoding", b"content-length", b"transfer-encoding"}
        plain = [(name, text) for name, text in reply.headers.raw if name.lower() not in coded]
        return type(reply)(reply.status_code, headers=plain, content=content, request=request)


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


async def _read(reply: Any) -> bytes:  # noqa: ANN401 - httpx's types
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
