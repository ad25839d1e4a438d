"""Batches on a Ray cluster: joining it, and what its workers share.

The nodes need this project and its extras in one version. With an empty address Ray connects to
the cluster of ``RAY_ADDRESS`` or of this machine, else it starts one here that ends with this
process. If this process dies, Ray ends its workers.
"""

import pickle
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import EngineError
from decomposerl.extras import require
from decomposerl.ports import Mapper
from resources.mapper.pools import PoolMapper, picklable
from resources.mapper.ray_actors import Actors, Share, end_actor

_CALLS_AT_ONCE = 32  # of workers, to an object beside them
_REACHED_WITHIN_S = 10.0


class RayMapper(PoolMapper):
    """A ``Mapper`` over actors on a Ray cluster."""

    def __init__(self, address: str = "", workers: int = 0, share: Share | None = None) -> None:
        """``address`` is ``host:port`` of the head; ``workers`` 0: as many as fit now."""
        self._address, self._workers, self._share = address, workers, share or Share()
        self._held: list[Any] = []

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

    def beside(self, thing: Any) -> "Beside":  # noqa: ANN401 - of any type
        """An object in an actor on this node, for the workers of a map; pickled once."""
        ray, name = self._ray(), f"beside-{uuid.uuid4().hex}"
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        kind = ray.remote(_Holder).options(
            name=name, num_cpus=0, max_concurrency=_CALLS_AT_ONCE, scheduling_strategy=here
        )
        self._held.append(kind.remote(picklable(thing)))
        return Beside(name, ray.get_runtime_context().namespace)

    def close(self) -> None:
        """End the idle workers and what stood beside them; the mapper may be used again."""
        super().close()
        held, self._held = self._held, []
        if held:
            import ray

            for actor in held:
                end_actor(ray, actor)

    def _start(self, pickled: bytes) -> Actors:
        return Actors(self._ray(), pickled, self.workers, self._share)

    def _ray(self) -> Any:  # noqa: ANN401 - the library, connected
        require("ray")
        import ray

        with _CONNECTING:
            if not ray.is_initialized():
                _connect(ray, self._address)
        return ray


class _Holder:
    """The actor behind ``Beside``."""

    def __init__(self, pickled: bytes) -> None:
        self._thing = pickle.loads(pickled)  # noqa: S301 - from our own starter

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the method's
        """What a method returns; a generator as a list."""
        result = getattr(self._thing, method)(*arguments)
        return [*result] if isinstance(result, Iterator) else result


@dataclass(frozen=True, slots=True)
class Beside:
    """An object on the node of the process that maps; its methods can be called from any node."""

    name: str
    namespace: str

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """A method of the object; private and special ones are not passed on."""
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any) -> Any:  # noqa: ANN401 - the method's
            import ray

            actor = ray.get_actor(self.name, self.namespace)
            try:
                return ray.get(actor.call.remote(method, arguments))
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None

        return call


_CONNECTING = threading.Lock()


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


def for_workers(mapper: Mapper, thing: Any) -> Any:  # noqa: ANN401 - of any type
    """``thing`` as the workers of a mapper may use it: a store that is shared by all of them.

    On a cluster it stays on this node, and workers call its methods from theirs.
    """
    return mapper.beside(thing) if isinstance(mapper, RayMapper) else thing


def close_mapper(mapper: Mapper) -> None:
    """End the workers that a mapper keeps for the next map."""
    if isinstance(mapper, PoolMapper):
        mapper.close()
