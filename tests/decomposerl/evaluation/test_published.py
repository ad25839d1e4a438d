"""The paper's Tables 1 and 2 as data: whole, and true to their own means."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.leaderboard import systems_of
from decomposerl.evaluation.published import (
    ABLATIONS,
    COLUMNS,
    CONTRADICTIONS,
    IN_DOMAIN,
    MEAN_IN,
    MEAN_OUT,
    MEANS,
    OUT_OF_DOMAIN,
    PUBLISHED,
    TEST_SET_SIZES,
    UNEQUAL_MEANS,
    AblationRow,
    PublishedRow,
    ablation_of,
    domain_means,
)
from decomposerl.evaluation.systems import systems
from decomposerl.training.experiments import EXPERIMENTS, RECIPES
from project import ROOT


def rounded_mean(row: PublishedRow | AblationRow, names: tuple[str, ...]) -> Decimal:
    """The mean of printed figures, to one decimal, halves up, without binary rounding."""
    total = sum(Decimal(str(row.scores[name])) for name in names)
    return (total / len(names)).quantize(Decimal("0.1"), ROUND_HALF_UP)


def test_printed_means_are_the_means_of_their_rows():
    """A figure copied wrongly would move its row's mean away from the printed one."""
    for row in PUBLISHED:
        for mean, names in MEANS.items():
            assert rounded_mean(row, names) == Decimal(str(row.scores[mean])), row.title


def test_means_of_the_ablations_are_those_of_their_rows_but_for_the_named_one():
    """Every printed mean of a whole row: exactly the means in ``UNEQUAL_MEANS`` are others."""
    off = {}
    for row in ABLATIONS:
        for mean, names in MEANS.items():
            whole = mean in row.scores and row.scores.keys() >= set(names)
            if whole and rounded_mean(row, names) != Decimal(str(row.scores[mean])):
                off[row.study, row.recipe, mean] = float(rounded_mean(row, names))
    assert off == UNEQUAL_MEANS == {("rewards", "no_joint", MEAN_IN): 85.7}
    assert 11 == sum(row.scores.keys() == set(COLUMNS) for row in ABLATIONS)


def test_each_ablation_begins_with_the_papers_run_and_names_recipes_of_the_paper():
    """Its row is that of Table 1, as far as it is printed; s = 0.1 is Table 1's other row."""
    printed = {row.model: row.scores for row in PUBLISHED if row.table == 1}
    recipes = {one.name for one in RECIPES if one.paper}
    for study in {row.study for row in ABLATIONS}:
        rows = ablation_of(study)
        assert set(rows) <= recipes
        for name in rows.keys() & printed.keys():
            assert rows[name].scores.items() <= printed[name].items()
    assert recipes == {row.recipe for row in ABLATIONS}
    assert {} == ablation_of("learning")


def test_the_papers_differences_follow_from_the_rows():
    """Table 3, G.2, G.6 and G.7 print them; the mean out of domain is that of its two sets."""
    rewards = {name: domain_means(row) for name, row in ablation_of("rewards").items()}
    full = rewards.pop("paper_7b")
    moved = {
        name: tuple(round(mean - whole, 1) for mean, whole in zip(means, full, strict=True))
        for name, means in rewards.items()
    }
    assert {
        "no_necessity": (-0.1, -4.8),
        "no_coverage": (-0.1, -3.9),
        "no_diversity": (-0.6, -3.2),
        "no_joint": (-0.7, -2.0),
        "no_question_count": (-0.1, -1.7),
    } == moved
    for study, other, moved in (
        ("sampling", "random_sampling", (-1.5, -4.3, 0.4)),
        ("judge", "tiny_judge", (-0.5, -1.5, -0.6)),
        ("epochs", "one_epoch", (-0.1, -3.9, -4.8)),
    ):
        first, second = (ablation_of(study)[name].scores for name in ("paper_7b", other))
        names = (MEAN_IN, *OUT_OF_DOMAIN)
        assert moved == tuple(round(second[name] - first[name], 1) for name in names)
        whole = domain_means(ablation_of(study)["paper_7b"])
        assert pytest.approx((86.3, 69.75)) == whole


def test_the_contradictions_that_are_named_are_in_the_figures():
    """Each statement of the paper and what its rows give instead."""
    rewards = {name: row.scores for name, row in ablation_of("rewards").items()}
    drops = {
        name: round(rewards["paper_7b"]["coverbench"] - scores["coverbench"], 1)
        for name, scores in rewards.items()
    }
    assert (1.0, 1.6, 8.6) == (drops["no_joint"], drops["no_question_count"], max(drops.values()))
    assert 1.59 == round(drops["no_necessity"] / drops["no_coverage"], 2)
    (simple,) = (row for row in PUBLISHED if (row.method, row.model) == ("simple", "qwen2.5-3b"))
    small = ablation_of("scale")["paper_3b"].scores[MEAN_OUT]
    assert 0.5 == round(small - simple.scores[MEAN_OUT], 1)
    assert 5 == len(CONTRADICTIONS)


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


def test_the_page_on_the_tables_has_the_commands_of_each_row():
    """A line for every system that a row may be and one ablation; each recipe of the others."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    lines = {line.split()[1] for line in page.splitlines() if line.startswith("evaluate ")}
    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    wanted = {system.key for row in PUBLISHED for system in systems_of(row, known)}
    assert wanted | {"decomposerl-no_necessity"} == lines
    section = page.split("## The ablations\n")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    named = {name for cell in rows for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert {one.name for one in RECIPES if one.paper} - {"paper_7b"} == named
    titles = {one.name: one.title for one in BENCHMARKS}
    text = " ".join(page.split())
    sizes = [f"{titles[name]} {one.rows:,}" for name, one in TEST_SET_SIZES.items()]
    assert [] == [size for size in sizes if size not in text]
