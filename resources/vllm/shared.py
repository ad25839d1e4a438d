"""One server for all assets of a run that use the same model.

An engine is opened once per asset, and each would start a server of its own while the first still
holds the memory of its card.
"""

import threading

from decomposerl.errors import EngineError
from resources.vllm.server import VllmServer


class SharedServer:
    """The one server that a resource runs, kept from asset to asset until ``stop``."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._server: VllmServer | None = None
        self._failed: tuple[VllmServer, EngineError] | None = None
        self._choosing = threading.Lock()

    def url(self, wanted: VllmServer) -> str:
        """The URL of a server like ``wanted``: the one that runs, else ``wanted`` is started.

        A server of another model or with other settings is stopped first. One that died is
        replaced. A ``wanted`` that could not be started is not tried again: the threads that
        waited for it get its error, and the next asset tries with a ``wanted`` of its own.

        Raises:
            EngineError: as ``VllmServer.base_url``.
        """
        with self._choosing:
            if self._failed is not None and self._failed[0] is wanted:
                raise self._failed[1]
            held = self._server
            if held is None or held.command() != wanted.command() or not held.running:
                self.stop()
                held = self._server = wanted
        try:
            return held.base_url()
        except EngineError as error:
            self._failed = wanted, error
            raise

    def death(self) -> str:
        """The message if the server ended by itself, with its log; else empty."""
        return "" if self._server is None else self._server.death()

    def stop(self) -> None:
        """End the server if one was started; does not wait for one that is starting."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
