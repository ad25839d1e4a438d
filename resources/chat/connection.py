"""What protects a key on its way, and the event loop that keeps connections open.

Calls to this machine, and the key in them, never go through a proxy.
"""

import asyncio
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import wait
from ipaddress import ip_address
from typing import Any, NoReturn, TypeVar
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from decomposerl.errors import ConfigError, EngineError

Result = TypeVar("Result")
NO_KEY = "none"
"""The openai package requires a key, a local server does not."""
Access = tuple[Sequence[str], SecretStr | None]
"""URLs of a model's endpoints, and their key."""
PROBE_BYTES = 2**22
"""The most bytes of an endpoint's list of models."""
_LAST_S = 1.0  # an interrupted caller waits this long: replies in flight are paid for
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


def fetched(
    url: str, key: str, timeout_s: float, *, direct: bool = False, posted: bytes | None = None
) -> bytes:
    """The body of a GET of an http(s) URL, from that host only; ``direct`` skips any proxy.

    With ``posted``, JSON that is sent, it is a POST.

    Raises:
        Moved: it redirects.
        HTTPError: it answers with status 400 or above.
        OSError: it does not answer, or not all within ``timeout_s``.
        ValueError: the answer has more than ``PROBE_BYTES``.
    """
    proxies = [urllib.request.ProxyHandler({})] if direct or is_loopback(url) else []
    opener = urllib.request.build_opener(_Stay, *proxies)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    headers |= {"Content-Type": "application/json"} if posted is not None else {}
    request = urllib.request.Request(url, posted, headers)  # noqa: S310 - http(s) by the caller
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


class LoopThread:
    """An event loop in its own thread, for synchronous callers; it runs until closed.

    Connections belong to a loop, so one that lives as long as its owner keeps them open between
    batches and threads.
    """

    def __init__(self, name: str) -> None:
        """Start the thread; it does not keep the process alive."""
        self._loop = asyncio.new_event_loop()
        self._ending, self._scheduling = False, threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def run(
        self, work: Coroutine[Any, Any, Result], wind_up: Callable[[], object] | None = None
    ) -> Result:
        """Run to the end; an interrupt of the caller (Ctrl-C) cancels the work.

        ``wind_up`` stops it from starting anything new; what it has started gets a second to end.

        Raises:
            RuntimeError: the loop was closed.
        """
        # What is begun after the last look at all tasks would be waited for without end.
        with self._scheduling:
            if self.closed:
                work.close()
                raise RuntimeError("the event loop was closed")
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException as error:
            if wind_up is not None and not isinstance(error, Exception):
                self._loop.call_soon_threadsafe(wind_up)
                wait([running], _LAST_S)
            raise
        finally:
            running.cancel()

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is being closed."""
        return self._ending or self._loop.is_closed()

    def close(self) -> None:
        """Cancel what still runs and end the thread; idempotent."""
        with self._scheduling:
            if self.closed:
                return
            self._ending = True
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def end_after(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run this and then close, without waiting: for finalizers, on any thread."""

        async def ending() -> None:
            try:
                await last()
            finally:
                self._loop.stop()

        if not self.closed:
            asyncio.run_coroutine_threadsafe(ending(), self._loop)


async def _cancel_all() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
