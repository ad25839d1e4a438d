"""What calls cost and how fast they are sent: counters, estimates, ceilings and paces.

Calls in flight are reserved at their largest possible size, so a ceiling in tokens or money
is not exceeded unless a prompt has more tokens than estimated. Reported usage counts where it
is plausible for the request, else the estimate does.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Self

from decomposerl.chat import ChatFailure, ChatRequest, FailureReason, Price
from decomposerl.endpoint import Endpoint
from decomposerl.progress import bar

_CHARACTERS_A_TOKEN = 3.0  # English has about four; three leaves room for tables and names
_TOKENS_A_MESSAGE = 8
_LEAST_SHOWN = 16  # requests of a batch whose progress is shown
_TEMPLATE_TOKENS = 1_024  # the most that chat templates add: a system prompt, a schema's frame
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Timing:
    """How a client waits: its clock (monotonic seconds) and sleep, and how often and how long.

    ``retries`` are those of the openai package. An endpoint that fails all calls is tried by one
    every ``cooldown_s``; its other calls wait for ``patience_s``, then they fail.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    retries: int = 4
    cooldown_s: float = 10.0
    patience_s: float = 120.0


@dataclass(slots=True)
class Counts:
    """Counters of one client since it was made. Threads may share them."""

    asked: int = 0
    """Requests received."""
    hits: int = 0
    """Distinct requests answered from the store."""
    shared: int = 0
    """Requests answered by an equal one of the same batch or in flight."""
    calls: int = 0
    """HTTP requests sent, retries included."""
    retries: int = 0
    """Calls that repeated a failed one."""
    estimated: int = 0
    """Calls without plausible reported usage, accounted with an estimate."""
    implausible_usage: int = 0
    """Those whose reported usage is negative, zero, too large or not a number."""
    prompt_tokens: int = 0
    """As the replies report them, else estimated."""
    completion_tokens: int = 0
    """As the replies report them, else estimated."""
    money: float = 0.0
    """US dollars, by the price table."""
    failures: Counter[FailureReason] = field(default_factory=Counter)
    """Requests without a usable reply, by reason."""
    examples: dict[FailureReason, str] = field(default_factory=dict)
    """The message of the first failure of each reason, without the key."""
    busy_s: float = 0.0
    """Wall time in which at least one request was waited for."""
    _busy: int = field(default=0, repr=False)
    _since: float = field(default=0.0, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def fail(self, failures: Iterable[ChatFailure]) -> None:
        """Count failures, and keep the message of the first of each reason."""
        with self._lock:
            for failure in failures:
                self.failures[failure.reason] += 1
                self.examples.setdefault(failure.reason, failure.detail)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count the time inside; what several threads spend at once counts once."""
        with self._lock:
            self._since = self._since if self._busy else time.monotonic()
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    self.busy_s += time.monotonic() - self._since

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def metadata(self) -> Mapping[str, int | float | str]:
        """Plain numbers by name; failures as ``failed_<reason>`` and ``example <reason>``."""
        whole = [each.name for each in fields(self) if each.type is int and each.repr]
        plain: dict[str, int | float | str] = {name: getattr(self, name) for name in whole}
        plain |= {"money_usd": round(self.money, 6), "busy_s": round(self.busy_s, 3)}
        plain |= {f"failed_{name}": n for name, n in sorted(self.failures.items())}
        return plain | {f"example {name}": text for name, text in sorted(self.examples.items())}


@contextmanager
def batch_progress(total: int, remembered: int, counts: Counts) -> Iterator[Callable[[], None]]:
    """Show the progress of a batch of distinct requests; call the result for each outcome.

    ``remembered`` of ``total`` requests were answered from the store. A small batch shows nothing,
    as the claims of an evaluation each send one or two requests at a time.
    """
    calls, started = counts.calls, time.monotonic()
    hits = f"{remembered / max(total, 1):.0%} hits"
    known = remembered if total >= _LEAST_SHOWN else total

    with bar("chat", total, "requests", known) as shown:

        def step() -> None:
            rate = (counts.calls - calls) / max(time.monotonic() - started, 1e-9)
            shown.advance(note=f"{rate:,.1f} calls a second, {hits}, ${counts.money:,.4f}")

        yield step


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call uses; ``estimated`` where not as reported."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    implausible: bool = False
    """Whether the reply reported something that the request cannot have used."""

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def expected(cls, request: ChatRequest) -> Self:
        """The most that a call may use: its prompt's characters and its token budget say it."""
        characters = sum(len(turn.content) for turn in request.messages)
        prompt = characters / _CHARACTERS_A_TOKEN + _TOKENS_A_MESSAGE * len(request.messages)
        return cls(int(prompt) + 1, request.sampling.max_tokens, estimated=True)

    @classmethod
    def of(cls, reported: object, request: ChatRequest, text: str) -> Self:
        """The ``usage`` of a reply with this text; an estimate where a number is implausible."""
        # A prompt has from one token to one per byte, and at most 1,024 for the template; a
        # reply has from one token, if it has text, to ``max_tokens``.
        usage = reported if isinstance(reported, dict) else {}
        texts = [*(turn.content for turn in request.messages), *request.documents]
        size = sum(len(text.encode("utf-8", "replace")) for text in texts)
        most = size + len(request.schema or "") + _TEMPLATE_TOKENS
        most += _TOKENS_A_MESSAGE * len(request.messages)
        budget = request.sampling.max_tokens
        prompt = _within(usage.get("prompt_tokens"), 1, most)
        completion = _within(usage.get("completion_tokens"), int(bool(text)), budget)
        if prompt is not None and completion is not None:
            return cls(prompt, completion)
        return replace(cls.expected(request), implausible=bool(reported))


def _within(reported: object, least: int, most: int) -> int | None:
    """The number, None where it is not an integer in this range."""
    if not isinstance(reported, int) or isinstance(reported, bool):
        return None
    return reported if least <= reported <= most else None


class Pace:
    """At most ``per_minute`` units a minute, in the order of requests; 0: no limit.

    Calls are spread evenly over the minute, without bursts, which satisfies any provider's window.
    """

    def __init__(self, per_minute: float, timing: Timing) -> None:
        """``per_minute`` is in the units of ``take``: requests, or tokens."""
        self._unit_s = _MINUTE_S / per_minute if per_minute else 0.0
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


class Budget:
    """Reservations against the ceilings of an endpoint, inside one event loop."""

    def __init__(self, endpoint: Endpoint, counts: Counts) -> None:
        """``counts`` accounts usage and is what the ceilings are compared with."""
        self._ceilings, self._price, self._counts = endpoint, endpoint.price or Price(), counts
        self._in_flight, self._reserved = 0, Usage(0, 0)
        self._settled = asyncio.Event()
        self.spent_at = ""
        """The ceiling that stopped the run, empty while none has."""

    async def reserve(self, expected: Usage) -> bool:
        """Whether the ceilings allow a request; it is then to be released.

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
            self._book(expected, 1)
            self._counts.add(calls=1)
        return not self.spent_at

    def retry(self) -> str:
        """Count one more call of a reserved request; else the ceiling that refuses it."""
        reached = self._reached(Usage(0, 0))
        if not reached:
            self._counts.add(calls=1, retries=1)
        return reached

    def spend(self, used: Usage) -> None:
        """Account what a call used."""
        self._counts.add(
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            money=self._money(used),
            estimated=used.estimated,
            implausible_usage=used.implausible,
        )

    def release(self, expected: Usage, *, sent: bool) -> None:
        """Free the reservation of a request, which may never have been sent."""
        self._counts.add(calls=0 if sent else -1)
        self._book(expected, -1)
        self._settled.set()

    def _book(self, expected: Usage, sign: int) -> None:
        booked = self._reserved
        self._in_flight += sign
        self._reserved = Usage(
            booked.prompt_tokens + sign * expected.prompt_tokens,
            booked.completion_tokens + sign * expected.completion_tokens,
        )

    def _money(self, usage: Usage) -> float:
        return self._price.dollars(usage.prompt_tokens, usage.completion_tokens)

    def _reached(self, expected: Usage) -> str:
        """The ceiling that a call would exceed if all in flight use their estimates."""
        most, used = self._ceilings, self._counts
        tokens = used.tokens + self._reserved.tokens + expected.tokens
        money = used.money + self._money(self._reserved) + self._money(expected)
        if most.calls and used.calls + 1 > most.calls:
            return f"ceiling of {most.calls:,} calls"
        if most.tokens and tokens > most.tokens:
            return f"ceiling of {most.tokens:,} tokens"
        if most.dollars and money > most.dollars:
            return f"ceiling of {most.dollars:,.2f} US dollars"
        return ""
