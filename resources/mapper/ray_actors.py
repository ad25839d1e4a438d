"""Ray actors that work on the batches of one function.

Not Ray Data's ``map_batches``: one of its executions needs its input before it starts and ends with
its actors, so a stage that streams its rows would load its model with every part of them (measured
on two idle local nodes: 6 s for each map, against 1.3 s for the first and nothing for the others).
Actors stay for the next map (``pools``).

A batch whose worker or node is lost is run again elsewhere, and a lost worker is replaced as soon
as the cluster has room. A batch that loses ``MOST_LOSSES`` workers ends the map: it is what kills
them.
"""

import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import EngineError
from resources.mapper.pools import AHEAD
from resources.mapper.worker import Outcome, Worker, name_batch

MOST_LOSSES = 3
_LOG = logging.getLogger(__name__)
_PATIENCE_S = 60.0  # before a warning that no worker could start
_IN_A_WORKER = 2  # batches: the next one is there when one ends


@dataclass(frozen=True, slots=True)
class Share:
    """What one actor reserves; ``gpus`` may be a fraction, for several workers on a card."""

    cpus: float = 1.0
    gpus: float = 0.0


class Actors:
    """The actors of one function."""

    usable = True  # lost ones are replaced

    def __init__(self, ray: Any, pickled: bytes, workers: int, share: Share) -> None:  # noqa: ANN401
        self.ray, self.workers = ray, workers
        self._kind = ray.remote(Worker).options(
            num_cpus=share.cpus, num_gpus=share.gpus, scheduling_strategy="SPREAD"
        )
        self._pickled, self._share = pickled, share
        self.load: dict[Any, list[int]] = {}
        """The batches of each actor that runs; it works on the first."""
        self.starting: dict[Any, Any] = {}
        """The others, by the reference that is there when they run."""
        self._failed_starts, self._since = 0, time.monotonic()

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order."""
        return _Run(self, batches).results()

    def fill(self) -> None:
        """Ask for as many actors as are missing."""
        for _ in range(self.workers - len(self.load) - len(self.starting)):
            actor = self._kind.remote(self._pickled)
            self.starting[actor.ready.remote()] = actor

    def started(self, reference: Any) -> None:  # noqa: ANN401 - a Ray object
        """An actor runs, or failed to.

        Raises:
            EngineError: not one of many could be started.
        """
        actor = self.starting.pop(reference)
        try:
            self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._failed_starts += 1
            if not self.load and self._failed_starts >= MOST_LOSSES * self.workers:
                raise EngineError(f"no worker starts on the Ray cluster: {error}") from error
        else:
            self.load[actor], self._failed_starts = [], 0

    def lose(self, actor: Any) -> list[int]:  # noqa: ANN401 - a Ray object
        """An actor is gone, or cannot be reached: the batch that it worked on, once."""
        had = self.load.pop(actor, None)
        if had is not None:
            end_actor(self.ray, actor)
        return had[:1] if had else []

    def warn(self) -> None:
        """Say so, once in a while, where nothing has started."""
        if self.load:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > _PATIENCE_S:
            self._since = time.monotonic()
            _LOG.warning(
                "no worker has started for %d s: each needs %g CPUs and %g GPUs of one node, and "
                "the cluster has %s left",
                *(_PATIENCE_S, self._share.cpus, self._share.gpus, self.ray.available_resources()),
            )

    def close(self) -> None:
        """End the actors, whatever they are doing."""
        for actor in (*self.load, *self.starting.values()):
            end_actor(self.ray, actor)
        self.load.clear()
        self.starting.clear()


def end_actor(ray: Any, actor: Any) -> None:  # noqa: ANN401 - Ray's
    """End an actor, if this process is still connected: Ray would start a cluster to do so."""
    with contextlib.suppress(Exception):  # it, or the whole cluster, may be gone
        if ray.is_initialized():
            ray.kill(actor)


class _Run:
    """One map: which batches are sent, lost and done."""

    def __init__(self, actors: Actors, batches: Iterable[Any]) -> None:
        self._actors, self._ray = actors, actors.ray
        self._source = enumerate(batches)
        self._lost: deque[tuple[int, Any]] = deque()
        self._losses: Counter[int] = Counter()
        self._sent: dict[Any, tuple[Any, int, Any]] = {}  # actor, number, batch by reference
        self._done: dict[int, Outcome] = {}
        self._due, self._taken, self._ended = 0, 0, False

    def results(self) -> Iterator[Any]:
        """The results, in order.

        Raises:
            EngineError: a batch lost too many workers, or none can be started.
        """
        while True:
            self._actors.fill()
            self._send()
            while self._due in self._done:
                yield self._done.pop(self._due).result(self._due)
                self._due += 1
                self._send()
            if self._ended and self._due == self._taken:
                return
            self._wait()

    def _send(self) -> None:
        """Give batches to the actors that have room."""
        load = self._actors.load
        while load and len(load[free := min(load, key=lambda one: len(load[one]))]) < _IN_A_WORKER:
            following = self._next()
            if following is None:
                return
            number, batch = following
            load[free].append(number)
            self._sent[free.run.remote(batch)] = (free, number, batch)

    def _next(self) -> tuple[int, Any] | None:
        """A lost batch, or a new one unless enough are ahead of what was read."""
        if self._lost:
            return self._lost.popleft()
        if self._ended or self._taken - self._due >= AHEAD * self._actors.workers:
            return None
        following = next(self._source, None)
        self._ended = following is None
        self._taken += following is not None
        return following

    def _wait(self) -> None:
        """Wait for an actor to start or a batch to end, and note what happened."""
        waiting = [*self._sent, *self._actors.starting]
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=1.0)
        self._actors.warn()
        for reference in ready:
            if reference in self._sent:
                self._take(reference)
            else:
                self._actors.started(reference)

    def _take(self, reference: Any) -> None:  # noqa: ANN401 - a Ray object
        errors = self._ray.exceptions
        actor, number, batch = self._sent.pop(reference)
        try:
            self._done[number] = self._ray.get(reference)
        except errors.RayTaskError as error:  # the batch or its result could not be pickled
            failed = EngineError(str(error.cause or error))
            name_batch(failed, number)
            raise failed from error
        except errors.RayError as error:  # the worker, its node, or the result on it is gone
            self._lost.append((number, batch))
            self._count_loss(self._actors.lose(actor), error)
        else:
            if actor in self._actors.load:
                self._actors.load[actor].remove(number)

    def _count_loss(self, worked_on: list[int], error: Exception) -> None:
        self._losses.update(worked_on)
        for number in worked_on:
            if self._losses[number] >= MOST_LOSSES:
                raise EngineError(
                    f"batch {number} lost {MOST_LOSSES} workers, the last one so: {error}"
                ) from error
