"""Rows of a Parquet file in batches: a handle that reads them and a writer that takes them.

Neither holds more than a batch or a row group, so a table may be larger than memory. Row groups
end where their rows reach ``GROUP_BYTES`` or ``GROUP_ROWS``, wherever batches were cut, and a file
is the same bytes for the same rows.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.progress import bar
from decomposerl.table import Table
from resources.store.integrity import read_parquet, scan_parquet, verified

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_BYTES, GROUP_ROWS = 64_000_000, 262_144
BATCH_BYTES, BATCH_ROWS = 128_000_000, 131_072
_READ_ROWS, _READ_BUFFER, _MANY_ROWS = 512, 1 << 20, 20_000
_TEXT, _TEXTS, _OTHER_BYTES = pl.String(), pl.List(pl.String()), 8


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of one Parquet file, which conform to ``table``; opening it reads none of them."""

    path: Path
    table: Table

    @classmethod
    def checked(cls, path: Path, table: Table) -> Self:
        """The rows of a file whose columns and unique keys were checked.

        Nulls are checked as batches are read.

        Raises:
            SchemaError: the file does not conform to ``table``.
            OSError, polars.exceptions.PolarsError: it is not there, or no Parquet file.
        """
        table.conform(pl.DataFrame(schema=pl.read_parquet_schema(verified(path))))
        others = [column.name for column in table.columns if column.name not in table.unique]
        if table.unique:
            table.without(others).conform(read_parquet(path, table.unique))
        return cls(path, table)

    @property
    def rows(self) -> int:
        """How many there are."""
        with self._open() as file:
            return int(file.metadata.num_rows)

    def read(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """All rows, or some of their columns.

        Raises:
            SchemaError: a row is null where it may not be.
        """
        table = self._table_of(columns)
        return table.conform(read_parquet(self.path, [*table.schema]), unique=False)

    def batches(
        self, columns: Sequence[str] | None = None, most_bytes: int = BATCH_BYTES
    ) -> Iterator[pl.DataFrame]:
        """The rows in order, about ``most_bytes`` at a time; none for an empty file.

        Raises:
            SchemaError: a row is null where it may not be.
        """
        return _joined(self._pieces(columns), most_bytes)

    def texts_of(self, ids: Sequence[str]) -> pl.DataFrame:
        """``claim_id`` and ``claim`` of the claims among ``ids`` that are here."""
        wanted = pl.col("claim_id").is_in(list(ids))
        shown = ["claim_id", "claim"]
        none = self.table.empty().select(shown)
        return pl.concat([none, *(part.filter(wanted) for part in self.batches(shown))])

    def _pieces(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The rows, a fixed number at a time: how large they are is known only once they are read.

        Equal texts lie in a file once, so its own sizes say little.
        """
        table = self._table_of(columns)
        with self._open() as file:
            for batch in file.iter_batches(_READ_ROWS, columns=[*table.schema], use_threads=False):
                yield table.conform(pl.DataFrame(pl.from_arrow(batch)), unique=False)

    def _table_of(self, columns: Sequence[str] | None) -> Table:
        others = set[str]() if columns is None else self.table.schema.keys() - set(columns)
        return self.table.without(others)

    def _open(self) -> "pq.ParquetFile":
        import pyarrow.parquet as pq

        # Without a buffer size, a whole column of a row group would be read at once.
        return pq.ParquetFile(self.path, buffer_size=_READ_BUFFER)


def _joined(pieces: Iterable[pl.DataFrame], most_bytes: int) -> Iterator[pl.DataFrame]:
    """Pieces put together until they have ``most_bytes`` or ``BATCH_ROWS``."""
    ahead: list[pl.DataFrame] = []
    size = rows = 0
    for piece in pieces:
        ahead.append(piece)
        size, rows = size + int(row_sizes(piece).sum()), rows + piece.height
        if size >= most_bytes or rows >= BATCH_ROWS:
            batch = pl.concat(ahead)
            ahead, size, rows = [], 0, 0
            yield batch
            del batch  # the next one is put together while the reader has none
    if ahead:
        yield pl.concat(ahead)


def batches_of(
    parts: Sequence[StoredRows], what: str = "", most_bytes: int = BATCH_BYTES
) -> Iterator[pl.DataFrame]:
    """The rows of several files of one table, one after the other, in at least one batch.

    Small files share a batch. ``what`` names the bar, which is shown for many rows.
    """
    rows = sum(part.rows for part in parts)
    pieces = itertools.chain.from_iterable(part._pieces() for part in parts)  # noqa: SLF001 - of this module
    with bar(what, rows, "claims", known=rows if rows < _MANY_ROWS else 0) as progress:
        for batch in _joined(pieces, most_bytes):
            yield batch
            progress.advance(batch.height)
            del batch
    if not rows:
        yield parts[0].table.empty()


class RowsWriter:
    """Writes the rows of a table to a new file, in row groups; use it in a ``with`` block.

    The file is complete after ``finish``. A block that ends by an exception removes it.
    """

    def __init__(
        self,
        path: Path,
        table: Table,
        most_bytes: int = GROUP_BYTES,
        most_rows: int = GROUP_ROWS,
    ) -> None:
        """``path`` is created with the first row group; a group has at most these rows."""
        self.path, self.table = path, table
        self._most_bytes, self._most_rows = most_bytes, most_rows
        self._ahead: list[pa.Table] = []
        self._bytes = self._rows = 0
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the file if the block failed."""
        if kind is not None:
            with contextlib.suppress(OSError):  # the disk may be full
                self._close()
            self.path.unlink(missing_ok=True)

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows.

        Raises:
            SchemaError: they do not conform to the table.
        """
        rows = self.table.conform(frame, unique=False)
        filled = np.cumsum(row_sizes(rows))
        # Arrow copies the texts of these rows; polars would keep those of the rows beside them.
        table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        start = before = 0
        while start < rows.height:
            end = self._end(filled, start, before)
            if end > rows.height:
                break
            self._ahead.append(table[start:end])
            self._flush()
            start, before = end, int(filled[end - 1])
        if start < rows.height:
            self._ahead.append(table[start:])
            self._rows += rows.height - start
            self._bytes += int(filled[-1]) - before

    def finish(self) -> StoredRows:
        """Write what is left, close the file and check that no row is repeated.

        Raises:
            SchemaError: two rows share the identifying columns.
        """
        if self._ahead or self._writer is None:
            self._flush()
        self._close()
        return StoredRows.checked(self.path, self.table)

    def _end(self, filled: NDArray[np.int64], start: int, before: int) -> int:
        """Where the row group that row ``start`` is in ends; beyond the rows if not among them."""
        full = int(np.searchsorted(filled, before + self._most_bytes - self._bytes)) + 1
        return min(full, start + self._most_rows - self._rows)

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        none = self.table.empty().to_arrow(compat_level=pl.CompatLevel.oldest())
        # One chunk: pages end at the same rows however the rows arrived.
        group = pa.concat_tables([none, *self._ahead]).combine_chunks()
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self.path, group.schema, compression="zstd")
        self._writer.write_table(group, row_group_size=max(len(group), 1))
        self._ahead, self._rows, self._bytes = [], 0, 0

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def row_sizes(frame: pl.DataFrame) -> NDArray[np.int64]:
    """Bytes of each row, shape (n,): its texts in UTF-8, and 8 for any other value."""

    def one(name: str, dtype: pl.DataType) -> pl.Expr:
        if dtype == _TEXT:
            size = pl.col(name).str.len_bytes()
        elif dtype == _TEXTS:
            size = pl.col(name).list.eval(pl.element().str.len_bytes()).list.sum()
        else:
            size = pl.lit(_OTHER_BYTES)
        return size.cast(pl.Int64()).fill_null(0)

    sizes = [one(name, dtype) for name, dtype in frame.schema.items()]
    return frame.select(size=pl.sum_horizontal(sizes))["size"].to_numpy()


def counted_rows(files: Iterable[Path], keys: Sequence[str]) -> pl.DataFrame:
    """Rows of each file by the values of ``keys``, which it needs; ``rows`` counts them."""
    counts = [
        scan_parquet(file).group_by(keys).agg(rows=pl.len().cast(pl.Int64())) for file in files
    ]
    return pl.concat(pl.collect_all(counts, engine="streaming"))
