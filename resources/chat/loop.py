"""An event loop in its own thread, for synchronous callers.

Connections belong to a loop, so one loop that lives as long as its owner keeps them open
between batches and threads.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

Result = TypeVar("Result")
_LAST_S = 1.0  # an interrupted caller waits this long: replies in flight are paid for


class LoopThread:
    """An event loop that runs until closed."""

    def __init__(self, name: str) -> None:
        """Start the thread; it does not keep the process alive."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def run(
        self, work: Coroutine[Any, Any, Result], wind_up: Callable[[], object] | None = None
    ) -> Result:
        """Run to the end; an interrupt of the caller (Ctrl-C) cancels the work.

        ``wind_up`` stops it from starting anything new; what it has started gets a second to end.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException as error:
            if wind_up is not None and not isinstance(error, Exception):
                self._loop.call_soon_threadsafe(wind_up)
                wait([running], _LAST_S)
            raise
        finally:
            running.cancel()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Cancel what still runs and end the thread; idempotent."""
        if self.closed:
            return
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def end_after(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run this and then close, without waiting: for finalizers, on any thread."""

        async def ending() -> None:
            try:
                await last()
            finally:
                self._loop.stop()

        if not self.closed:
            asyncio.run_coroutine_threadsafe(ending(), self._loop)


async def _cancel_all() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
