"""When a call is sent, and where: pace, pauses, and the least loaded of the healthy endpoints.

Calls are spread evenly over the minute, without bursts, which satisfies any provider's window.
An endpoint rests when it says so (``Retry-After``) or when its circuit breaker is open. During
a long rest one call every ``circuit_patience_s`` is sent as a trial, because quotas are often
renewed earlier than announced.
"""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TYPE_CHECKING

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, FailureReason
from resources.chat.settings import ChatSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LONGEST_REST_S = 86_400.0
"""A longer ``Retry-After`` counts as a day."""
_MINUTE_S = 60.0
WINDOW = 20
"""How many of the latest outcomes decide; fewer never open the circuit."""
WORST = 0.5
"""The share of failures among them at which the circuit opens."""
_UNREACHED_S = 10.0
"""Most seconds to wait for an endpoint that no call has reached: wrong address, or not started."""
LANE_WIDTH = 16
"""Most calls over one connection pool: the cost per call grows with a pool's connections."""
_SPREAD = 0.1  # so that waiting calls do not all return in the same instant


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock (monotonic seconds), sleep and random numbers of a client."""

    clock: Clock = time.monotonic
    sleep: Sleep = asyncio.sleep
    dice: Random = field(default_factory=Random)


class Pace:
    """At most ``per_minute`` units a minute, in the order of requests; None: no limit."""

    def __init__(self, per_minute: float | None, timing: Timing) -> None:
        """``per_minute`` is in the units of ``take``: requests, or tokens."""
        self._unit_s = 0.0 if per_minute is None else _MINUTE_S / per_minute
        self._timing = timing
        self._free_at = 0.0

    async def take(self, units: float) -> None:
        """Return when this many units may be used."""
        if not self._unit_s:
            return
        now = self._timing.clock()
        start = max(now, self._free_at)
        self._free_at = start + units * self._unit_s
        if start > now:
            await self._timing.sleep(start - now)

    def give_back(self, units: float) -> None:
        """Return unused units; negative where more were used."""
        self._free_at -= units * self._unit_s


def pause_before_retry(attempt: int, dice: Random) -> float:
    """Seconds after the given attempt (from 1): random, half to all of a doubling bound."""
    bound = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
    return bound * (0.5 + dice.random() / 2)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds of a ``Retry-After`` header (a number or a date), a day at most.

    None where there is none, or where it is not a finite time.
    """
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return min(max(0.0, seconds), LONGEST_REST_S) if math.isfinite(seconds) else None


class Circuit:
    """Circuit breaker of one endpoint.

    Closed: calls go through. Open: after a pause one call goes as a trial; its success closes
    the circuit, its failure opens it again.
    """

    def __init__(self, clock: Clock, cooldown_s: float) -> None:
        """``cooldown_s`` seconds pass between two trials of a failing endpoint."""
        self._clock, self._cooldown_s = clock, cooldown_s
        self._latest: deque[bool] = deque(maxlen=WINDOW)
        self._trial_at = 0.0
        self.open_since: float | None = None
        """When the circuit opened (long ago, for a fault that lasts), None while closed."""
        self.last_fault = ""
        """The message of its last fault."""
        self.reached = False
        """Whether a call ever arrived."""

    def ready_at(self) -> float:
        """The clock's time from which the endpoint may be called."""
        return 0.0 if self.open_since is None else self._trial_at

    def begin(self) -> None:
        """A call is being sent; after a trial the next one waits another pause."""
        if self.open_since is not None:
            self._trial_at = self._clock() + self._cooldown_s

    def succeeded(self) -> None:
        """The endpoint answered: close the circuit."""
        self.reached = True
        self._latest.append(True)
        if self.open_since is not None:
            self.open_since = None
            self._latest.clear()

    def failed(self, fault: str, *, lasting: bool = False, arrived: bool = True) -> None:
        """The endpoint failed: open the circuit if it fails most of the time.

        Waiting does not help against a ``lasting`` fault (a wrong key).
        """
        self.reached |= arrived
        self._latest.append(False)
        self.last_fault = fault
        full = len(self._latest) == WINDOW
        if full and self._latest.count(False) >= WORST * WINDOW and self.open_since is None:
            self.open_since = -math.inf if lasting else self._clock()
            self._trial_at = self._clock() + self._cooldown_s


@dataclass(eq=False, slots=True)
class Turn:
    """A call's place among those that an endpoint has to answer; times of the event loop.

    ``sent`` is its first attempt, ``since`` that, or the latest reply to a call ahead of it.
    """

    sent: float = 0.0
    since: float = 0.0


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
    _message: str = ""
    _lone: bool | None = None
    _lanes: list[_Lane] = field(default_factory=list, repr=False)
    _turns: dict[Turn, None] = field(default_factory=dict, repr=False)

    def ready_at(self) -> float:
        """The clock's time from which it may be called, possibly as a trial."""
        return max(min(self.resting_until, self._trial_at), self.circuit.ready_at())

    def rest(self, now: float, pause_s: float, message: str) -> None:
        """At ``now`` it requested a pause of so many seconds, with this message."""
        self.resting_until = max(self.resting_until, now + pause_s)
        self._rests_since, self._trial_at = now, now + self.trial_every_s
        self._message = message

    def begin(self, now: float) -> None:
        """A call is being sent; after a trial the next one waits."""
        self.circuit.begin()
        if now < self.resting_until:
            self._trial_at = now + self.trial_every_s

    def served(self, started: float) -> None:
        """It answered a call sent at ``started``; a successful trial ends the rest."""
        self.circuit.succeeded()
        if started > self._rests_since:
            self.resting_until = -math.inf

    def why_not(self, now: float) -> str:
        """Why it gets no calls at present."""
        if self.circuit.open_since is not None or now >= self.resting_until:
            return self.circuit.last_fault
        left_s = self.resting_until - now
        return f"it asked to be left alone for {left_s:,.0f} s ({self._message})"

    def answered(self, turn: Turn, now: float) -> None:
        """A call was answered at ``now``: those sent after it have moved up."""
        for behind in reversed(self._turns):
            if behind is turn:
                return
            behind.since = now

    @contextmanager
    def client(self, turn: Turn) -> Iterator["AsyncOpenAI"]:
        """A client of the openai package for one call, counted as load meanwhile."""
        lane = min(self._lanes, key=lambda one: one.load, default=None)
        if lane is None or lane.load >= LANE_WIDTH:
            from resources.chat.one_host import openai_client

            lane = _Lane(openai_client(self.url, self.key))
            self._lanes.append(lane)
        lane.load += 1
        self.load += 1
        self._turns[turn] = None
        try:
            yield lane.client
        finally:
            del self._turns[turn]
            lane.load -= 1
            self.load -= 1

    async def lists_one_model(self, client: "AsyncOpenAI") -> bool:
        """Whether it lists a single model, which then answers by whatever name it reports."""
        if self._lone is None:
            try:
                raw = await client.models.with_raw_response.list()
                self._lone = len(json.loads(raw.content)["data"]) == 1
            except Exception:  # noqa: BLE001 - without a list nothing is known of its names
                return False
        return self._lone

    async def close(self) -> None:
        """Close all connections."""
        while self._lanes:
            await self._lanes.pop().client.close()


class Endpoints:
    """All endpoints of one model, for use inside one event loop."""

    def __init__(self, settings: ChatSettings, key: SecretStr | None, timing: Timing) -> None:
        """``key`` goes to every endpoint; None where they need none."""
        self._timing, self._patience_s = timing, settings.circuit_patience_s
        cooldown_s = settings.circuit_cooldown_s
        trial_every_s = max(self._patience_s, cooldown_s)
        self.every = [
            Endpoint(url, Circuit(timing.clock, cooldown_s), key, trial_every_s)
            for url in settings.endpoints
        ]

    async def next(self) -> Endpoint | ChatFailure:
        """The endpoint to call now, waiting while all rest; a failure if none is ready soon."""
        while True:
            now = self._timing.clock()
            ready = [endpoint for endpoint in self.every if endpoint.ready_at() <= now]
            if ready:
                chosen = min(ready, key=lambda endpoint: endpoint.load)
                chosen.begin(now)
                return chosen
            if all(self._given_up(endpoint, now) for endpoint in self.every):
                return self._why_none(now)
            wait_s = min(endpoint.ready_at() for endpoint in self.every) - now
            await self._timing.sleep(wait_s * (1 + _SPREAD * self._timing.dice.random()))

    def _given_up(self, endpoint: Endpoint, now: float) -> bool:
        opened = endpoint.circuit.open_since
        if opened is None:
            return endpoint.resting_until - now > self._patience_s
        reached = endpoint.circuit.reached
        return now - opened >= (
            self._patience_s if reached else min(self._patience_s, _UNREACHED_S)
        )

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
