"""Batches on a Ray cluster: actors that keep what they have loaded for the next map.

The nodes need this project and its extras in one version. With an empty address Ray connects to
the cluster of ``RAY_ADDRESS`` or of this machine, else it starts one here that ends with this
process. If this process dies, Ray ends its actors.

Not Ray Data's ``map_batches``: one of its executions needs its input before it starts and ends with
its actors, so a stage that streams its rows would load its model with every part of them (measured
on two idle local nodes: 6 s for each map, against 1.3 s for the first and nothing for the others).
"""

import contextlib
import logging
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import EngineError
from decomposerl.extras import require
from resources.mapper.pools import AHEAD, Outcome, PoolMapper, Worker, name_batch

MOST_LOSSES = 3
"""A batch that loses so many actors ends the map: it is what kills them."""
_LOG = logging.getLogger(__name__)
_PATIENCE_S = 60.0  # before a warning that no actor could start
_REACHED_WITHIN_S = 10.0
_CONNECTING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Share:
    """What one actor reserves; ``gpus`` may be a fraction, for several on a card."""

    cpus: float = 1.0
    gpus: float = 0.0


class RayMapper(PoolMapper):
    """A ``Mapper`` over actors on a Ray cluster."""

    def __init__(self, address: str = "", workers: int = 0, share: Share | None = None) -> None:
        """``address`` is ``host:port`` of the head; ``workers`` 0: as many as fit now."""
        self._address, self._workers, self._share = address, workers, share or Share()

    @property
    def engine(self) -> str:
        """``ray (<n> nodes)``, of the cluster as it is now."""
        nodes = sum(1 for node in self._ray().nodes() if node["Alive"])
        return f"ray ({nodes} nodes)" if nodes != 1 else "ray (1 node)"

    @property
    def workers(self) -> int:
        """How many actors a map asks the cluster for."""
        if self._workers:
            return self._workers
        has, share = self._ray().cluster_resources(), self._share
        wanted = {"CPU": share.cpus, "GPU": share.gpus}
        fitting = [int(has.get(name, 0) / each) for name, each in wanted.items() if each]
        return max(1, min(fitting, default=1))

    def _start(self, pickled: bytes) -> "_Actors":
        return _Actors(self._ray(), pickled, self.workers, self._share)

    def _ray(self) -> Any:  # noqa: ANN401 - the library, connected
        require("ray")
        import ray

        with _CONNECTING:
            if not ray.is_initialized():
                _connect(ray, self._address)
        return ray


class _Actors:
    """The actors of one function; each works on one batch at a time.

    A batch whose actor or node is lost is run again by another, and a lost actor is replaced as
    soon as the cluster has room.
    """

    def __init__(self, ray: Any, pickled: bytes, workers: int, share: Share) -> None:  # noqa: ANN401
        self._ray, self._pickled, self._workers, self._share = ray, pickled, workers, share
        self._kind = ray.remote(Worker).options(
            num_cpus=share.cpus, num_gpus=share.gpus, scheduling_strategy="SPREAD"
        )
        self._free: list[Any] = []
        self._busy: dict[Any, tuple[Any, int, Any]] = {}
        """Actor, number and batch by Ray's reference to the result; -1: the actor starts."""

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results, in order.

        Raises:
            EngineError: a batch lost too many actors, or none can be started.
        """
        source, ended = enumerate(batches), False
        again, losses = deque[tuple[int, Any]](), Counter[int]()
        done: dict[int, Outcome] = {}
        due = taken = 0
        while True:
            self._fill()
            while self._free and (again or (not ended and taken - due < AHEAD * self._workers)):
                following = again.popleft() if again else next(source, None)
                if following is None:
                    ended = True
                    continue
                taken = max(taken, following[0] + 1)
                actor = self._free.pop()
                self._busy[actor.run.remote(following[1])] = (actor, *following)
            if due in done:
                yield done.pop(due).result(due)
                due += 1
            elif ended and due == taken:
                return
            else:
                self._wait(done, again, losses)

    def _fill(self) -> None:
        """Ask for as many actors as are missing."""
        for _ in range(self._workers - len(self._free) - len(self._busy)):
            actor = self._kind.remote(self._pickled)
            self._busy[actor.ready.remote()] = (actor, -1, None)

    def _wait(
        self, done: dict[int, Outcome], again: deque[tuple[int, Any]], losses: Counter[int]
    ) -> None:
        """Wait until an actor has started, or ended a batch or itself; ``losses`` by batch."""
        ray = self._ray
        ready, _ = ray.wait([*self._busy], num_returns=1, timeout=_PATIENCE_S)
        if not ready and all(number < 0 for _, number, _ in self._busy.values()):
            _LOG.warning(
                "no worker has started for %d s: each needs %g CPUs and %g GPUs of one node, and "
                "the cluster has %s left",
                *(_PATIENCE_S, self._share.cpus, self._share.gpus, ray.available_resources()),
            )
        for reference in ready:
            actor, number, batch = self._busy.pop(reference)
            try:
                outcome = ray.get(reference)
            except ray.exceptions.RayTaskError as error:  # batch or result cannot be pickled
                _end(ray, actor)
                failed = EngineError(str(error.cause or error))
                name_batch(failed, number)
                raise failed from error
            except ray.exceptions.RayError as error:  # the actor, its node, or its result is gone
                _end(ray, actor)
                losses[number] += 1
                self._give_up(number, losses[number], error)
                again.extend([(number, batch)] * (number >= 0))
            else:
                self._free.append(actor)
                losses[-1] = 0
                done |= {number: outcome} if number >= 0 else {}

    def _give_up(self, number: int, losses: int, error: Exception) -> None:
        if number < 0 and losses >= MOST_LOSSES * self._workers:
            raise EngineError(f"no worker starts on the Ray cluster: {error}") from error
        if number >= 0 and losses >= MOST_LOSSES:
            raise EngineError(
                f"batch {number} lost {MOST_LOSSES} workers, the last one so: {error}"
            ) from error

    def close(self) -> None:
        """End the actors, whatever they are doing."""
        for actor in (*self._free, *(actor for actor, _, _ in self._busy.values())):
            _end(self._ray, actor)
        self._free.clear()
        self._busy.clear()


def _end(ray: Any, actor: Any) -> None:  # noqa: ANN401 - Ray's
    """End an actor, if this process is still connected: Ray would start a cluster to do so."""
    with contextlib.suppress(Exception):  # it, or the whole cluster, may be gone
        if ray.is_initialized():
            ray.kill(actor)


def _connect(ray: Any, address: str) -> None:  # noqa: ANN401 - the library
    """Join the cluster, or start one of this machine.

    Raises:
        EngineError: there is no cluster at the address.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address:  # Ray would wait for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _REACHED_WITHIN_S).close()
        ray.init(
            address or None,
            include_dashboard=None if address else False,
            log_to_driver=False,
            configure_logging=False,
        )
    except (OSError, ValueError, RuntimeError) as error:
        where = f"at '{address}'" if address else "on this machine"
        raise EngineError(f"no Ray cluster can be used {where}: {error}") from error
    finally:  # Ray replaces the handler that ends a run cleanly
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
