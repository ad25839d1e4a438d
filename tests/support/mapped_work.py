"""What tests map over batches, at module level, so that other processes can unpickle it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SENTENCES = [
    f"{who} {what} {where} in {year}."
    for who, what, where in (
        ("Marie Curie", "studied", "Paris"),
        ("The Danube", "flooded", "Vienna"),
        ("Acme Corp", "opened a plant near", "Lisbon"),
        ("The council", "closed the bridge of", "Ghent"),
    )
    for year in range(1990, 2000)
]


class UnpicklableError(Exception):
    """An exception that cannot be read again: its argument is not that of its constructor."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"no {first} and no {second}")


def squares(batch: list[int]) -> list[int]:
    """Of each number; refuses an empty batch."""
    if not batch:
        raise ValueError("an empty batch")
    return [number**2 for number in batch]


def process_of(_: int) -> int:
    """The worker's number."""
    return os.getpid()


def unpicklable(batch: list[int]) -> list[int]:
    """Never returns."""
    raise UnpicklableError(*batch)


@dataclass
class Noting:
    """Squares, slowly; leaves a file with its process for each time it is unpickled.

    Only batches with ``slow`` take ``pause_s`` where it is set. ``deadly`` is a number whose batch
    kills its worker, ``deaths`` times in all.
    """

    folder: Path
    pause_s: float = 0.0
    slow: int | None = None
    deadly: int = -1
    deaths: int = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Note that it was loaded."""
        self.__dict__.update(state)
        note(self.folder, "load")

    def __call__(self, batch: list[int]) -> list[int]:
        """The squares."""
        note(self.folder, "batch")
        time.sleep(self.pause_s if self.slow is None or self.slow in batch else 0)
        if self.deadly in batch and len(noted(self.folder, "death")) < self.deaths:
            note(self.folder, "death")
            os.kill(os.getpid(), signal.SIGKILL)
        return squares(batch)


class WhereItRan(Noting):
    """The Ray node that a batch ran on, beside its squares."""

    def __call__(self, batch: list[int]) -> tuple[str, list[int]]:  # type: ignore[override]
        """Node and squares."""
        import ray

        return ray.get_runtime_context().get_node_id(), super().__call__(batch)


def note(folder: Path, what: str) -> None:
    """Leave a file with the number of this process."""
    (folder / f"{what}-{time.time_ns()}-{os.getpid()}").touch()


def noted(folder: Path, what: str) -> list[int]:
    """The processes that left such a file, in order."""
    return [int(path.name.rpartition("-")[2]) for path in sorted(folder.glob(f"{what}-*"))]


def gone(process: int, within_s: float = 10.0) -> bool:
    """Whether a process ends in time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False
