"""What the diversity selection reached, cell by cell and in all.

Takes the cells (``SELECTION_CELLS``), gives a Markdown table and the totals.

Left out deliberately: the picture (``figures.py``).
"""

import polars as pl

from decomposerl.reports.attrition import frame_markdown

_SHARES = ("mean_cover", "within_0_5", "within_0_7", "within_0_9")
_MATRIX_MB = 4 / 1e6  # a single-precision cosine


def cells_markdown(cells: pl.DataFrame) -> str:
    """The cells as a table, shares to three places."""
    rounded = pl.col("objective").round(2), pl.col(_SHARES).round(3)
    return frame_markdown(cells.with_columns(*rounded))


def selection_totals(cells: pl.DataFrame) -> dict[str, int | float]:
    """The numbers worth plotting over time, 0 where there is no cell.

    Shares of claims are over all cells; ``evaluations share`` is of the gains that a greedy
    without bounds would compute, one a claim and pick.
    """
    claims, every = pl.col("available"), pl.col("available") * pl.col("selected")
    largest = claims.max().cast(pl.Float64())
    return (
        cells.select(
            objective=pl.col("objective").sum(),
            **{share: (pl.col(share) * claims).sum() / claims.sum() for share in _SHARES},
            evaluations=pl.col("evaluations").sum(),
            evaluations_share=pl.col("evaluations").sum() / every.sum(),
            largest_cell=claims.max(),
            largest_cell_matrix_mb=largest * largest * _MATRIX_MB,
        )
        .fill_nan(0)
        .fill_null(0)
        .select(pl.selectors.float().round(4), pl.selectors.integer())
        .row(0, named=True)
    )
