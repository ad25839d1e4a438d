"""What a worker does: unpickle the function once, run it on batches, send back what it gave.

An exception travels as bytes, so that it arrives as what it was, whatever carries it. One that
cannot be pickled arrives as an ``EngineError`` with its type and message.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import EngineError


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a batch, or the pickled exception that it ended with."""

    value: Any = None
    failure: bytes = b""

    def result(self, number: int) -> Any:  # noqa: ANN401 - the function's
        """The value of batch ``number``; raises its exception, with a note that names it."""
        if self.failure:
            error: Exception = pickle.loads(self.failure)  # noqa: S301 - from our own worker
            name_batch(error, number)
            raise error
        return self.value


class Worker:
    """One worker: a function that is unpickled with the first batch, and stays."""

    def __init__(self, pickled: bytes) -> None:
        """``pickled`` is the function, as ``pickle.dumps`` writes it."""
        self._pickled = pickled
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> None:
        """Return: the worker runs."""

    def run(self, batch: Any) -> Outcome:  # noqa: ANN401 - the function's
        """What the function gives for a batch, or raises."""
        try:
            return Outcome(self._loaded()(batch))
        except Exception as error:  # noqa: BLE001 - raised where the map is read
            return Outcome(failure=_portable(error))

    def _loaded(self) -> Callable[[Any], Any]:
        if self._function is None:
            try:
                self._function = pickle.loads(self._pickled)  # noqa: S301 - from our own starter
            except (ImportError, AttributeError) as error:
                error.add_note("every node needs this project and its extras, in one version")
                raise
        return self._function


def name_batch(error: BaseException, number: int) -> None:
    """Add the note that names the batch an error comes from."""
    error.add_note(f"in batch {number}")


def _portable(error: Exception) -> bytes:
    """The exception pickled, if it can be read again, else one of ours with its words."""
    notes = getattr(error, "__notes__", [])
    try:
        whole = pickle.dumps(error)
        pickle.loads(whole)  # noqa: S301 - written above
    except Exception:  # noqa: BLE001 - pickling may raise anything
        plain = EngineError(f"{type(error).__name__}: {error}")
        for note in notes:
            plain.add_note(note)
        return pickle.dumps(plain)
    return whole
