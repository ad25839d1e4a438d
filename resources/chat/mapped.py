"""A chat client whose requests are sent by the workers of a mapper.

One client already has hundreds of requests in flight. Workers on several nodes add what a single
process lacks at the scale of millions of requests: processors that encode requests and parse
replies, and network connections from more than one machine. Each has a client of its own with its
share of the limits: requests in flight and a minute, tokens a minute, ceilings. So no limit is
exceeded, and a ceiling may be reached by one worker while another has some of it left: the run
stops there and the next one continues.

Replies are stored by the worker that received them, in the one store of the process that maps,
before its batch is returned. Keys travel from memory to memory, on a cluster over its network.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Value
from resources.chat.client import Access, ChatClient, failure_summary
from resources.chat.settings import Ceilings, ChatSettings
from resources.mapper.pools import AHEAD, PoolMapper
from resources.mapper.ray_mapper import for_workers

_LOG = logging.getLogger(__name__)
Outcome = ChatReply[Any] | ChatFailure
_ADDED = (
    *("asked", "hits", "shared", "calls", "retries", "estimated", "implausible_usage"),
    *("prompt_tokens", "completion_tokens", "money"),
)
_MOST_REQUESTS = 1_024  # in a batch of a worker


@dataclass(frozen=True)
class SendRequests:
    """What workers do with a batch of requests and their parser.

    ``store`` is the one of the process that maps, as its workers may use it.
    """

    settings: ChatSettings
    key: SecretStr | None
    store: Any

    def __call__(
        self, batch: tuple[Sequence[ChatRequest], Parse[Any] | None]
    ) -> tuple[list[Outcome], dict[str, float]]:
        """The outcomes in order, and what this batch added to the counters."""
        before = _amounts(self._client)
        outcomes: list[Outcome] = self._client.complete(*batch)
        after = _amounts(self._client)
        return outcomes, {name: after[name] - before[name] for name in _ADDED}

    @cached_property
    def _client(self) -> ChatClient:
        return _WorkerClient(self.settings, self.key, self.store)


class _WorkerClient(ChatClient):
    """A client over a store that is already there."""

    def __init__(self, settings: ChatSettings, key: SecretStr | None, store: Any) -> None:  # noqa: ANN401
        super().__init__(settings, None, key)
        self._store = store


class MappedChat:
    """A ``StoringChat`` over a mapper's workers; stored replies are read here."""

    def __init__(
        self,
        client: ChatClient,
        settings: ChatSettings,
        find_access: Callable[[], Access],
        mapper: PoolMapper,
    ) -> None:
        """``client`` reads stored replies and counts; ``find_access`` as its own.

        ``settings`` are those of the client, with the limits of all workers together.
        """
        self._client, self._settings, self._mapper = client, settings, mapper
        self._find_access = find_access

    @property
    def engine(self) -> str:
        """The client's."""
        return self._client.engine

    def details(self) -> Mapping[str, int | float | str]:
        """The client's counters, with what all workers did."""
        return self._client.details()

    def recall(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | None]:
        """As the client's."""
        return self._client.recall(requests, parse)

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | ChatFailure]:
        """As the client's; ``parse`` must be picklable.

        Raises:
            EngineError: workers were lost again and again.
            ConfigError, ReplyStoreError: as the client's.
        """
        distinct = [*dict.fromkeys(requests)]
        if not distinct:
            return []
        counts, send = self._client.counts, self._send
        size = min(_MOST_REQUESTS, math.ceil(len(distinct) / (AHEAD * self._mapper.workers)))
        batches = (
            (distinct[start : start + size], parse) for start in range(0, len(distinct), size)
        )
        sent: list[list[Outcome]] = []
        counts.add(asked=(repeated := len(requests) - len(distinct)), shared=repeated)
        with counts.busy():
            for outcomes, added in self._mapper.map(send, batches):
                sent.append(outcomes)
                counts.add(**added)
        outcome_of = dict(zip(distinct, chain.from_iterable(sent), strict=True))
        ordered = [outcome_of[request] for request in requests]
        counts.fail(failed := [one for one in ordered if isinstance(one, ChatFailure)])
        if failed:
            _LOG.warning("%s: %s", self.engine, failure_summary(failed, len(ordered)))
        return ordered

    @cached_property
    def _send(self) -> SendRequests:
        endpoints, key = self._find_access()
        settings = shared_among(self._mapper.workers, self._settings, endpoints)
        return SendRequests(settings, key, for_workers(self._mapper, self._client.store))


def shared_among(
    workers: int, settings: ChatSettings, endpoints: tuple[str, ...] = ()
) -> ChatSettings:
    """The settings of one of several workers: its share of every limit, at least one request.

    The revision is looked up here, once for all.
    """
    most = settings.ceilings
    share = {
        "revision": settings.used_revision,
        "find_revision": None,
        "endpoints": endpoints or settings.endpoints,
        "concurrency": max(1, settings.concurrency // workers),
        "requests_per_minute": _part(settings.requests_per_minute, workers),
        "tokens_per_minute": _part(settings.tokens_per_minute, workers),
        "ceilings": Ceilings(
            calls=None if most.calls is None else most.calls // workers,
            tokens=None if most.tokens is None else most.tokens // workers,
            money=_part(most.money, workers),
        ),
    }
    return ChatSettings(**{**dict(settings), **share})


def _part(limit: float | None, workers: int) -> float | None:
    return None if limit is None else limit / workers


def _amounts(client: ChatClient) -> dict[str, float]:
    return {name: getattr(client.counts, name) for name in _ADDED}
