"""The leaderboard and the tables of the paper."""

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import parse_systems_toml
from decomposerl.evaluation.leaderboard import (
    leaderboard,
    mean_scores,
    wide_leaderboard,
)
from decomposerl.evaluation.published import (
    ABLATIONS,
    CARDS,
    COLUMNS,
    DATA,
    IN_DOMAIN,
    MEAN_IN,
    MEANS,
    OUT_OF_DOMAIN,
    PUBLISHED,
    TEST_SET_SIZES,
    PublishedRow,
    ablation_of,
)
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.schemas import SCORES
from decomposerl.training.experiments import EXPERIMENTS, RECIPES
from leaderboard_parts import ONE, SYSTEMS, method, score, scores
from project import ROOT
from strategies import LAW
from tables import cases_beside

CASES = cases_beside(__file__, "leaderboards")
TINY, MAIN = "decomposerl-tiny", "decomposerl-paper_7b"
SEEDS = [TINY, f"{TINY}-seed_1", f"{TINY}-seed_2"]


def board(*rows: dict[str, object]) -> pl.DataFrame:
    return leaderboard(scores(rows), SYSTEMS, ["fever", "toy"], {})


def test_nothing_was_run_and_every_row_of_the_paper_is_there():
    """With the paper's figures, a line for each protocol; our cells are empty, never filled."""
    empty = board()
    assert {1, 2} == set(empty["table"])
    for name in ("score", "low", "high", "engine"):
        assert empty[name].null_count() == empty.height
    assert {"not_run"} == set(empty["status"])
    figures = {row.scores["fever"] for row in PUBLISHED if row.method == "simple"}
    assert figures == set(empty.filter(method="simple", benchmark="fever")["paper"])
    first = empty.filter(table=1, benchmark="fever", method="self_ask").sort("place")
    assert ["faithful", "single_call"] == first["protocol"].to_list()
    assert 1 == len(set(first["paper"])) == first["place"][1] - first["place"][0]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_the_cells_of_a_leaderboard(case: dict[str, Any]):
    """Of scores and the statuses of runs; rows of one recipe follow each other."""
    runs = {(system, name): status for system, name, status in case.get("runs", ())}
    rows = scores([score(**row) for row in case["rows"]])
    shown = leaderboard(rows, SYSTEMS, ["fever", "toy"], runs)
    places: dict[int, list[int]] = {}
    for system, benchmark, table, columns in case["cells"]:
        (cell,) = shown.filter(system=system, benchmark=benchmark, table=table).to_dicts()
        assert columns == {name: cell[name] for name in columns}
        if "title" in columns:
            places.setdefault(table, []).append(cell["place"])
    assert all(of == [*range(of[0], of[0] + len(of))] for of in places.values())
    assert not {*case.get("absent", ())} & {*shown["system"]}
    short = {system for (system, _), status in runs.items() if status == "limited"}
    limited = wide_leaderboard(shown).filter("limited")["system"]
    assert short == {*limited} - {f"{MAIN}-mean"}


def test_the_wide_form_has_the_tables_columns_in_order():
    """Head, then for each column of the paper ours, its bounds, and the paper's; own sets last."""
    rows = score(TINY, "toy", 55.0, engine="b", rows=4), score(TINY, "fever", 50.0, engine="a")
    shown = wide_leaderboard(board(*rows, score(MAIN, "toy", 50.0)))
    parts = ("", "_low", "_high", "_paper", "_rows")
    assert [f"{name}{part}" for name in (*COLUMNS, "toy") for part in parts] == shown.columns[12:]
    assert "seeds" == shown.columns[8]
    last = shown.select("table", "engine", "ranked", "toy", "toy_low", "toy_paper", "toy_rows").row(
        -1
    )
    assert (0, "a; b", False, 55.0, 53.0, None, 4) == last
    assert [1, 2, 0] == shown["table"].unique(maintain_order=True).to_list()
    assert {MAIN} == {*shown.filter(pl.col("table") > 0).drop_nulls("engine")["system"]}


def test_an_engine_is_named_once_also_where_a_mean_is_over_two():
    """The mean's row names both; the wide form names each by itself."""
    rows = [score(TINY, name, 50.0, engine="ab"[n % 2]) for n, name in enumerate(IN_DOMAIN)]
    mean = mean_scores(scores(rows), MEANS).to_dicts()
    assert ["a / b"] == [row["engine"] for row in mean]
    assert "a; b" == wide_leaderboard(board(*rows, *mean)).row(-1, named=True)["engine"]


@LAW
@given(st.lists(st.floats(0, 100), min_size=2, max_size=3))
def test_the_mean_lies_between_least_and_greatest(drawn: list[float]):
    """Whatever the scores, and in whatever order the runs were scored."""
    rows = [score(key, "fever", value) for key, value in zip(SEEDS, drawn, strict=False)]
    whole, turned = (
        board(*order).filter(system="decomposerl-tiny-mean", benchmark="fever").to_dicts()
        for order in (rows, rows[::-1])
    )
    assert [(min(drawn), max(drawn))] == [(mean["low"], mean["high"]) for mean in whole]
    assert sum(drawn) / len(drawn) == pytest.approx(whole[0]["score"])
    assert whole == turned


def test_entries_are_further_systems_but_for_the_published_weights():
    """Not even the name of a model makes one a row; published weights follow the authors' own."""
    (family, card), *_ = CARDS.items()
    entries = []
    for name, model in (("simple-own", "qwen2.5-7b"), ("weights", card["model"])):
        text = f'[{name}]\nmethod = "simple"\nmodel = "{model}"\nbase_url = "http://127.0.0.1:8/v1"'
        entries += parse_systems_toml(text, "my.toml", ROOT)
    every = (*SYSTEMS, *systems([], [], entries))
    rows = scores([score(name, "fever", 70.0) for name in ("simple-own", "weights")])
    shown = leaderboard(rows, every, [], {}).drop_nulls("score")
    assert ("simple-own", 0, "Further systems") in shown.select("system", "table", "family").rows()
    (weights,) = shown.filter(system="weights").to_dicts()
    assert (1, family, 74.1) == (weights["table"], weights["family"], weights["paper"])


def test_a_system_is_found_by_its_key_or_refused_with_those_near_it():
    """The message names the systems of the same method; two systems of one key are refused."""
    assert "tiny" == system_named("decomposerl-tiny", SYSTEMS).model.key
    assert "tiny" == system_named("decomposerl-tiny-seed_1", SYSTEMS).model.recipe
    known = "there are decomposerl-paper_7b, decomposerl-tiny, and each with a further seed$"
    with pytest.raises(ConfigError, match=known):
        system_named("decomposerl-huge", SYSTEMS)
    with pytest.raises(ConfigError, match="there are decomposerl, minicheck, self_ask, simple"):
        system_named("simpel", SYSTEMS)
    with pytest.raises(ConfigError, match=r"one-.*another system has this name"):
        systems([method("one", ONE), method("one", ONE)], [])


def rounded_mean(row: PublishedRow, names: tuple[str, ...]) -> Decimal:
    """The mean of printed figures, to one decimal, halves up, without binary rounding."""
    total = sum(Decimal(str(row.scores[name])) for name in names)
    return (total / len(names)).quantize(Decimal("0.1"), ROUND_HALF_UP)


def test_printed_means_are_those_of_their_rows_but_for_the_named_one():
    """A figure copied wrongly would move its row's mean; ``unequal_means`` are the paper's own."""
    off = {}
    for row in (*PUBLISHED, *ABLATIONS):
        name = row.table, row.model
        for mean, names in MEANS.items():
            whole = row.scores.keys() >= {mean, *names}
            if whole and rounded_mean(row, names) != Decimal(str(row.scores[mean])):
                off[*name, mean] = float(rounded_mean(row, names))
    assert {("rewards", "no_joint", MEAN_IN): 85.7} == off
    names = ("study", "recipe", "column", "mean")
    assert [(*row, off[row]) for row in off] == [
        tuple(row[name] for name in names) for row in DATA["unequal_means"]
    ]
    assert 11 == sum(row.scores.keys() == set(COLUMNS) for row in ABLATIONS)
    assert all(row.scores.keys() == set(COLUMNS) for row in PUBLISHED)


def test_each_ablation_begins_with_the_papers_run_and_names_recipes_of_the_paper():
    """Its row is that of Table 1, as far as it is printed; s = 0.1 is Table 1's other row."""
    printed = {row.model: row.scores for row in PUBLISHED if row.table == 1}
    recipes = {one.name for one in RECIPES if one.paper}
    for study in {row.table for row in ABLATIONS}:
        rows = ablation_of(str(study))
        assert set(rows) <= recipes
        for name in rows.keys() & printed.keys():
            assert rows[name].scores.items() <= printed[name].items()
    assert recipes == {row.model for row in ABLATIONS}
    assert {} == ablation_of("learning")


def test_the_columns_are_the_catalogues_test_sets():
    """Nine in the domain and two outside it, by the names and places of the catalogue."""
    assert {one.name for one in BENCHMARKS if one.in_domain} == set(IN_DOMAIN)
    assert {one.name for one in BENCHMARKS if not one.in_domain} == set(OUT_OF_DOMAIN)
    assert 13 == len(COLUMNS) == len(set(COLUMNS))


def test_each_row_is_a_system_and_the_page_on_the_tables_has_its_commands():
    """Thirteen rows and six, in order; the page has every system of one, and an ablation."""
    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    empty = leaderboard(SCORES.empty(), known, [], {})
    assert {row.title for row in PUBLISHED} == set(empty["title"])
    assert [13, 6] == [sum(row.table == table for row in PUBLISHED) for table in (1, 2)]
    assert sorted(row.line for row in PUBLISHED) == [row.line for row in PUBLISHED]
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    lines = {line.split()[1] for line in page.splitlines() if line.startswith("evaluate ")}
    ours = {f"{name}_examples-qwen2.5-7b-faithful" for name in ("simple", "cot")}
    assert {*empty["system"]} | ours | {"decomposerl-no_necessity"} == lines
    assert "run benchmarks -c configs/paper_rows.yaml" in page
    section = page.split("## The ablations\n")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    named = {name for cell in rows for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert {one.name for one in RECIPES if one.paper} - {"paper_7b"} == named
    titles = {one.name: one.title for one in BENCHMARKS}
    text = " ".join(page.split())
    sizes = [f"{titles[name]} {one['rows']:,}" for name, one in TEST_SET_SIZES.items()]
    assert [] == [size for size in sizes if size not in text]
