"""How columns of our tables and file patterns are written in DuckDB's SQL.

Takes columns and patterns, gives pieces of statements.

Left out deliberately: the views (``catalogue_views``, ``catalogue_training``).
"""

from collections.abc import Iterable, Sequence
from typing import cast

import polars as pl

from decomposerl.table import Column

_SQL_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
}


def typed_nulls(columns: Iterable[Column]) -> str:
    """One null a column with its type: the shape of a view without a file."""
    return ", ".join(f'NULL::{_sql_type(one.dtype)} AS "{one.name}"' for one in columns)


def _sql_type(dtype: object) -> str:
    """A polars type's name in SQL; those of lists and structs are made of their parts'."""
    if isinstance(dtype, pl.Struct):
        fields = dtype.to_schema().items()
        return f"STRUCT({', '.join(f'{name} {_sql_type(kind)}' for name, kind in fields)})"
    if isinstance(dtype, pl.List):
        return f"{_sql_type(dtype.inner)}[]"
    return _SQL_TYPES[cast("pl.DataType", dtype)]


def named(columns: Iterable[Column]) -> str:
    """The columns' names, quoted."""
    return ", ".join(f'"{one.name}"' for one in columns)


def listed(patterns: Sequence[str]) -> str:
    """Patterns as words of a list, quoted."""
    return ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in patterns)
