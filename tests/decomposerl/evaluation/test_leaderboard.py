"""The leaderboard: the paper's layout, own figures beside the paper's, nothing filled in."""

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.evaluation.leaderboard import RunCoverage, leaderboard, wide_leaderboard
from decomposerl.evaluation.published import COLUMNS, IN_DOMAIN, MEANS, PUBLISHED
from decomposerl.evaluation.scores import mean_scores
from decomposerl.evaluation.systems import system_named, systems
from leaderboard_parts import ONE, SYSTEMS, method, score, scores

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
    assert cells == shown.columns[10:]
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
    with pytest.raises(ConfigError, match="there are decomposerl-paper_7b, decomposerl-tiny"):
        system_named("decomposerl-huge", SYSTEMS)
    with pytest.raises(ConfigError, match="there are decomposerl, minicheck, self_ask, simple"):
        system_named("simpel", SYSTEMS)


def test_two_systems_of_one_key_are_refused():
    """A second method of a name would overwrite the first one's predictions."""
    with pytest.raises(ConfigError, match="two systems are named one-"):
        systems([method("one", ONE), method("one", ONE)], [])
