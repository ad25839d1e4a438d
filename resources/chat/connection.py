"""What protects a key on its way, and the event loop that keeps connections open.

Calls to this machine, and the key in them, never go through a proxy. No redirect is followed.
"""

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError

Result = TypeVar("Result")
PROBE_BYTES = 2**22
"""The most bytes of an endpoint's list of models."""
_LOOPBACK = re.compile(r"(.+\.)?localhost|127(\.\d+){3}|(0*:){2,7}0*1")
_SAID = 500  # characters of a server's complaint
_SHORTEST_KEY = 6  # a shorter one is a placeholder such as "none", and part of many words


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own; a proxy must see neither call nor key."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


def key_of(endpoint: Endpoint) -> SecretStr:
    """The key of an endpoint, in memory alone; empty where it names no variable.

    A key is never configuration: settings have the name of its variable, which is read when the
    first request needs it.

    Raises:
        ConfigError: the variable is not set; the message names it.
    """
    variable = endpoint.key_variable
    value = os.environ.get(variable, "")
    if variable and not value:
        raise ConfigError(
            f"{variable} is not set; it must hold the endpoint's key, in the environment or in .env"
        )
    return SecretStr(value)


def without_key(text: str, key: SecretStr, mark: str = "[key]") -> str:
    """The text without the key, which servers like to repeat in error messages."""
    value = key.get_secret_value().strip()
    if len(value) < _SHORTEST_KEY:
        return text
    return text.replace(repr(value)[1:-1], mark).replace(value, mark)


class NoAnswer(EngineError):  # noqa: N818 - the name is what happened
    """A server gives no answer that can be used; ``status`` is 0 where it gives none at all."""

    def __init__(self, said: str, status: int = 0) -> None:
        """With the message and the HTTP status."""
        super().__init__(said)
        self.status = status

    @property
    def refused(self) -> bool:
        """Whether it requires another key."""
        return self.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def fetched(url: str, key: str = "", timeout_s: float = 3.0, posted: object = None) -> bytes:
    """The body of a GET of an http(s) URL; with ``posted``, sent as JSON, of a POST.

    Raises:
        NoAnswer: it cannot be reached, redirects, refuses, or answers not all within ``timeout_s``
            or with more than ``PROBE_BYTES``; the message, without URL and key, says which.
    """
    import httpx  # late: most commands call no server

    how: dict[str, Any] = {"timeout": timeout_s, "trust_env": not is_loopback(url)}
    how["headers"] = {"Authorization": f"Bearer {key}"} if key else {}
    until, body = time.monotonic() + timeout_s, b""
    try:
        with httpx.stream("GET" if posted is None else "POST", url, json=posted, **how) as reply:
            status = reply.status_code
            if reply.has_redirect_location:
                raise NoAnswer(f"HTTP {status}: {moved(url, reply.headers['location'])}", status)
            for part in reply.iter_bytes():
                body += part
                if len(body) > PROBE_BYTES:
                    raise NoAnswer(f"answers more than {PROBE_BYTES:,} bytes", status)
                if time.monotonic() > until:
                    raise NoAnswer(f"does not answer all within {timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswer(f"does not answer: {error}") from error
    if status < HTTPStatus.BAD_REQUEST:
        return body
    said = body.decode("utf-8", "replace")
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        said = str(json.loads(said)["error"]["message"])
    said = without_key(f": {said}" if said else "", SecretStr(key))
    raise NoAnswer(f"answered with status {status}{said[:_SAID]}", status)


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
        self._scheduling, self.closed = threading.Lock(), False
        self._loop, self._end = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._until_closed, name=name, daemon=True)
        self._thread.start()

    def _until_closed(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._end.wait())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run to the end; an interrupt of the caller (Ctrl-C) cancels the work.

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
        finally:
            running.cancel()

    def close(self) -> None:
        """Cancel what still runs and end the thread; idempotent."""
        with self._scheduling:
            if not self.closed:
                self.closed = True
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
