"""What a funnel stage keeps and drops, written as it comes and counted for the stage's page."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.funnel.step import StageResult, with_decided
from decomposerl.ports import Tasks
from decomposerl.reports.stage_tally import StageTally
from decomposerl.schemas import DROPS
from decomposerl.table import Table
from resources.mapper.pools import OpenMapper
from resources.store.rows import BATCH_BYTES, RowsWriter, StoredRows, batches_of
from resources.store.temporary import aside, temporary_of


class StageWriter:
    """The output of a stage, in temporary files beside those that the IO manager will replace.

    Kept rows stay in the order they came in. Drops are in the order of the stage's steps, and
    within a step in the order of the rows, wherever batches were cut. Use it in a ``with`` block,
    which removes the files if it fails.
    """

    def __init__(
        self,
        data: Path,
        key: str,
        table: Table,
        inputs: Sequence[StoredRows],
        *,
        drops: bool,
        most_bytes: int = BATCH_BYTES,
    ) -> None:
        """``inputs`` have the rows that enter; ``drops`` says whether the stage drops any.

        A batch has about ``most_bytes``.
        """
        self.inputs, self._key, self._drops = inputs, key, drops
        self._most_bytes = most_bytes
        folder, self._folder = data / "drops", data / ".tasks" / key
        self._kept = RowsWriter(temporary_of(data / f"{key}.parquet"), table)
        self._arrived = RowsWriter(temporary_of(folder / f"{key}.arrived.parquet"), DROPS)
        self._ordered = RowsWriter(temporary_of(folder / f"{key}.parquet"), DROPS)
        self.tally = StageTally.of()
        """Counts and examples of the rows so far."""
        self._steps: dict[str, None] = {}
        self.engines: dict[str, str] = {}
        """The program behind each step that has one."""
        self.close_calls: dict[str, int] = {}
        """Per step that compares rounded numbers, the rows decided by less than rounding."""
        self._open = ExitStack()

    def tasks(self, mapper: OpenMapper) -> AbstractContextManager[Tasks]:
        """What a stage that compares all claims needs to split its work, for a ``with`` block."""
        return shared_tasks(mapper, self._folder)

    def __enter__(self) -> Self:
        """The writer."""
        for writer in (self._kept, self._arrived, self._ordered):
            self._open.enter_context(writer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the files if the block failed; those in use are renamed by the IO manager."""
        self._open.__exit__(kind, error, trace)
        self._arrived.path.unlink(missing_ok=True)

    def close_texts(self) -> pl.DataFrame:
        """``claim_id`` and ``claim`` of the claims that enter and that close calls name."""
        closest = self.tally.closest
        named = pl.concat([closest["claim_id"], closest["matched_claim_id"].drop_nulls()]).to_list()
        empty = closest.select("claim_id", claim="claim_id").clear()
        return pl.concat([empty, *(one.texts_of(named) for one in self.inputs)]) if named else empty

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows that enter, in batches; at least one, which may be empty."""
        return batches_of(self.inputs, self._key, self._most_bytes)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of all rows that enter."""
        return pl.concat([part.read(columns) for part in self.inputs])

    def add(self, rows_in: pl.DataFrame, done: StageResult) -> None:
        """Write what the stage made of a batch."""
        self._kept.add(done.kept)
        self._note(rows_in, done, done.kept)

    def add_decided(self, rows_in: pl.DataFrame, done: StageResult) -> None:
        """Write what the stage decided from some columns of all rows (``read``)."""
        self._note(rows_in, done, None)
        for part in with_decided(self.batches(), done.kept):
            self._kept.add(part)
            self.tally += StageTally.of(kept=part)

    def add_claims(self, claims: pl.DataFrame) -> None:
        """Write claims that were read from native files."""
        self._kept.add(claims)
        self.tally += StageTally.of(claims, claims)

    def finish(self) -> tuple[StoredRows, StoredRows | None]:
        """Complete the files of kept rows and of drops.

        Raises:
            SchemaError: a claim is kept or dropped twice.
        """
        kept = self._kept.finish()
        if not self._drops:
            return kept, None
        arrived = self._arrived.finish()
        for step in self._steps:
            for part in arrived.batches():
                self._ordered.add(part.filter(pl.col("step") == step))
        return kept, self._ordered.finish()

    def _note(self, rows_in: pl.DataFrame, done: StageResult, kept: pl.DataFrame | None) -> None:
        self.tally += StageTally.of(rows_in, kept, done.drops)
        self._arrived.add(done.drops)
        self._steps |= dict.fromkeys(done.steps)
        self.engines |= done.engines
        for step, rows in done.close.items():
            self.close_calls[step] = self.close_calls.get(step, 0) + rows


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
