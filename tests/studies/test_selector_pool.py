"""The made-up pool of the selector study, and the page that the program writes."""

import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from decomposerl.funnel.selection import label_source_cells
from decomposerl.funnel.selector_comparison import PAPER_BUDGET, PAPER_POOL, SelectorComparison
from decomposerl.kernels.selectors import METHODS
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import selectors_figure
from documents import shell_lines
from project import ROOT
from resources.report.studies import write_study
from resources.store.parquet import write_parquet
from studies.selector_pool import (
    LARGEST,
    MADE_UP,
    REAL,
    claims_of,
    compared_pool,
    main,
    options,
    pool_vectors,
    section,
)

PAGE = ROOT / "docs/results/studies.md"
WITHOUT_APRICOT = [name for name in METHODS if name != "apricot"]


@pytest.fixture(scope="module")
def small() -> SelectorComparison:
    return compared_pool(0.02, 64, WITHOUT_APRICOT, 2)


def test_the_pool_has_the_papers_size_and_cells():
    """17,328 claims in 28 cells, 2,500 of each label selected, 430 of 3,482 in the largest cell."""
    claims = claims_of()
    cells = label_source_cells(claims, PAPER_BUDGET // 2)
    assert (PAPER_POOL, 28) == (claims.height, cells.height)
    assert {2_500} == set(cells.group_by("label").agg(pl.col("budget").sum())["budget"])
    largest = cells.sort("available").row(-1, named=True)
    assert LARGEST == (largest["source"], largest["available"])
    assert (3_482, 430) == (largest["available"], largest["budget"])


def test_vectors_are_unit_rows_in_clusters_of_their_source():
    """Equal for one seed, others for another; claims of a source are nearer than others."""
    sources = claims_of(0.02)["source"].to_list()
    vectors = pool_vectors(sources, 64)
    assert np.allclose(1, np.linalg.norm(vectors, axis=1), atol=1e-5)
    assert np.array_equal(vectors, pool_vectors(sources, 64))
    assert not np.array_equal(vectors, pool_vectors(sources, 64, seed=8))
    alike = np.equal.outer(np.array(sources), np.array(sources))
    cosines = vectors @ vectors.T
    assert cosines[alike].mean() > cosines[~alike].mean() + 0.05


def test_the_section_of_a_made_up_pool_names_it(small: SelectorComparison):
    """Its picture, sentence and table, with the engine in every row."""
    text = section(small.table, "made_up_selectors.png")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert text.startswith("![")
    assert "](made_up_selectors.png)" in text
    assert "64 numbers, seed 7." in text
    assert len(WITHOUT_APRICOT) + 3 == len(rows)
    assert all("made-up vectors" in row or "(paper" in row for row in rows)


def test_both_sections_are_written_into_a_page(tmp_path: Path, small: SelectorComparison):
    """Between their markers with the picture beside the page; the rest of it stays."""
    marks = [
        f"<!-- {name} report: {end} -->" for name in (REAL, MADE_UP) for end in ("begin", "end")
    ]
    page = tmp_path / "page.md"
    page.write_text("\n".join(["# Head", *marks, "tail\n"]), "utf-8")
    write_parquet(small.table, tmp_path / "data/study/selectors.parquet")
    figure = drawn(selectors_figure(small))
    write_study(tmp_path / "data", "selectors", figure, "It says so.")
    main(["--report", str(page), "--data", str(tmp_path / "data")])
    asked = ["--scale", "0.02", "--dimensions", "64", "--seeds", "1", "--selectors", "random"]
    main(["--report", str(page), *asked])
    text = page.read_text("utf-8")
    assert figure.png == (tmp_path / "selectors.png").read_bytes()
    assert (tmp_path / "made_up_selectors.png").is_file()
    assert text.startswith("# Head\n")
    assert text.endswith("tail\n")
    assert section(small.table, "selectors.png") in text
    assert 1 == text.count("\n| random | made-up vectors, 64 numbers, seed 7 |") - 1


def test_the_committed_page_has_every_selector_in_both_sections():
    """So it is of the study as it is now; its commands parse."""
    page = PAGE.read_text("utf-8")
    for name in (REAL, MADE_UP):
        part = page.partition(f"<!-- {name} report: begin -->")[2].partition("<!--")[0]
        lines = [line for line in part.splitlines() if line.startswith("| ")]
        assert len(METHODS) + 3 == len(lines) - 2, name
    ran = [line for line in shell_lines(PAGE) if "studies.selector_pool" in line]
    assert {True, False} == {options(shlex.split(line)[3:]).data is None for line in ran}
