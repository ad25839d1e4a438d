"""Arrays that the tasks of one step share: ``.npy`` files in a folder of the machine it runs on.

Workers on other nodes of a cluster read and write them through this one. The folder is removed
when the step ends; what a killed step left is removed by the next one.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Mapper, Tasks
from resources.mapper.ray_mapper import RayMapper, close_mapper, for_workers
from resources.store.temporary import aside

_WRITING = ".writing"


@dataclass(frozen=True, slots=True)
class FolderArrays:
    """An ``ArrayStore`` with a folder per group; arrays are mapped into memory, not read."""

    folder: Path

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write each array under a temporary name and rename it.

        A task that ran twice writes the same bytes twice, even at once, so readers never meet a
        difference.

        Raises:
            OSError: it cannot be written.
        """
        group = self.folder / name
        group.mkdir(parents=True, exist_ok=True)
        for key, array in arrays.items():
            temporary = group / f"{key}-{uuid.uuid4().hex}{_WRITING}"
            with temporary.open("wb") as file:
                np.save(file, array, allow_pickle=False)
            temporary.replace(group / f"{key}.npy")

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a group, read-only.

        Raises:
            FileNotFoundError: there is no such group.
        """
        found = {path.stem: _mapped(path) for path in (self.folder / name).glob("*.npy")}
        if not found:
            raise FileNotFoundError(None, "no arrays are stored there", str(self.folder / name))
        return found

    def remove(self, name: str) -> None:
        """Delete a group's files; a reader that has them mapped keeps them."""
        group = self.folder / name
        for path in (*group.glob("*.npy"), *group.glob(f"*{_WRITING}")):
            path.unlink()
        group.rmdir()


def _mapped(path: Path) -> NDArray[Any]:
    header: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return header


class _OfMapper:
    """Arrays of this machine's folder, which workers use through their mapper.

    A cluster is joined when they are first sent to a worker.
    """

    def __init__(self, mapper: Mapper, arrays: FolderArrays) -> None:
        self._mapper, self._arrays = mapper, arrays
        self.write, self.read, self.remove = arrays.write, arrays.read, arrays.remove

    def __reduce__(self) -> tuple[Any, ...]:
        return _as_it_is, (self._for_workers,)

    @cached_property
    def _for_workers(self) -> Any:  # noqa: ANN401 - as ``for_workers``
        return for_workers(self._mapper, self._arrays)


def _as_it_is(arrays: Any) -> Any:  # noqa: ANN401 - the same
    return arrays


@contextmanager
def shared_tasks(mapper: Mapper, folder: Path) -> Iterator[Tasks]:
    """Tasks by ``mapper``, with arrays in a new folder inside ``folder``, which only they use.

    A task may start a thread per core that its process may use; on Ray, which does not bind
    workers to cores, one. The mapper is closed at the end.

    Nothing is created before the first array is written, and no cluster joined before the first
    task.
    """
    with aside(folder / "arrays", "writing") as arrays:
        try:
            threads = 1 if isinstance(mapper, RayMapper) else 0
            yield Tasks(mapper, _OfMapper(mapper, FolderArrays(arrays)), threads)
        finally:
            close_mapper(mapper)
