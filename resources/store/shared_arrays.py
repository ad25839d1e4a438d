"""Arrays that the tasks of one step share: ``.npy`` files in a folder of the machine it runs on.

The folder is removed when the step ends; what a killed step left is removed by the next one.
"""

import shutil
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


@dataclass(frozen=True, slots=True)
class FolderArrays:
    """An ``ArrayStore`` with a folder per group; arrays are mapped into memory, not read."""

    folder: Path

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """As the port's; only the process that started the step writes.

        Raises:
            OSError: it cannot be written.
        """
        group = self.folder / name
        group.mkdir(parents=True, exist_ok=True)
        for key, array in arrays.items():
            file = group / f"{key}.npy"
            file.unlink(missing_ok=True)  # a reader that has it mapped keeps it
            np.save(file, array, allow_pickle=False)

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a group, read-only.

        Raises:
            FileNotFoundError: there is no such group.
        """
        return {
            path.stem: np.load(path, mmap_mode="r", allow_pickle=False)
            for path in (self.folder / name).iterdir()
        }

    def remove(self, name: str) -> None:
        """Delete a group's files; a reader that has them mapped keeps them."""
        shutil.rmtree(self.folder / name)


@contextmanager
def shared_tasks(mapper: OpenMapper, folder: Path) -> Iterator[Tasks]:
    """Tasks by ``mapper``, with arrays in a new folder inside ``folder``, which only they use.

    The mapper is closed at the end. Nothing is created before the first array is written.
    """
    with aside(folder / "arrays", "writing") as arrays:
        try:
            yield Tasks(mapper, FolderArrays(arrays))
        finally:
            mapper.close()
