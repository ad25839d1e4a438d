"""Reads the messages of a training process as they come, and shows its bars in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from decomposerl.progress import Mirror
from resources.training.process import PROGRESS


class TrainingMessages(dg.PipesTempFileMessageReader):
    """Messages of one process; the bars among them are shown here."""

    @contextmanager
    def read_messages(self, handler: Any) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
        """Read while the block runs."""
        with Mirror() as mirror:
            others: Any = _WithoutBars(handler, mirror)
            with super().read_messages(others) as params:
                yield params

    @property
    def expected_writer_count(self) -> int:  # Dagster's own warns that it is a preview
        """The number of processes that write."""
        return 1


class _WithoutBars:
    """Dagster's handler of messages, which gets all messages but those about bars."""

    def __init__(self, handler: Any, mirror: Mirror) -> None:  # noqa: ANN401 - the same
        self._handler, self._mirror = handler, mirror

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - the same
        """Show the bars, or pass it on."""
        payload = (message.get("params") or {}).get("payload")
        if isinstance(payload, dict) and payload.get("kind") == PROGRESS:
            self._mirror.show(payload["bars"])
        else:
            self._handler.handle_message(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the same
        """All else is the handler's."""
        return getattr(self._handler, name)
