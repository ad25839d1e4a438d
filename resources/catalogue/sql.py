"""SQL of the catalogue's views: columns with their types, and all rows of some Parquet files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import polars as pl

from decomposerl.table import Column
from resources.store.mirror import pull

_SQL_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
}


def rows_of(
    patterns: Sequence[str], columns: Sequence[Column], computed: str = "", read: str = "*"
) -> str:
    """The query for all rows of the files; without a pattern one of the same types and no row.

    A column that some file lacks is null there. ``computed`` are further expressions, each ended
    by a comma, that may use the column ``filename``; ``read`` are the columns taken from the files.
    """
    typed = ", ".join(f'NULL::{_sql_type(one.dtype)} AS "{one.name}"' for one in columns)
    if not patterns:
        return f"SELECT {typed} WHERE false"
    listed = ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in patterns)
    files = f"read_parquet([{listed}], union_by_name = true, filename = true)"
    return (
        f"SELECT {quoted_names(columns)} FROM (SELECT {computed}{read} FROM {files} "  # noqa: S608 - constants of this package
        f"UNION ALL BY NAME SELECT {typed} WHERE false)"
    )


def quoted_names(columns: Iterable[Column]) -> str:
    """The columns' names, quoted and comma-separated."""
    return ", ".join(f'"{one.name}"' for one in columns)


def matching(data: Path, patterns: Iterable[str]) -> list[str]:
    """The patterns that match a file: DuckDB refuses one that matches none."""
    listed = list(patterns)
    pull(data, *listed)
    return [pattern for pattern in listed if any(data.glob(pattern))]


def _sql_type(dtype: object) -> str:
    if isinstance(dtype, pl.Struct):
        fields = dtype.to_schema().items()
        return f"STRUCT({', '.join(f'{name} {_sql_type(kind)}' for name, kind in fields)})"
    if isinstance(dtype, pl.List):
        return f"{_sql_type(dtype.inner)}[]"
    return _SQL_TYPES[cast("pl.DataType", dtype)]
