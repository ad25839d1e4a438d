"""A circuit breaker: an endpoint that fails most of the time is left alone for a while.

Takes outcomes, says when the endpoint may be asked next. Closed: at once. Open: after a
pause one call goes as a trial; its success closes the circuit, its failure opens it again.

Left out deliberately: what counts as a failure (``resources.chat.calls`` decides).
"""

import math
from collections import deque

from resources.chat.pace import Clock

WINDOW = 20
"""How many of the latest outcomes are looked at; fewer never open the circuit."""
WORST = 0.5
"""The share of failures among them from which the circuit opens."""


class Circuit:
    """The health of one endpoint."""

    def __init__(self, clock: Clock, cooldown_s: float) -> None:
        """``cooldown_s`` seconds pass between two trials of a failing endpoint."""
        self._clock, self._cooldown_s = clock, cooldown_s
        self._latest: deque[bool] = deque(maxlen=WINDOW)
        self._trial_at = 0.0
        self.open_since: float | None = None
        """When the circuit opened (long ago, for a fault that lasts), None while closed."""
        self.last_fault = ""
        """What the endpoint did last, in words."""

    def asked_from(self) -> float:
        """The clock's time from which the endpoint may be asked; past where it may now."""
        return 0.0 if self.open_since is None else self._trial_at

    def begin(self) -> None:
        """A call is being sent; where that is a trial, the next one waits a pause more."""
        if self.open_since is not None:
            self._trial_at = self._clock() + self._cooldown_s

    def succeeded(self) -> None:
        """The endpoint did its part: close."""
        self._latest.append(True)
        if self.open_since is not None:
            self.open_since = None
            self._latest.clear()

    def failed(self, fault: str, *, lasting: bool = False) -> None:
        """The endpoint failed: open where it does so most of the time.

        A ``lasting`` fault (a wrong key) is not one that waiting helps against.
        """
        self._latest.append(False)
        self.last_fault = fault
        full = len(self._latest) == WINDOW
        if full and self._latest.count(False) >= WORST * WINDOW and self.open_since is None:
            self.open_since = -math.inf if lasting else self._clock()
            self._trial_at = self._clock() + self._cooldown_s
