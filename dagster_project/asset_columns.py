"""Columns of the assets for Dagster's pages: names, types, meaning, and from where each comes.

All from the tables that the IO manager checks (``decomposerl.schemas``), so that the Columns tab
has them before any run. Dagster shows column lineage only in Dagster+; elsewhere it is metadata.
"""

from collections.abc import Collection
from typing import Any

import dagster as dg

from decomposerl import schemas
from decomposerl.errors import SchemaError
from decomposerl.funnel.lineage import BEFORE, CLAIMS, Origin, column_origins
from decomposerl.table import Table
from resources.store.parquet import table_of

_BESIDE = {"policy": schemas.CURVES}
"""Tables that an asset writes by itself, beside a result that is none."""


def column_metadata(key: dg.AssetKey, upstream: Collection[dg.AssetKey]) -> dict[str, Any]:
    """Definition metadata: ``dagster/column_schema`` and, in the funnel, ``column_lineage``.

    Empty for an asset without a table. ``upstream`` are the keys that the asset reads.
    """
    name = key.to_user_string()
    try:
        table = _BESIDE.get(name) or table_of(name)
    except SchemaError:
        return {}
    found: dict[str, Any] = {"dagster/column_schema": column_schema(table)}
    if name in BEFORE:
        found["dagster/column_lineage"] = column_lineage(name, upstream)
    return found


def column_schema(table: Table) -> dg.TableSchema:
    """A table as Dagster's schema; the columns that identify a row are a constraint."""
    columns = [
        dg.TableColumn(
            column.name,
            type=str(column.dtype),
            description=column.meaning,
            constraints=dg.TableColumnConstraints(
                nullable=column.nullable, unique=table.unique == (column.name,)
            ),
        )
        for column in table.columns
    ]
    rows = [f"unique: {', '.join(table.unique)}"] if table.unique else []
    return dg.TableSchema(columns=columns, constraints=dg.TableConstraints(other=rows))


def column_lineage(stage: str, upstream: Collection[dg.AssetKey]) -> dg.TableColumnLineage:
    """What each column of a funnel stage is computed from, in the assets of ``upstream``."""
    sources = sorted(key for key in upstream if key.path[0] == CLAIMS)

    def deps(origin: Origin) -> list[dg.TableColumnDep]:
        table, column = origin
        keys = sources if table == CLAIMS else [dg.AssetKey(table)]
        return [dg.TableColumnDep(asset_key=key, column_name=column) for key in keys]

    return dg.TableColumnLineage(
        {
            column: [dep for origin in origins for dep in deps(origin)]
            for column, origins in column_origins(stage).items()
        }
    )
