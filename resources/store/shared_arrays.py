"""Arrays that the tasks of one step share: ``.npy`` files in a folder of the machine it runs on.

The folder is removed when the step ends; what a killed step left is removed by the next one.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Tasks
from resources.mapper.in_process import OpenMapper
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


@contextmanager
def shared_tasks(mapper: OpenMapper, folder: Path) -> Iterator[Tasks]:
    """Tasks by ``mapper``, with arrays in a new folder inside ``folder``, which only they use.

    A task may start a thread per core that its process may use. The mapper is closed at the end.
    Nothing is created before the first array is written.
    """
    with aside(folder / "arrays", "writing") as arrays:
        try:
            yield Tasks(mapper, FolderArrays(arrays))
        finally:
            mapper.close()
