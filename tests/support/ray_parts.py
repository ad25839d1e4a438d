"""A real Ray cluster on this machine, of nodes with one processor each."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STORE_BYTES = 80_000_000  # the least that Ray takes


class RayNodes:
    """The cluster of one or two nodes; the second can be removed and put back."""

    def __init__(self, count: int) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # What else runs here may fill the memory.
        os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112 - Ray's own spelling
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # of its workers
        from ray.cluster_utils import Cluster

        self._node = {"num_cpus": 1, "object_store_memory": _STORE_BYTES}
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args=self._node | {"include_dashboard": True, "dashboard_port": free_port()},
        )
        self.address: str = self._cluster.address
        """Of the head, for ``RayMapper``."""
        self.dashboard = f"http://{self._cluster.head_node.webui_url}"
        """Where jobs are submitted."""
        self._second: Any = self._cluster.add_node(**self._node) if count > 1 else None

    def remove_second(self) -> None:
        """Kill the second node and all that runs on it."""
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = None

    def restore(self) -> None:
        """Two nodes again."""
        if self._second is None:
            self._second = self._cluster.add_node(**self._node)
        self._cluster.wait_for_nodes()

    def close(self) -> None:
        """Disconnect this process and end every process of the cluster."""
        import ray

        ray.shutdown()
        self._cluster.shutdown()


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def ray_nodes(count: int) -> Iterator[RayNodes]:
    """The cluster during the block."""
    nodes = RayNodes(count)
    try:
        yield nodes
    finally:
        nodes.close()
