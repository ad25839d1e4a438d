"""What a client did so far, in numbers, for metadata and the progress bar.

Left out deliberately: what an endpoint charges for a reply that never arrived; only usage
that a reply reports is counted.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from decomposerl.chat import FailureReason


@dataclass(slots=True)
class Counts:
    """Counters of one client since it was made. Threads may share them."""

    asked: int = 0
    """Requests handed in."""
    hits: int = 0
    """Distinct requests answered from the cache."""
    shared: int = 0
    """Requests answered by an equal one of the same batch or in flight."""
    calls: int = 0
    """HTTP requests sent, retries included."""
    retries: int = 0
    """Calls that repeated an earlier one."""
    prompt_tokens: int = 0
    """As the replies report them."""
    completion_tokens: int = 0
    """As the replies report them."""
    money: float = 0.0
    """US dollars, by the price table."""
    failures: Counter[FailureReason] = field(default_factory=Counter)
    """Requests without a usable reply, by reason."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def fail(self, reasons: Iterable[FailureReason]) -> None:
        """Count failures."""
        with self._lock:
            self.failures.update(reasons)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def metadata(self) -> dict[str, int | float]:
        """Plain numbers by name; failures as ``failed_<reason>``."""
        plain: dict[str, int | float] = {
            name: getattr(self, name)
            for name in ("asked", "hits", "shared", "calls", "retries", "prompt_tokens")
        }
        plain |= {"completion_tokens": self.completion_tokens, "money_usd": round(self.money, 6)}
        return plain | {f"failed_{name}": n for name, n in sorted(self.failures.items())}
