"""The page on evaluation explains every column of the evaluation's tables, as they are now."""

import pytest

from decomposerl import schemas
from decomposerl.table import Table
from project import ROOT

PAGE = (ROOT / "docs/how-to/evaluate.md").read_text("utf-8")
TABLES = (
    schemas.PREDICTIONS,
    schemas.CALLS,
    schemas.SCORES,
    schemas.LEADERBOARD,
    schemas.COMPARISON,
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_stands_on_the_page(table: Table):
    """In the table's order, with type, whether it may be null, and the schema's own words."""
    (section,) = [part for part in PAGE.split("\n### ")[1:] if part.startswith(f"{table.name}\n")]
    rows = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{column.name}` | {str(column.dtype).split('(')[0]} | "
        f"{'yes' if column.nullable else ''} | {column.meaning} |"
        for column in table.columns
    ]
