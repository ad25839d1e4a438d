"""A plain row of each table, from ``plain_rows.json``; who needs another value names its column."""

import json
from collections.abc import Mapping, Sequence

import polars as pl

from decomposerl.table import Table
from project import SUPPORT

ROWS: dict[str, dict[str, object]] = json.loads((SUPPORT / "plain_rows.json").read_text("utf-8"))


def plain(table: str, /, **columns: object) -> dict[str, object]:
    """The plain row of a table with some columns changed."""
    return ROWS[table] | columns


def table_of(table: Table, rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Rows as the table; null where a row lacks a column."""
    return table.conform(pl.DataFrame(rows, schema=table.schema))
