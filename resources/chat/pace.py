"""Rate limits per minute, and pauses before retries.

Calls are spread evenly over the minute, without bursts, which satisfies any provider's window.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LONGEST_REST_S = 86_400.0
"""A longer ``Retry-After`` counts as a day."""
_MINUTE_S = 60.0


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
