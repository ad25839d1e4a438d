"""The selector study as a table and a figure (paper, appendix "Diversity Selector Ablation")."""

import polars as pl

from decomposerl.reports.tables import markdown_table

_TITLES = {
    "facility_location": "facility location",
    "apricot": "apricot",
    "k_means": "k-means",
    "farthest_point": "farthest point",
    "random": "random",
}
_HEADERS = (
    *("selector", "engine", "selected of pool", "bins, %", "median distance", "95th percentile"),
    *("isolated, %", "entropy, bits", "f(S) / n", "shared, %", "seconds", "largest cell, seconds"),
)


def selectors_markdown(table: pl.DataFrame) -> str:
    """``SELECTOR_STUDY`` as a table; the paper's rows say so in their first column."""
    return markdown_table(_HEADERS, [_cells(row) for row in table.iter_rows(named=True)])


def _cells(row: dict[str, object]) -> list[str | None]:
    paper = " (paper)" if row["origin"] == "paper" else ""
    cell = f"{row['largest_budget']:,} of {row['largest_cell']:,}"
    return [
        f"{_TITLES.get(str(row['selector']), row['selector'])}{paper}",
        str(row["engine"]),
        f"{row['selected']:,} of {row['pool']:,}",
        _number(row["bins"], 1),
        _number(row["distance_median"], 3),
        _number(row["distance_95"], 3),
        _number(row["isolated"], 1),
        _number(row["source_entropy"], 2),
        _number(row["mean_cover"], 4),
        _number(row["shared"], 1),
        _number(row["seconds"], 2),
        f"{_number(row['largest_seconds'], 2)} ({cell})",
    ]


def _number(value: object, decimals: int) -> str | None:
    return None if value is None else f"{value:.{decimals}f}"
