"""The progress bar of a batch: calls a second, share of hits, cost.

Takes the client's counters, draws on a terminal and nowhere else.

Left out deliberately: logs. Whoever runs the batch records ``Counts.metadata``.
"""

import time
from typing import Self, TextIO

from resources.chat.counts import Counts


class Progress:
    """A bar over the distinct requests of one batch."""

    def __init__(
        self, total: int, remembered: int, counts: Counts, stream: TextIO | None = None
    ) -> None:
        """``remembered`` of ``total`` requests were answered from the cache.

        ``stream`` is where to draw, standard error if None; nothing unless it is a terminal.
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
        """Leave the last state standing."""
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
