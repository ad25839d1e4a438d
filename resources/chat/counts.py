"""What a client did so far, in numbers, for metadata and the progress bar.

Usage is what replies report; where none came back although the request arrived, or one that
the request cannot have used, it is estimated, and the call counted as ``estimated``.

Left out deliberately: what an endpoint really charges; its own meter knows.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from decomposerl.chat import ChatFailure, FailureReason


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
    estimated: int = 0
    """Calls without reported usage that can be, booked as estimated."""
    implausible_usage: int = 0
    """Calls among them whose reported usage cannot be: negative, zero, too large, no number."""
    prompt_tokens: int = 0
    """As the replies report them, else estimated."""
    completion_tokens: int = 0
    """As the replies report them, else estimated."""
    money: float = 0.0
    """US dollars, by the price table."""
    failures: Counter[FailureReason] = field(default_factory=Counter)
    """Requests without a usable reply, by reason."""
    examples: dict[FailureReason, str] = field(default_factory=dict)
    """What the first failure of each reason said, without the key."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def fail(self, failures: Iterable[ChatFailure]) -> None:
        """Count failures, and keep what the first of each reason said."""
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
        return plain | {f"example {name}": said for name, said in sorted(self.examples.items())}
