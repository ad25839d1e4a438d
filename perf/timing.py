"""Timing of two functions in alternation, and ``Row``, one line of the benchmark table.

A slow minute of the machine slows both sides of a pair, so the ratio is stable where the
seconds are not. The caller warms up; quoted figures are medians over the pairs.
"""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from perf.busy import busy_core

Ours = TypeVar("Ours")
Peer = TypeVar("Peer")
Answer = TypeVar("Answer")

SHORT_PAIR_S, LONG_PAIR_S = 2.0, 8.0
SHORT_PAIRS, MIDDLE_PAIRS, LONG_PAIRS = 5, 3, 1


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ``ratio`` = ``peer_s`` / ``ours_s``, higher is better.

    ``bar`` is the required ratio, None for an informative row; ``limit_s`` is the best time
    that the hardware allows. ``busy_*`` are the same with one other core busy.
    """

    name: str
    ours_s: float | None
    peer: str
    peer_s: float | None
    ratio: float | None
    bar: float | None = None
    limit_s: float | None = None
    note: str = ""
    busy_ours_s: float | None = None
    busy_ratio: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the row has a bar and its ratio is absent or below it."""
        if self.bar is None:
            return False
        return self.ratio is None or math.isnan(self.ratio) or self.ratio < self.bar


@dataclass(frozen=True, slots=True)
class Paired(Generic[Ours, Peer]):
    """Medians over all pairs, and the results of the last pair."""

    ours_s: float
    peer_s: float
    ratio: float
    pairs: int
    ours: Ours
    peer: Peer

    def row(
        self,
        name: str,
        peer: str,
        bar: float | None = None,
        *,
        limit_s: float | None = None,
        note: str = "",
        busy: "Paired[Ours, Peer] | None" = None,
    ) -> Row:
        """These times as a line of the table; ``busy`` are those with one other core busy."""
        beside = (None, None) if busy is None else (busy.ours_s, busy.ratio)
        times = (self.ours_s, peer, self.peer_s, self.ratio)
        return Row(name, *times, bar, limit_s, note, *beside)


def timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds and result of one call."""
    gc.collect()
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer


def pairs_for(pair_s: float) -> int:
    """Number of pairs to measure, given the seconds of one pair."""
    if pair_s < SHORT_PAIR_S:
        return SHORT_PAIRS
    return MIDDLE_PAIRS if pair_s < LONG_PAIR_S else LONG_PAIRS


def paired(
    ours: Callable[[], Ours],
    peer: Callable[[], Peer],
    *,
    scale: float = 1.0,
    pairs: int | None = None,
) -> Paired[Ours, Peer]:
    """Time both in alternation; the peer's seconds are multiplied by ``scale``.

    ``scale`` is for a peer that does a known fraction of the work. Without ``pairs``, the
    first pair decides how many follow. In a single pair, short work of ours is timed before
    and after the peer and averaged.
    """
    ours_s: list[float] = []
    peer_s: list[float] = []
    while not ours_s or len(ours_s) < (pairs or pairs_for(ours_s[0] + peer_s[0] / scale)):
        seconds, our_answer = timed(ours)
        ours_s.append(seconds)
        seconds, peer_answer = timed(peer)
        peer_s.append(seconds * scale)
    if len(ours_s) == 1 and ours_s[0] < SHORT_PAIR_S:
        ours_s = [(ours_s[0] + timed(ours)[0]) / 2]
    ratio = median(b / a for a, b in zip(ours_s, peer_s, strict=True))
    return Paired(median(ours_s), median(peer_s), ratio, len(ours_s), our_answer, peer_answer)


def quiet_and_busy(
    ours: Callable[[], Ours], peer: Callable[[], Peer], *, scale: float = 1.0
) -> tuple[Paired[Ours, Peer], Paired[Ours, Peer]]:
    """``paired`` on the quiet machine, then one pair with one other core busy."""
    quiet = paired(ours, peer, scale=scale)
    with busy_core():
        return quiet, paired(ours, peer, scale=scale, pairs=1)


def allowed_row(name: str, seconds: float, allowed_s: float, note: str) -> Row:
    """A row whose peer is the time that the work may take; the bar is 1."""
    return Row(name, seconds, "time allowed", allowed_s, allowed_s / seconds, 1.0, note=note)
