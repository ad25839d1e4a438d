"""The peak memory of this machine's GPUs over a stretch of time, from ``nvidia-smi``."""

import subprocess
import threading
from types import TracebackType
from typing import Self

_EVERY_S, _PATIENCE_S = 1.0, 10.0
_QUERY = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")


class PeakMemory:
    """Samples once a second inside a ``with`` block; ``mib`` is None where there is no GPU.

    It is the memory in use by every process, of the fullest GPU.
    """

    def __init__(self, command: str = "nvidia-smi") -> None:
        """``command`` prints one number a GPU, in MiB."""
        self._command = command
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.mib: int | None = None

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._done.set()
        self._thread.join(_PATIENCE_S)

    def _sample(self) -> None:
        while (used := self._used()) is not None or self.mib is not None:
            self.mib = max(used or 0, self.mib or 0)
            if self._done.wait(_EVERY_S):
                return

    def _used(self) -> int | None:
        try:
            output = subprocess.run(  # noqa: S603 - our own words
                [self._command, *_QUERY],
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=True,
            ).stdout
            return max(int(line) for line in output.split())
        except (OSError, subprocess.SubprocessError, ValueError):
            return None
