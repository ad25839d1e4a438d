"""The funnel's pages where claims have three labels."""

from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.reports import figures
from decomposerl.reports.stage_page import stage_page
from fixture_data import build


def test_a_third_label_has_its_share_and_its_line(tmp_path: Path):
    """Where claims have it; elsewhere the page and the figure have the paper's two."""
    world = build(tmp_path)
    third = pl.when(pl.col("label") == "Refuted").then(pl.lit("NotEnoughInfo"))
    claims = world.claims.with_columns(label=third.otherwise("label"))
    page = stage_page("s", claims, claims, schemas.DROPS.empty(), {})
    assert "| NotEnoughInfo |" in page.label_balance_md
    two = stage_page("s", world.claims, world.claims, schemas.DROPS.empty(), {})
    assert "NotEnoughInfo" not in two.label_balance_md
    selected = pl.read_parquet(world.data / "diversity_selected.parquet")
    cells = pl.read_parquet(world.data / "selection_cells/diversity_selected.parquet")
    for made, styles in ((cells, {"-", "--"}), (cells.with_columns(label=third), {":"})):
        axes = figures.selection_figure(selected, made.drop_nulls("label")).axes[0]
        drawn = {line.get_linestyle() for line in axes.get_lines() if len(line.get_xdata())}
        assert styles == drawn
