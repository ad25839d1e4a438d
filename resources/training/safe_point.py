"""Safe points between two steps, at which a run can stop and be resumed exactly.

A signal, a spent budget and an unreachable judge all arrive in the middle of a step, whose rewards
then never come. The step is abandoned: random state and counters go back to the step's beginning,
and a checkpoint of that state equals one that was taken then.
"""

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import TrainerState

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """A signal asked the run to end. Not an ``Exception``, so that no library swallows it."""


@dataclass(frozen=True, slots=True)
class RandomState:
    """The state of every global generator that a training step draws from."""

    python: Any
    numpy: Any
    torch: Any
    cuda: list[Any]

    @classmethod
    def now(cls) -> "RandomState":
        """A copy of the current state."""
        import numpy as np
        import torch

        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda)  # noqa: NPY002 - libraries draw from the global one

    def restore(self) -> None:
        """Continue from this state."""
        import numpy as np
        import torch

        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002 - as above
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)


@contextmanager
def temporary_seed(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside the block; outside nothing has been drawn."""
    import torch

    before = RandomState.now()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        before.restore()


@dataclass(slots=True)
class SafePoint:
    """The last safe point, and whether the optimizer is changing the weights right now."""

    random: RandomState | None = None
    tokens_seen: int = 0
    updating: bool = False
    pending: str = ""

    def record(self, state: "TrainerState") -> None:
        """Record the current state as a safe point."""
        self.random, self.tokens_seen = RandomState.now(), state.num_input_tokens_seen
        self.updating = False

    def interrupt(self, why: str) -> None:
        """End the run now, or as soon as the optimizer step is done.

        Raises:
            Interrupted: the weights are consistent.
        """
        if self.pending:
            return  # it is ending already
        self.pending = why
        if not self.updating:
            raise Interrupted(why)

    def rewind(self, state: "TrainerState") -> bool:
        """Undo what the abandoned step drew; False where that is impossible."""
        if self.random is None or self.updating:
            return False
        self.random.restore()
        state.num_input_tokens_seen = self.tokens_seen
        return True


@contextmanager
def signals_interrupt(point: SafePoint) -> Iterator[None]:
    """Let SIGTERM and SIGINT interrupt ``point``; has an effect in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: object) -> None:
        point.interrupt(f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
