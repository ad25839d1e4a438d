"""Keys, loopback addresses and refused redirects: what protects a key on its way.

Calls to this machine, and the key in them, never go through a proxy.
"""

import time
import urllib.request
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from decomposerl.errors import ConfigError, EngineError

NO_KEY = "none"
"""The openai package requires a key, a local server does not."""
MOST_BYTES: ContextVar[int] = ContextVar("MOST_BYTES", default=2**25)
"""The most bytes of one reply's body, set by the task that sends the request."""
PROBE_BYTES = 2**22
"""The most bytes of an endpoint's list of models."""
_SHORTEST_KEY = 6  # a shorter one is a placeholder such as "none", and part of many words


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own; a proxy must see neither call nor key."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def clean_key(key: SecretStr | None) -> SecretStr | None:
    """The key without white space around it, None where nothing is left.

    Raises:
        ConfigError: no header can carry it; the message does not show it.
    """
    value = key.get_secret_value().strip() if key is not None else ""
    if not value.isascii() or not value.isprintable():
        raise ConfigError(
            "the endpoint's key holds a control character, or one that is not ASCII, within it; "
            "copy it again"
        )
    return SecretStr(value) if value else None


def without_key(text: str, key: SecretStr | None, mark: str = "[key]") -> str:
    """The text without the key, which servers like to repeat in error messages."""
    value = key.get_secret_value().strip() if key is not None else ""
    if len(value) < _SHORTEST_KEY:
        return text
    return text.replace(repr(value)[1:-1], mark).replace(value, mark)


def fetched(url: str, key: str, timeout_s: float, *, direct: bool = False) -> bytes:
    """The body of a GET of an http(s) URL, from that host only; ``direct`` skips any proxy.

    Raises:
        Moved: it redirects.
        HTTPError: it answers with status 400 or above.
        OSError: it does not answer, or not all within ``timeout_s``.
        ValueError: the answer has more than ``PROBE_BYTES``.
    """
    proxies = [urllib.request.ProxyHandler({})] if direct or is_loopback(url) else []
    opener = urllib.request.build_opener(_Stay, *proxies)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s) by the caller
    until, body = time.monotonic() + timeout_s, b""
    with opener.open(request, timeout=timeout_s) as reply:
        while part := reply.read1(PROBE_BYTES):
            body += part
            if len(body) > PROBE_BYTES:
                raise ValueError(f"{url} answers more than {PROBE_BYTES:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError(f"not all within {timeout_s:g} s")
    return body


class Moved(EngineError):  # noqa: N818 - the name is what happened
    """An endpoint redirects; the message says where to, and what to do."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def http_error_302(self, *asked: Any) -> NoReturn:  # noqa: ANN401 - as urllib has it
        """Raise where urllib would request the other address."""
        request, answer, status, _, headers = asked
        answer.close()
        raise Moved(f"HTTP {status}: {moved(request.full_url, headers.get('location', ''))}")

    http_error_301: Any = http_error_302
    http_error_303: Any = http_error_302
    http_error_307: Any = http_error_302
    http_error_308: Any = http_error_302


def moved(url: str, location: str) -> str:
    """A sentence on a redirect of ``url``, which was not followed: where it leads."""
    try:
        parts = urlsplit(urljoin(url, location))
        target = f"{parts.scheme}://{parts.hostname or ''}" + f":{parts.port}" * bool(parts.port)
    except ValueError:
        target = "an address that is no URL"
    return (
        f"{urlsplit(url).netloc} redirects to {target}, and no redirect is followed: prompts and "
        "keys go only where you send them. If you trust that host, set the endpoint to it"
    )
