"""The leaderboard and the tables of the paper."""

import re
from decimal import ROUND_HALF_UP, Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.errors import ConfigError
from decomposerl.evaluation.leaderboard import (
    leaderboard,
    mean_scores,
    systems_of,
    wide_leaderboard,
)
from decomposerl.evaluation.published import (
    ABLATIONS,
    COLUMNS,
    DATA,
    IN_DOMAIN,
    MEAN_IN,
    MEANS,
    OUT_OF_DOMAIN,
    PUBLISHED,
    TEST_SET_SIZES,
    AblationRow,
    PublishedRow,
    ablation_of,
)
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.training.experiments import EXPERIMENTS, RECIPES
from leaderboard_parts import ONE, SYSTEMS, method, score, scores
from project import ROOT
from strategies import LAW

TINY, OURS = "decomposerl-tiny", "simple-qwen2.5-7b-faithful"
SEEDS = [TINY, f"{TINY}-seed_1", f"{TINY}-seed_2"]


def board(*rows: dict[str, object], benchmarks: tuple[str, ...] = (), **runs: set[tuple[str, str]]):
    statuses = {cell: status for status, cells in runs.items() for cell in cells}
    return leaderboard(scores(rows), SYSTEMS, benchmarks, statuses)


def cell(frame: pl.DataFrame, system: str, benchmark: str, table: int) -> dict[str, object]:
    (row,) = frame.filter(system=system, benchmark=benchmark, table=table).to_dicts()
    return row


def values(row: dict[str, object], names: str) -> tuple[object, ...]:
    return tuple(row[name] for name in names.split())


def test_nothing_was_run_and_every_row_of_the_paper_is_there():
    """Rows of known methods stand with the paper's figures; our cells are empty, never filled."""
    empty = board()
    assert {1, 2} == set(empty["table"])
    for name in ("score", "low", "high", "engine"):
        assert empty[name].null_count() == empty.height
    assert {"not_run"} == set(empty["status"])
    figures = {row.scores["fever"] for row in PUBLISHED if row.method == "simple"}
    shown = empty.filter(pl.col("method") == "simple", pl.col("benchmark") == "fever")["paper"]
    assert figures == set(shown)


def test_a_row_of_the_paper_has_a_line_for_each_protocol():
    """The paper names no protocol, so both stand beside its figure, next to each other."""
    first = board().filter(table=1, benchmark="fever", method="self_ask").sort("place")
    assert ["faithful", "single_call"] == first["protocol"].to_list()
    assert 1 == len(set(first["paper"])) == first["place"][1] - first["place"][0]


def test_our_score_stands_in_both_tables_beside_the_papers():
    """One score, its interval and its engine; the paper's figure is untouched by it."""
    shown = board(score(OURS, "fever", 70.0, engine="chat:qwen"))
    for table in (1, 2):
        found = values(cell(shown, OURS, "fever", table), "score low high paper engine status rows")
        assert (70.0, 68.0, 72.0, 72.7, "chat:qwen", "scored", 100) == found
        assert cell(shown, OURS, "hover", table)["score"] is None


def test_systems_that_are_no_row_of_the_paper_follow_without_its_figures():
    """Rules and tiny policies stand apart, with their engine and nothing of the paper beside."""
    rows = score("simple-rules-faithful", "fever", 61.0), score(TINY, "x", 5.0)
    further = board(*rows).filter(table=0)
    assert {"simple-rules-faithful", "decomposerl-tiny"} == set(further["system"])
    assert further["paper"].null_count() == further.height
    assert ["rules"] == further["engine"].drop_nulls().unique().to_list()


def test_short_runs_and_missing_files_are_said():
    """A limited cell and every mean over it say so; without files a cell is not available."""
    rows = score(OURS, "fever", 70.0, rows=5), score(OURS, "mean_in_domain", 70.0)
    shown = board(*rows, limited={(OURS, "fever")}, not_available={(OURS, "wice")})
    status = {name: cell(shown, OURS, name, 1)["status"] for name in COLUMNS}
    assert ("limited", "limited") == (status["fever"], status["mean_in_domain"])
    assert ("not_available", "not_run") == (status["wice"], status["hover"])
    assert wide_leaderboard(shown).filter(system=OURS)["limited"].all()


def test_other_metrics_and_slices_are_no_cells():
    """Only balanced accuracy over all claims of a test set enters."""
    part = score(OURS, "fever", 99.0) | {"slice": "subset", "value": "x"}
    shown = board(part, score(OURS, "fever", 98.0, metric="f1"))
    assert shown["score"].null_count() == shown.height


def test_the_wide_form_has_the_tables_columns_in_order():
    """Head, then for each column of the paper ours, its bounds, and the paper's; own sets last."""
    rows = score(TINY, "toy", 55.0, engine="b"), score(TINY, "fever", 50.0, engine="a")
    shown = wide_leaderboard(board(*rows, benchmarks=("fever", "toy")))
    parts = ("", "_low", "_high", "_paper", "_rows")
    assert [f"{name}{part}" for name in (*COLUMNS, "toy") for part in parts] == shown.columns[12:]
    assert "seeds" == shown.columns[8]
    last = shown.row(-1, named=True)
    assert (0, "a; b", 55.0, 53.0, None) == values(last, "table engine toy toy_low toy_paper")
    assert [1, 2, 0] == shown["table"].unique(maintain_order=True).to_list()
    assert shown.filter(table=1)["engine"].null_count() == shown.filter(table=1).height


def test_an_engine_is_named_once_also_where_a_mean_is_over_two():
    """The mean's row names both; the wide form names each by itself."""
    rows = [score(TINY, name, 50.0, engine="ab"[n % 2]) for n, name in enumerate(IN_DOMAIN)]
    mean = mean_scores(scores(rows), MEANS).to_dicts()
    assert ["a / b"] == [row["engine"] for row in mean]
    assert "a; b" == wide_leaderboard(board(*rows, *mean)).row(-1, named=True)["engine"]


def test_a_system_scored_on_fewer_claims_is_not_ranked():
    """In its column and in its row; with as many as any other it is, also where all are few."""
    few = score(TINY, "fever", 99.0, rows=4), score(TINY, "hover", 70.0, rows=4)
    shown = board(*few, score(OURS, "fever", 70.0))
    assert [False, True] == [cell(shown, TINY, name, 0)["ranked"] for name in ("fever", "hover")]
    assert cell(shown, OURS, "fever", 1)["ranked"]
    wide = wide_leaderboard(shown).filter(system=TINY)
    assert [(False, 4)] == wide.select("ranked", "fever_rows").rows()


def test_a_test_set_of_one_label_is_told_from_one_that_was_not_run():
    """Without a balanced accuracy, but with its engine and the number of claims."""
    shown = cell(board(score(TINY, "toy", None, rows=12), benchmarks=("toy",)), TINY, "toy", 0)
    assert (None, 12, "one_label", False) == values(shown, "score rows status ranked")


def test_verdicts_are_counted_by_what_they_rest_on():
    """From the accuracies by basis and their claims; a mean has the sum over its parts."""
    rows = [score(TINY, name, 60.0) for name in IN_DOMAIN]
    rows += mean_scores(scores(rows), MEANS).to_dicts()
    rows += [score(TINY, "fever", 50.0, rows=8, metric="accuracy_silent")]
    rows += [score(TINY, "fever", 100.0, rows=3, metric="accuracy_answered")]
    rows += [score(TINY, "wice", 25.0, rows=4, metric="accuracy_silent")]
    shown, names = board(*rows), "answered answered_right silent silent_right partly"
    assert (3, 3, 8, 4, 0) == values(cell(shown, TINY, "fever", 0), names)
    assert (3, 3, 12, 5, 0) == values(cell(shown, TINY, MEAN_IN, 0), names)
    assert (0, 0, 0, 0, 0) == values(cell(shown, TINY, "hover", 0), names)


ENDS = ("", "-seed_1", "-seed_2", "-mean")
MAIN, FIRST, SECOND, MEAN = (f"decomposerl-paper_7b{end}" for end in ENDS)


def seeds_of(shown: pl.DataFrame, table: int, recipe: str) -> list[tuple[object, ...]]:
    """System, title and seeds of a recipe's rows in a table, in their places."""
    rows = shown.filter(pl.col("system").str.starts_with(f"decomposerl-{recipe}"), table=table)
    return rows.filter(benchmark="fever").sort("place").select("system", "title", "seeds").rows()


def test_seeds_are_rows_with_their_mean_behind_them():
    """In both tables of the paper, beside its figure; the spread is from least to greatest."""
    rows = [score(MAIN, "fever", 70.0, engine="a", rows=90), score(SECOND, "hover", 50.0)]
    rows += [score(FIRST, "fever", 73.0, engine="b"), score(SECOND, "fever", 76.0, engine="a")]
    shown = board(*rows)
    for table, title in ((1, "DecomposeRL (s = 1.0)"), (2, "DecomposeRL @ 7B")):
        assert [
            (MAIN, title, 1),
            (FIRST, f"{title}, seed 1", 1),
            (SECOND, f"{title}, seed 2", 1),
            (MEAN, f"{title}, mean of 3 seeds", 3),
        ] == seeds_of(shown, table, "paper_7b")
        mean = values(cell(shown, MEAN, "fever", table), "score low high rows engine status paper")
        assert (73.0, 70.0, 76.0, 90, "a / b", "scored", 74.1) == mean
        first = values(cell(shown, FIRST, "fever", table), "score low high")
        assert (73.0, 71.0, 75.0) == first
        # A mean over fewer seeds than its neighbours would be compared with them.
        assert ("not_run", None) == values(cell(shown, MEAN, "hover", table), "status score")


def test_one_seed_alone_is_as_without_seeds():
    """No mean of one run; where only a further seed ran, the recipe's own row stays empty."""
    one = board(score(MAIN, "fever", 70.0))
    assert [(MAIN, "DecomposeRL @ 7B", 1)] == seeds_of(one, 2, "paper_7b")
    assert {1} == set(one["seeds"])
    further = board(score(FIRST, "fever", 70.0))
    assert [MAIN, FIRST] == [row[0] for row in seeds_of(further, 1, "paper_7b")]
    assert cell(further, MAIN, "fever", 1)["score"] is None


def test_a_short_run_of_one_seed_shows_in_the_mean():
    """Its status is limited, as that of every mean over a limited cell."""
    rows = (score(MAIN, "fever", 70.0), score(FIRST, "fever", 72.0))
    shown = board(*rows, limited={(FIRST, "fever")})
    found = {system: cell(shown, system, "fever", 1)["status"] for system in (MAIN, FIRST, MEAN)}
    assert {MAIN: "scored", FIRST: "limited", MEAN: "limited"} == found
    other = score(FIRST, "hover", 1.0)
    lacking = board(rows[0], other, not_available={(FIRST, "fever")})
    assert "not_available" == cell(lacking, MEAN, "fever", 1)["status"]


@LAW
@given(st.lists(st.floats(0, 100), min_size=2, max_size=3))
def test_the_mean_lies_between_least_and_greatest(drawn: list[float]):
    """Whatever the scores, and in whatever order the runs were scored."""
    rows = [score(key, "fever", value) for key, value in zip(SEEDS, drawn, strict=False)]
    mean = cell(board(*rows), "decomposerl-tiny-mean", "fever", 0)
    assert (min(drawn), max(drawn)) == (mean["low"], mean["high"])
    assert sum(drawn) / len(drawn) == pytest.approx(mean["score"])
    assert mean == cell(board(*reversed(rows)), "decomposerl-tiny-mean", "fever", 0)


def test_keys_keep_models_and_protocols_apart():
    """Two models, protocols, a verifier, a policy; Simple's protocols are one procedure and key."""
    keys = [system.key for system in SYSTEMS]
    assert len(keys) == len(set(keys))
    assert {"simple-qwen2.5-3b-faithful", "self_ask-rules-single_call", "minicheck-7b"} <= set(keys)
    assert {"decomposerl-paper_7b", "minicheck-lexical"} <= set(keys)
    of_simple = {system.protocol for system in SYSTEMS if system.method == "simple"}
    of_self_ask = {system.protocol for system in SYSTEMS if system.method == "self_ask"}
    assert ({"faithful"}, {"faithful", "single_call"}) == (of_simple, of_self_ask)


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


def rounded_mean(row: PublishedRow | AblationRow, names: tuple[str, ...]) -> Decimal:
    """The mean of printed figures, to one decimal, halves up, without binary rounding."""
    total = sum(Decimal(str(row.scores[name])) for name in names)
    return (total / len(names)).quantize(Decimal("0.1"), ROUND_HALF_UP)


def test_printed_means_are_those_of_their_rows_but_for_the_named_one():
    """A figure copied wrongly would move its row's mean; ``unequal_means`` are the paper's own."""
    off = {}
    for row in (*PUBLISHED, *ABLATIONS):
        name = (row.study, row.recipe) if isinstance(row, AblationRow) else (row.table, row.title)
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
    for study in {row.study for row in ABLATIONS}:
        rows = ablation_of(study)
        assert set(rows) <= recipes
        for name in rows.keys() & printed.keys():
            assert rows[name].scores.items() <= printed[name].items()
    assert recipes == {row.recipe for row in ABLATIONS}
    assert {} == ablation_of("learning")


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


def test_the_page_on_the_tables_has_the_commands_of_each_row():
    """A line for every system that a row may be and one ablation; each recipe of the others."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    lines = {line.split()[1] for line in page.splitlines() if line.startswith("evaluate ")}
    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    wanted = {system.key for row in PUBLISHED for system in systems_of(row, known)}
    ours = {f"{name}_examples-qwen2.5-7b-faithful" for name in ("simple", "cot")}
    assert wanted | ours | {"decomposerl-no_necessity"} == lines
    assert "run benchmarks -c configs/paper_rows.yaml" in page
    section = page.split("## The ablations\n")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    named = {name for cell in rows for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert {one.name for one in RECIPES if one.paper} - {"paper_7b"} == named
    titles = {one.name: one.title for one in BENCHMARKS}
    text = " ".join(page.split())
    sizes = [f"{titles[name]} {one.rows:,}" for name, one in TEST_SET_SIZES.items()]
    assert [] == [size for size in sizes if size not in text]
