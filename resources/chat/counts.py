"""Counters of a chat client, for run metadata and the progress bar.

Token usage is what replies report. Where a request arrived and no usage came back, or one
that the request cannot have used, it is estimated and the call counted as ``estimated``.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TextIO

from decomposerl.chat import ChatFailure, FailureReason


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

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def metadata(self) -> Mapping[str, int | float | str]:
        """Plain numbers by name; failures as ``failed_<reason>`` and ``example <reason>``."""
        plain: dict[str, int | float | str] = {
            name: getattr(self, name)
            for name in ("asked", "hits", "shared", "calls", "retries", "estimated")
        }
        plain |= {"implausible_usage": self.implausible_usage}
        plain |= {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        plain |= {"money_usd": round(self.money, 6)}
        plain |= {f"failed_{name}": n for name, n in sorted(self.failures.items())}
        return plain | {f"example {name}": text for name, text in sorted(self.examples.items())}


class Progress:
    """A bar over the distinct requests of one batch."""

    def __init__(
        self, total: int, remembered: int, counts: Counts, stream: TextIO | None = None
    ) -> None:
        """``remembered`` of ``total`` requests were answered from the store.

        Draws on ``stream``, standard error if None, and only if it is a terminal.
        """
        from tqdm import tqdm

        self._counts, self._calls = counts, counts.calls
        self._hit_share = remembered / total if total else 0.0
        self._started = time.monotonic()
        self._bar = tqdm(
            total=total,
            initial=remembered,
            desc="chat",
            unit="request",
            disable=None,
            file=stream,
        )

    def __enter__(self) -> Self:
        """The bar itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state visible."""
        self._bar.close()

    def step(self) -> None:
        """One more request has its outcome."""
        if self._bar.disable:
            return
        rate = (self._counts.calls - self._calls) / max(time.monotonic() - self._started, 1e-9)
        self._bar.set_postfix_str(
            f"{rate:,.0f} calls/s, {self._hit_share:.0%} hits, ${self._counts.money:,.4f}",
            refresh=False,
        )
        self._bar.update()
