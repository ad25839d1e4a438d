"""How columns of our tables and file patterns are written in DuckDB's SQL.

Takes columns and patterns, gives pieces of statements.

Left out deliberately: the views (``catalogue_views``, ``catalogue_training``).
"""

from collections.abc import Iterable, Sequence

import polars as pl

from decomposerl.table import Column

_SQL_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
    pl.List(pl.String()): "VARCHAR[]",
}


def typed_nulls(columns: Iterable[Column]) -> str:
    """One null a column with its type: the shape of a view without a file."""
    return ", ".join(f'NULL::{_SQL_TYPES[one.dtype]} AS "{one.name}"' for one in columns)


def named(columns: Iterable[Column]) -> str:
    """The columns' names, quoted."""
    return ", ".join(f'"{one.name}"' for one in columns)


def listed(patterns: Sequence[str]) -> str:
    """Patterns as words of a list, quoted."""
    return ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in patterns)
