"""Which endpoint is asked next, over which connections.

Takes base URLs, gives the least loaded endpoint that may be asked now. An endpoint rests
when it says so (``Retry-After``) and when its circuit is open. A rest of hours is tried out
by one call every ``circuit_patience_s``: quotas are renewed earlier than promised.

Left out deliberately: weights. Endpoints of unlike speed balance themselves, since the
faster one is less loaded.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, FailureReason
from resources.chat.circuit import Circuit
from resources.chat.pace import Timing
from resources.chat.settings import ChatSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LANE_WIDTH = 16
"""Calls over one connection pool: a pool's upkeep a call grows with its connections."""
_SPREAD = 0.1  # all who wait for an endpoint do not return to it in the same instant


@dataclass(eq=False)
class _Lane:
    """One client of the openai package with its own connection pool."""

    client: "AsyncOpenAI"
    load: int = 0


@dataclass(eq=False)
class Endpoint:
    """One base URL: its connections, its load and its health."""

    url: str
    circuit: Circuit
    key: SecretStr | None = field(repr=False)
    trial_every_s: float
    load: int = 0
    resting_until: float = -math.inf
    _rests_since: float = -math.inf
    _trial_at: float = -math.inf
    _said: str = ""
    _lanes: list[_Lane] = field(default_factory=list, repr=False)

    def asked_from(self) -> float:
        """The clock's time from which it may be asked, be it as a trial."""
        return max(min(self.resting_until, self._trial_at), self.circuit.asked_from())

    def rest(self, now: float, pause_s: float, said: str) -> None:
        """It asked at ``now`` to be left alone for so long, in these words."""
        self.resting_until = max(self.resting_until, now + pause_s)
        self._rests_since, self._trial_at = now, now + self.trial_every_s
        self._said = said

    def begin(self, now: float) -> None:
        """A call is being sent; where that is a trial, the next one waits."""
        self.circuit.begin()
        if now < self.resting_until:
            self._trial_at = now + self.trial_every_s

    def served(self, started: float) -> None:
        """It did its part in a call of then; a trial that went well ends the rest."""
        self.circuit.succeeded()
        if started > self._rests_since:
            self.resting_until = -math.inf

    def why_not(self, now: float) -> str:
        """Why it is not asked at present."""
        if self.circuit.open_since is not None or now >= self.resting_until:
            return self.circuit.last_fault
        left_s = self.resting_until - now
        return f"it asked to be left alone for {left_s:,.0f} s ({self._said})"

    @contextmanager
    def client(self) -> Iterator["AsyncOpenAI"]:
        """A client of the openai package for one call, counted as load meanwhile."""
        lane = min(self._lanes, key=lambda one: one.load, default=None)
        if lane is None or lane.load >= LANE_WIDTH:
            from resources.chat.one_host import openai_client

            lane = _Lane(openai_client(self.url, self.key))
            self._lanes.append(lane)
        lane.load += 1
        self.load += 1
        try:
            yield lane.client
        finally:
            lane.load -= 1
            self.load -= 1

    async def close(self) -> None:
        """Close all connections."""
        while self._lanes:
            await self._lanes.pop().client.close()


class Endpoints:
    """All endpoints of one model. To be used inside one event loop."""

    def __init__(self, settings: ChatSettings, key: SecretStr | None, timing: Timing) -> None:
        """``key`` goes to every endpoint; None where they ask for none."""
        self._timing, self._patience_s = timing, settings.circuit_patience_s
        cooldown_s = settings.circuit_cooldown_s
        trial_every_s = max(self._patience_s, cooldown_s)
        self.every = [
            Endpoint(url, Circuit(timing.clock, cooldown_s), key, trial_every_s)
            for url in settings.endpoints
        ]

    async def next(self) -> Endpoint | ChatFailure:
        """The endpoint to ask now, waited for where all rest; a failure where none comes soon."""
        while True:
            now = self._timing.clock()
            ready = [endpoint for endpoint in self.every if endpoint.asked_from() <= now]
            if ready:
                chosen = min(ready, key=lambda endpoint: endpoint.load)
                chosen.begin(now)
                return chosen
            if all(self._given_up(endpoint, now) for endpoint in self.every):
                return self._why_none(now)
            wait_s = min(endpoint.asked_from() for endpoint in self.every) - now
            await self._timing.sleep(wait_s * (1 + _SPREAD * self._timing.dice.random()))

    def _given_up(self, endpoint: Endpoint, now: float) -> bool:
        opened = endpoint.circuit.open_since
        if opened is None:
            return endpoint.resting_until - now > self._patience_s
        return now - opened >= self._patience_s

    def _why_none(self, now: float) -> ChatFailure:
        resting = any(endpoint.circuit.open_since is None for endpoint in self.every)
        reason: FailureReason = "rate_limited" if resting else "circuit_open"
        faults = "; ".join(sorted({endpoint.why_not(now) for endpoint in self.every}))
        detail = f"no endpoint can be asked at present: {faults}"
        lasting = all(endpoint.circuit.open_since == -math.inf for endpoint in self.every)
        return ChatFailure(reason, detail, 0, lasting=lasting)

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self.every:
            await endpoint.close()
