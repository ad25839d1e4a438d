"""A chat client that is made at the first question and closed with its resource.

Takes a name and a way to make the client, gives a ``Chat``. A run that finds every answer
stored opens no cache, starts no thread and no server.

Left out deliberately: everything that a client does (``resources.chat``).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest


class CountedChat(Chat, Protocol):
    """A ``Chat`` that counts what it does and can be closed."""

    @property
    def counts(self) -> "Shown":
        """What was done so far."""
        ...

    def close(self) -> None:
        """Close connections and cache."""
        ...


class Shown(Protocol):
    """Counters that can be shown."""

    def metadata(self) -> Mapping[str, int | float | str]:
        """Numbers by name, and what failures said."""
        ...


class LateChat:
    """A ``Chat``; threads may share one."""

    def __init__(self, engine: str, make: Callable[[], CountedChat]) -> None:
        """``engine`` is the name that the client of ``make`` will have."""
        self._engine, self._make = engine, make
        self._client: CountedChat | None = None
        self._lock = threading.Lock()

    @property
    def engine(self) -> str:
        """The client's name."""
        return self._engine

    def complete(
        self, requests: Sequence[ChatRequest], parse: Callable[[str], Any] | None = None
    ) -> list[ChatReply | ChatFailure]:
        """As the client's; no request makes no client."""
        if not requests:
            return []
        with self._lock:
            if self._client is None:
                self._client = self._make()
        return self._client.complete(requests, parse)

    def details(self) -> Mapping[str, int | float | str]:
        """The client's counts as ``chat <name>``; empty where none was made."""
        if self._client is None:
            return {}
        return {f"chat {name}": value for name, value in self._client.counts.metadata().items()}

    def close(self) -> None:
        """Close the client where there is one; a second time does nothing."""
        if self._client is not None:
            self._client.close()
