"""Ending a run between two steps, however it is told to end.

A signal, a spent budget and a judge that cannot be asked all come in the middle of a step, whose
rewards then never come. The step is given up: random state and counters go back to where the
step began, and a checkpoint of that moment is as good as one taken then.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from resources.training.library_types import TrainerState
from resources.training.random_state import RandomState

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """A signal asked the run to end. No ``Exception``, so that no library swallows it."""


@dataclass(slots=True)
class SafePoint:
    """The last moment between two steps, and whether weights are whole right now."""

    random: RandomState | None = None
    tokens_seen: int = 0
    updating: bool = False
    pending: str = ""

    def note(self, state: TrainerState) -> None:
        """This is such a moment."""
        self.random, self.tokens_seen = RandomState.now(), state.num_input_tokens_seen
        self.updating = False

    def interrupt(self, why: str) -> None:
        """End the run now, or as soon as the optimizer's step is done.

        Raises:
            Interrupted: weights are whole.
        """
        if self.pending:
            return  # it is ending already
        self.pending = why
        if not self.updating:
            raise Interrupted(why)

    def go_back(self, state: TrainerState) -> bool:
        """Undo what the given-up step drew; false where there is no way back."""
        if self.random is None or self.updating:
            return False
        self.random.restore()
        state.num_input_tokens_seen = self.tokens_seen
        return True


@contextmanager
def signals_interrupt(point: SafePoint) -> Iterator[None]:
    """Have SIGTERM and SIGINT interrupt ``point``; only a main thread can."""
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
