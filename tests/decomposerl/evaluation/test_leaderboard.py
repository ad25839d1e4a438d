"""The leaderboard: the paper's layout, own figures beside the paper's, nothing filled in."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.evaluation.leaderboard import (
    RunCoverage,
    leaderboard,
    mean_scores,
    wide_leaderboard,
)
from decomposerl.evaluation.published import COLUMNS, IN_DOMAIN, MEANS, PUBLISHED
from decomposerl.evaluation.systems import system_named, systems
from leaderboard_parts import ONE, SYSTEMS, method, score, scores
from strategies import LAW

OURS = "simple-qwen2.5-7b-faithful"


def board(
    *rows: dict[str, object], benchmarks: tuple[str, ...] = (), runs: RunCoverage | None = None
):
    return leaderboard(scores(rows), SYSTEMS, benchmarks, runs or RunCoverage())


def cell(frame: pl.DataFrame, system: str, benchmark: str, table: int) -> dict[str, object]:
    return frame.row(
        by_predicate=(pl.col("system") == system)
        & (pl.col("benchmark") == benchmark)
        & (pl.col("table") == table),
        named=True,
    )


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
        found = cell(shown, OURS, "fever", table)
        assert (70.0, 68.0, 72.0, 72.7) == tuple(
            found[n] for n in ("score", "low", "high", "paper")
        )
        assert ("chat:qwen", "scored", 100) == tuple(found[n] for n in ("engine", "status", "rows"))
        assert cell(shown, OURS, "hover", table)["score"] is None


def test_systems_that_are_no_row_of_the_paper_follow_without_its_figures():
    """Rules and tiny policies stand apart, with their engine and nothing of the paper beside."""
    shown = board(
        score("simple-rules-faithful", "fever", 61.0), score("decomposerl-tiny", "x", 5.0)
    )
    further = shown.filter(table=0)
    assert {"simple-rules-faithful", "decomposerl-tiny"} == set(further["system"])
    assert further["paper"].null_count() == further.height
    assert ["rules"] == further["engine"].drop_nulls().unique().to_list()


def test_short_runs_and_missing_files_are_said():
    """A limited cell and every mean over it say so; without files a cell is not available."""
    runs = RunCoverage(limited={(OURS, "fever")}, not_available={(OURS, "wice")})
    shown = board(
        score(OURS, "fever", 70.0, rows=5), score(OURS, "mean_in_domain", 70.0), runs=runs
    )
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
    shown = wide_leaderboard(
        board(score("decomposerl-tiny", "toy", 55.0, engine="b"), score("decomposerl-tiny", "fever",
              50.0, engine="a"), benchmarks=("fever", "toy"))
    )  # fmt: skip
    cells = [
        f"{name}{part}" for name in (*COLUMNS, "toy") for part in ("", "_low", "_high", "_paper")
    ]
    assert cells == shown.columns[11:]
    assert "seeds" == shown.columns[8]
    last = shown.row(-1, named=True)
    assert (0, "a; b", 55.0, 53.0, None) == tuple(
        last[name] for name in ("table", "engine", "toy", "toy_low", "toy_paper")
    )
    assert [1, 2, 0] == shown["table"].unique(maintain_order=True).to_list()
    assert shown.filter(table=1)["engine"].null_count() == shown.filter(table=1).height


def test_an_engine_is_named_once_also_where_a_mean_is_over_two():
    """The mean's row names both; the wide form names each by itself."""
    rows = [
        score("decomposerl-tiny", name, 50.0, engine="ab"[index % 2])
        for index, name in enumerate(IN_DOMAIN)
    ]
    mean = mean_scores(scores(rows), MEANS).to_dicts()
    assert ["a / b"] == [row["engine"] for row in mean]
    assert "a; b" == wide_leaderboard(board(*rows, *mean)).row(-1, named=True)["engine"]


MAIN, FIRST, MEAN = (f"decomposerl-paper_7b{end}" for end in ("", "-seed_1", "-mean"))


def seeds_of(shown: pl.DataFrame, table: int, recipe: str) -> list[tuple[object, ...]]:
    """System, title and seeds of a recipe's rows in a table, in their places."""
    rows = shown.filter(pl.col("system").str.starts_with(f"decomposerl-{recipe}"), table=table)
    return rows.filter(benchmark="fever").sort("place").select("system", "title", "seeds").rows()


def test_seeds_are_rows_with_their_mean_behind_them():
    """In both tables of the paper, beside its figure; the spread is from least to greatest."""
    shown = board(
        score(MAIN, "fever", 70.0, engine="a", rows=90),
        score(FIRST, "fever", 73.0, engine="b"),
        score("decomposerl-paper_7b-seed_2", "fever", 76.0, engine="a"),
        score("decomposerl-paper_7b-seed_2", "hover", 50.0),
    )
    for table, title in ((1, "DecomposeRL (s = 1.0)"), (2, "DecomposeRL @ 7B")):
        assert [
            (MAIN, title, 1),
            (FIRST, f"{title}, seed 1", 1),
            ("decomposerl-paper_7b-seed_2", f"{title}, seed 2", 1),
            (MEAN, f"{title}, mean of 3 seeds", 3),
        ] == seeds_of(shown, table, "paper_7b")
        mean = cell(shown, MEAN, "fever", table)
        assert (73.0, 70.0, 76.0, 90, "a / b", "scored", 74.1) == tuple(
            mean[n] for n in ("score", "low", "high", "rows", "engine", "status", "paper")
        )
        assert (73.0, 71.0, 75.0) == tuple(
            cell(shown, FIRST, "fever", table)[n] for n in ("score", "low", "high")
        )
        # A mean over fewer seeds than its neighbours would be compared with them.
        assert ("not_run", None) == tuple(
            cell(shown, MEAN, "hover", table)[n] for n in ("status", "score")
        )


def test_one_seed_alone_is_as_without_seeds():
    """No mean of one run; where only a further seed ran, the recipe's own row stays empty."""
    one = board(score(MAIN, "fever", 70.0))
    assert [(MAIN, "DecomposeRL @ 7B", 1)] == seeds_of(one, 2, "paper_7b")
    assert {1} == set(one["seeds"])
    further = board(score(FIRST, "fever", 70.0))
    assert [MAIN, FIRST] == [row[0] for row in seeds_of(further, 1, "paper_7b")]
    assert cell(further, MAIN, "fever", 1)["score"] is None


def test_seeds_of_a_policy_that_is_no_row_of_the_paper():
    """They follow each other among the further systems; none of a recipe that did not run."""
    names = [f"decomposerl-tiny{end}" for end in ("", "-seed_1", "-seed_2")]
    shown = board(*(score(name, "fever", 50.0 + i) for i, name in enumerate(names[1:])))
    assert [
        (names[1], "DecomposeRL @ tiny, seed 1", 1),
        (names[2], "DecomposeRL @ tiny, seed 2", 1),
        ("decomposerl-tiny-mean", "DecomposeRL @ tiny, mean of 2 seeds", 2),
    ] == seeds_of(shown, 0, "tiny")
    assert shown.filter(table=0)["paper"].null_count() == shown.filter(table=0).height
    all_three = board(*(score(name, "fever", 50.0) for name in names))
    assert names == [row[0] for row in seeds_of(all_three, 0, "tiny")][:3]


def test_a_short_run_of_one_seed_shows_in_the_mean():
    """Its status is limited, as that of every mean over a limited cell."""
    rows = (score(MAIN, "fever", 70.0), score(FIRST, "fever", 72.0))
    shown = board(*rows, runs=RunCoverage(limited={(FIRST, "fever")}))
    found = {system: cell(shown, system, "fever", 1)["status"] for system in (MAIN, FIRST, MEAN)}
    assert {MAIN: "scored", FIRST: "limited", MEAN: "limited"} == found
    lacking = board(
        rows[0], score(FIRST, "hover", 1.0), runs=RunCoverage(not_available={(FIRST, "fever")})
    )
    assert "not_available" == cell(lacking, MEAN, "fever", 1)["status"]


@LAW
@given(st.lists(st.floats(0, 100), min_size=2, max_size=3))
def test_the_mean_lies_between_least_and_greatest(values: list[float]):
    """Whatever the scores, and in whatever order the runs were scored."""
    keys = [f"decomposerl-tiny{end}" for end in ("", "-seed_1", "-seed_2")]
    rows = [score(key, "fever", value) for key, value in zip(keys, values, strict=False)]
    mean = cell(board(*rows), "decomposerl-tiny-mean", "fever", 0)
    assert (min(values), max(values)) == (mean["low"], mean["high"])
    assert sum(values) / len(values) == pytest.approx(mean["score"])
    assert mean == cell(board(*reversed(rows)), "decomposerl-tiny-mean", "fever", 0)


def test_keys_keep_models_and_protocols_apart():
    """A 3B run and a 7B run, two protocols, a verifier and a policy have keys of their own."""
    keys = [system.key for system in SYSTEMS]
    assert len(keys) == len(set(keys))
    assert {"simple-qwen2.5-3b-faithful", "self_ask-rules-single_call", "minicheck-7b"} <= set(keys)
    assert {"decomposerl-paper_7b", "minicheck-lexical"} <= set(keys)


def test_protocols_that_are_one_procedure_are_one_system():
    """Simple asks once either way: a second partition would only ask the same again."""
    of_simple = {system.protocol for system in SYSTEMS if system.method == "simple"}
    of_self_ask = {system.protocol for system in SYSTEMS if system.method == "self_ask"}
    assert ({"faithful"}, {"faithful", "single_call"}) == (of_simple, of_self_ask)


def test_a_system_is_found_by_its_key_or_refused_with_those_near_it():
    """The message names the systems of the same method."""
    assert "tiny" == system_named("decomposerl-tiny", SYSTEMS).model.key
    assert "tiny" == system_named("decomposerl-tiny-seed_1", SYSTEMS).model.recipe
    known = "there are decomposerl-paper_7b, decomposerl-tiny, and each with a further seed$"
    with pytest.raises(ConfigError, match=known):
        system_named("decomposerl-huge", SYSTEMS)
    with pytest.raises(ConfigError, match="there are decomposerl, minicheck, self_ask, simple"):
        system_named("simpel", SYSTEMS)


def test_two_systems_of_one_key_are_refused():
    """A second method of a name would overwrite the first one's predictions."""
    with pytest.raises(ConfigError, match="two systems are named one-"):
        systems([method("one", ONE), method("one", ONE)], [])
