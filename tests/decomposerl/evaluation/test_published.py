"""The paper's Tables 1 and 2 as data: whole, and true to their own means."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.leaderboard import systems_of
from decomposerl.evaluation.published import (
    COLUMNS,
    IN_DOMAIN,
    MEAN_IN,
    MEAN_OUT,
    OUT_OF_DOMAIN,
    PUBLISHED,
    TEST_SET_SIZES,
    PublishedRow,
)
from decomposerl.evaluation.systems import systems
from decomposerl.training.experiments import EXPERIMENTS, RECIPES
from project import ROOT


def rounded_mean(row: PublishedRow, names: tuple[str, ...]) -> Decimal:
    """The mean of printed figures, to one decimal, halves up, without binary rounding."""
    total = sum(Decimal(str(row.scores[name])) for name in names)
    return (total / len(names)).quantize(Decimal("0.1"), ROUND_HALF_UP)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.line} {row.title}")
def test_printed_means_are_the_means_of_their_rows(row: PublishedRow):
    """A figure copied wrongly would move its row's mean away from the printed one."""
    assert rounded_mean(row, IN_DOMAIN) == Decimal(str(row.scores[MEAN_IN]))
    assert rounded_mean(row, OUT_OF_DOMAIN) == Decimal(str(row.scores[MEAN_OUT]))


def test_the_columns_are_the_catalogues_test_sets():
    """Nine in the domain and two outside it, by the names and places of the catalogue."""
    assert {one.name for one in BENCHMARKS if one.in_domain} == set(IN_DOMAIN)
    assert {one.name for one in BENCHMARKS if not one.in_domain} == set(OUT_OF_DOMAIN)
    assert 13 == len(COLUMNS) == len(set(COLUMNS))


def test_each_row_is_a_system():
    """Thirteen rows and six, each of them something that can be run, in the tables' order."""
    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    assert [] == [row.title for row in PUBLISHED if not systems_of(row, known)]
    assert [13, 6] == [sum(row.table == table for row in PUBLISHED) for table in (1, 2)]
    assert sorted(row.line for row in PUBLISHED) == [row.line for row in PUBLISHED]


def test_what_stands_in_both_tables_is_the_same():
    """The 7B base and our 7B policy have one set of figures."""
    by_system: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in PUBLISHED:
        by_system.setdefault((row.method, row.model), []).append(row)
    shared = [rows for rows in by_system.values() if len(rows) == 2]
    assert [("simple", "qwen2.5-7b"), ("decomposerl", "paper_7b")] == [
        (rows[0].method, rows[0].model) for rows in shared
    ]
    assert all(first.scores == second.scores for first, second in shared)


def test_each_row_of_both_tables_has_its_commands():
    """The page on the tables has a line for every system that a row may be, and one ablation."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    lines = {line.split()[1] for line in page.splitlines() if line.startswith("evaluate ")}
    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    wanted = {system.key for row in PUBLISHED for system in systems_of(row, known)}
    assert wanted | {"decomposerl-no_necessity"} == lines


def test_the_page_names_every_ablation():
    """Each recipe of the paper that is no row of Tables 1 and 2 is in the page's other table."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    section = page.split("## The ablations\n")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    named = {name for cell in rows for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert {one.name for one in RECIPES if one.paper} - {"paper_7b"} == named
    sizes = {name: one.rows for name, one in TEST_SET_SIZES.items()}
    titles = {one.name: one.title for one in BENCHMARKS}
    text = " ".join(page.split())
    assert [] == [one for one in sizes if f"{titles[one]} {sizes[one]:,}" not in text]
