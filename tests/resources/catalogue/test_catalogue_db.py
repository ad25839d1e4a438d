"""The DuckDB catalogue: views over all that lies in a data folder, and how it is built."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
import duckdb
import polars as pl
import pytest

from assets.catalog import attrition_asset, catalog_asset
from decomposerl import schemas
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.errors import ConfigError, DecomposeRLError, SchemaError, SourceFileError
from decomposerl.reports.attrition import STAGES, attrition
from fixture_data import BENCHMARK, SIZES, SPLIT, World, build
from project import ROOT
from resources.catalogue.database import (
    ATTEMPTS,
    FILE,
    attempts,
    build_catalogue,
    engines_of,
    open_catalogue,
    read_stages,
    read_table,
)
from resources.store.parquet import DataFolder, ParquetTables
from resources.training.rollout_log import LogTable, read_log
from training_files import COUNTING, EXPERIMENT, write_policy

BROWSING = ROOT / "docs/how-to/query.md"
QUERIES = re.findall(r"```sql\n(.*?)```", BROWSING.read_text("utf-8"), flags=re.DOTALL)
MAY_BE_EMPTY = ("ad1c711c", "not_available", "FROM chat_replies")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = build(tmp_path_factory.mktemp("data"))
    build_catalogue(made.data)
    return made


@pytest.fixture
def copy(world: World, tmp_path: Path) -> World:
    """The same in a folder of its own."""
    return replace(world, data=Path(shutil.copytree(world.data, tmp_path / "data")))


def rows(data: Path, query: str) -> pl.DataFrame:
    with open_catalogue(data) as connection:
        found: pl.DataFrame = connection.sql(query).pl()
    return found


@contextmanager
def holding(data: Path, *, read_only: bool) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the catalogue open until its input closes."""
    lines = (
        "import duckdb, sys",
        f"c = duckdb.connect({FILE!r}, read_only={read_only})",
        "print(len(c.table('drops').fetchall()), flush=True)",
        "sys.stdin.readline()",
        "print(len(c.table('attrition').fetchall()), flush=True)",
        "c.close()",
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", "\n".join(lines)]
    with subprocess.Popen(command, cwd=data, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield process


def test_documented_queries_run(world: World):
    """Every SQL block of docs/how-to/query.md, view and table gives rows where there are some."""
    with open_catalogue(world.data) as connection:
        named = [f"FROM {name}" for (name,) in connection.sql("SHOW TABLES").fetchall()]
        empty = [one for one in (*QUERIES, *named) if not connection.sql(one).fetchall()]
    assert [] == [one for one in empty if not any(word in one for word in MAY_BE_EMPTY)]


def test_an_exact_match_is_no_decision_by_a_threshold(copy: World):
    """The query for near decisions leaves it out."""
    file = copy.data / "drops/decontaminated.parquet"
    exact = dict.fromkeys(("value", "threshold"), pl.lit(1.0)) | {"reason": pl.lit("exact_match")}
    pl.read_parquet(file).with_columns(**exact).write_parquet(file)
    build_catalogue(copy.data)
    (query,) = (one for one in QUERIES if "abs(d.value / d.threshold - 1)" in one)
    with open_catalogue(copy.data) as connection:
        reasons = {row[0] for row in connection.sql(query).fetchall()}
    assert "too_easy" in reasons
    assert "exact_match" not in reasons


def test_the_page_finds_the_text_of_a_claim_dropped_while_reading(tmp_path: Path):
    """The same claim has the same id where its label counts as Refuted."""
    dropped = {"claim_id": ["a", "b"], "reason": ["middle_class", "no_verdict"]}
    read = {"claim_id": ["a", "c"], "claim": ["The bridge is long.", "Another."]}
    name = "claims/bridge_notes.parquet"
    for path, columns in ((f"data/drops/{name}", dropped), (f"all-labels/{name}", read)):
        (tmp_path / path).parent.mkdir(parents=True)
        pl.DataFrame(columns).write_parquet(tmp_path / path)
    code = re.findall(r"```python\n(.*?)```", BROWSING.read_text("utf-8"), re.DOTALL)[-1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "The bridge is long." in done.stdout
    assert "no_verdict" not in done.stdout


def test_an_empty_folder_has_the_views_of_a_full_one(world: World, tmp_path: Path):
    """Before anything is materialized the same queries run; columns and types are the same."""
    build_catalogue(tmp_path)
    with open_catalogue(tmp_path) as connection:
        for query in QUERIES:
            connection.sql(query).fetchall()
        assert 0 == len(connection.table("claims").fetchall())
    columns = "table_name, ordinal_position, column_name, data_type"
    query = f"SELECT {columns} FROM information_schema.columns ORDER BY ALL"  # noqa: S608 - ours
    assert rows(tmp_path, query).equals(rows(world.data, query))


def test_views_cover_every_file(world: World):
    """All sources and benchmarks; in ``journey`` each claim has one end, told once."""
    with open_catalogue(world.data) as connection:

        def count(name: str) -> int:
            return len(connection.table(name).fetchall())

        assert sum(SIZES.values()) == count("claims")
        assert world.benchmark.height == count("benchmarks")
        assert len(SIZES) + 1 == count("rejects")
        sides = connection.sql("SELECT DISTINCT read_for FROM rejects ORDER BY 1").fetchall()
        assert [("benchmark",), ("source",)] == sides
        stages = connection.sql("SELECT DISTINCT stage FROM drops WHERE stage NOT LIKE '%/%'")
        assert len(STAGES) - 2 == len(stages.fetchall())
    ends = rows(
        world.data,
        "SELECT claim_id, count(*) FILTER (outcome = 'dropped' OR stage = 'training_claims') AS n "
        "FROM journey GROUP BY claim_id",
    )["n"]
    assert {1} == set(ends)
    held_out = world.benchmark.filter(source=SPLIT).height
    assert sum(SIZES.values()) + len(SIZES) + held_out == len(ends)
    unique = "SELECT count(*) = count(DISTINCT ({})), count(*) > 0 FROM {}"
    with open_catalogue(world.data) as connection:
        for key, view in (("claim_id", "drops"), ("claim_id, stage", "journey")):
            assert [(True, True)] == connection.sql(unique.format(key, view)).fetchall()
        shared = connection.sql(
            "SELECT stage, reason, count(*) FROM benchmark_drops "
            "WHERE claim_id IN (SELECT claim_id FROM claims) GROUP BY ALL"
        ).fetchall()
    told = rows(world.data, f"FROM explain('{world.claims['claim_id'][-1]}')")
    assert not told["stage"].str.starts_with("benchmark/").any()
    assert [(f"benchmark/{SPLIT}", "training_document", SIZES[SPLIT])] == shared


def test_tables_agree_with_the_reports(world: World):
    """Attrition and run records as counted; ``explain`` ends with the drop and its match."""
    assert world.attrition.equals(attrition(read_stages(world.data)))
    assert world.attrition.equals(read_table(world.data, "attrition"))
    wide = read_table(world.data, "attrition_wide")
    assert 36841 == wide.filter(source="ex_fever")["paper_raw"][0]
    assert 155_506 == wide["paper_raw"][-1]
    assert ["verifier=lexical"] == engines_of(world.data)
    runs, records = read_table(world.data, "stage_runs"), list(world.data.glob("stage_runs/*.json"))
    assert len(records) == runs.height
    assert set(json.loads(records[0].read_text("utf-8"))) == set(runs.columns)
    assert runs.filter(pl.col("stage") == "claims/hover").height == 1
    told = rows(world.data, f"FROM explain('{world.dropped('semantic_match')[:8]}')")
    assert list(STAGES[: STAGES.index("decontaminated") + 1]) == told["stage"].to_list()
    matched = {"matched_source": f"benchmark/{BENCHMARK}"}
    matched["matched_claim"] = world.benchmark["claim"][0]
    assert matched == told.select(*matched).row(-1, named=True)


@pytest.mark.parametrize(
    ("rewritten", "engines"),
    [
        ("drops/claims/hover.parquet", ["cosine", "join", "lexical", "rules", "words_x1.3"]),
        ("drops/**/*.parquet", []),
    ],
)
def test_drops_of_an_earlier_version_read_as_without_engine(
    copy: World, rewritten: str, engines: list[str]
):
    """Where one or all files of drops know no engine the counts are the same."""
    for path in copy.data.glob(rewritten):
        pl.read_parquet(path).drop("engine").write_parquet(path)
    materialize(copy.data, attrition_asset([s for s in SOURCES if s.name in SIZES]))
    build_catalogue(copy.data)
    assert copy.attrition.equals(pl.read_parquet(copy.data / "attrition.parquet"))
    assert copy.attrition.equals(read_table(copy.data, "attrition"))
    query = "SELECT DISTINCT engine FROM drops WHERE engine NOT NULL ORDER BY 1"
    assert engines == rows(copy.data, query)["engine"].to_list()


def materialize(data: Path, *assets: dg.AssetsDefinition) -> None:
    tables, folder = ParquetTables(base_dir=str(data)), DataFolder(base_dir=str(data))
    dg.materialize(assets, resources={"io_manager": tables, "data_folder": folder})


def test_a_removed_corpus_counts_no_more(copy: World):
    """Files that a removed source or benchmark left behind are in no view and no table."""
    data = copy.data
    kept = [s for s in SOURCES if s.name in {"hover", "scitab"}]
    tests = [b for b in BENCHMARKS if b.name == BENCHMARK]
    materialize(data, attrition_asset(kept), catalog_asset(kept, tests))
    assert pl.read_parquet(data / "attrition.parquet").equals(read_table(data, "attrition"))
    runs = [s for s in read_table(data, "stage_runs")["stage"] if "/" in s]
    assert [f"benchmark/{BENCHMARK}", "claims/hover", "claims/scitab"] == sorted(runs)
    with open_catalogue(data) as connection:

        def names(view: str, column: str = "source") -> set[str]:
            return set(connection.table(view).pl()[column])

        assert {"hover", "scitab"} == names("claims")
        assert {BENCHMARK} == names("benchmarks")
        assert {"hover", "scitab", BENCHMARK} == names("rejects")
        assert set() == names("benchmark_drops")
        loading = {stage for stage in names("drops", "stage") if "/" in stage}
        assert {"claims/hover", "claims/scitab"} == loading


def test_paths_are_relative(world: World, tmp_path: Path):
    """The folder can be moved: the file works from inside its new place."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(world.data, moved)
    connect = f"duckdb.connect({FILE!r}, read_only=True)"
    code = f"import duckdb; print(len({connect}.table('claims').fetchall()))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=moved, capture_output=True, text=True, check=True)
    assert str(sum(SIZES.values())) == done.stdout.strip()
    assert str(world.data).encode() not in (moved / FILE).read_bytes()


@pytest.mark.parametrize("read_only", [True, False])
def test_an_open_session_neither_blocks_nor_is_disturbed(copy: World, *, read_only: bool):
    """It reads on what it opened beside a rebuild; a writer is told of by the way to read."""
    file = copy.data / FILE
    before = file.stat().st_ino
    with holding(copy.data, read_only=read_only) as process:
        assert int(process.stdout.readline()) > 0
        if not read_only:
            with pytest.raises(DecomposeRLError, match="-readonly"):
                open_catalogue(copy.data)
        started = time.monotonic()
        build_catalogue(copy.data)
        assert time.monotonic() - started < 5
        assert before != file.stat().st_ino
        assert copy.attrition.equals(read_table(copy.data, "attrition"))
        process.stdin.write("\n")
        process.stdin.flush()
        assert copy.attrition.height == int(process.stdout.readline())
    assert 0 == process.returncode
    assert copy.attrition.equals(read_table(copy.data, "attrition"))


def test_a_broken_file_leaves_the_live_catalogue(copy: World):
    """Named, nothing half-built, old leftovers removed; what others wrote reaches no new file."""
    data = copy.data
    old, young = (data / f".{FILE}.{name}.building" for name in ("old", "young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    before = build_catalogue(data).read_bytes()
    assert (False, True) == (old.exists(), young.exists())
    young.unlink()
    for name in ("rule_filtered.parquet", "stage_runs/deduplicated.json"):
        whole = (data / name).read_bytes()
        (data / name).write_bytes(whole[:9])
        with pytest.raises((SchemaError, SourceFileError), match=Path(name).name):
            build_catalogue(data)
        (data / name).write_bytes(whole)
    assert before == (data / FILE).read_bytes()
    assert [] == list(data.glob(f".{FILE}*"))
    writer = duckdb.connect(copy.data / FILE)
    writer.execute("PRAGMA disable_checkpoint_on_shutdown")
    writer.execute("CREATE TABLE mine AS SELECT 1 AS x")
    build_catalogue(copy.data)
    writer.close()
    names = set(rows(copy.data, "SHOW TABLES")["name"])
    assert "mine" not in names
    assert "attrition" in names


def test_a_folder_that_has_no_catalogue_is_refused(tmp_path: Path):
    """A comma or a pattern character in its path; and what was never built names the command."""
    with pytest.raises(ConfigError, match="','"):
        build_catalogue(tmp_path / "a,b")
    with pytest.raises(DecomposeRLError, match="decomposerl run catalog --upstream"):
        open_catalogue(tmp_path)


VIEWS: dict[str, LogTable] = {
    "rollouts": "rollouts",
    "training_rewards": "rewards",
    "training_judge_calls": "judge_calls",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A data folder may itself stand in a folder of that name.
    folder = tmp_path_factory.mktemp("training") / "policy/data"
    write_policy(folder)
    build_catalogue(folder)
    return folder


@pytest.mark.parametrize("view", VIEWS)
def test_a_step_is_shown_as_the_attempt_that_counts_sampled_it(trained: Path, view: str):
    """What a later attempt replaced is not shown, also where that one never came so far."""
    shown = rows(trained, f"FROM {view} WHERE split = 'train'")
    assert COUNTING == dict(shown.select("step", "attempt").iter_rows())
    assert {EXPERIMENT} == set(shown["experiment"])


@pytest.mark.parametrize("view", VIEWS)
def test_the_views_show_what_the_trainer_itself_reads_back(trained: Path, view: str):
    """Row by row the view is the log as the trainer counts it, for both splits."""
    for split in ("train", "held_out_sampled"):
        log = read_log(trained / "policy" / EXPERIMENT, VIEWS[view], split)
        shown = rows(trained, f"FROM {view} WHERE split = '{split}'").select(log.columns)
        order = ["step", "group", "rollout", *(["reward"] if "reward" in log.columns else [])]
        assert log.height
        assert log.sort(order).equals(shown.sort(order))


def test_attempts_are_a_table(trained: Path):
    """Each start with the step it went on from; what was sampled before that step holds."""
    frame = ATTEMPTS.conform(attempts(trained))
    assert [0, 5, 5] == frame["resumed_from"].to_list()
    assert frame.equals(rows(trained, "FROM training_attempts"))
    shown = rows(trained, "SELECT DISTINCT step FROM rollouts WHERE split = 'held_out_sampled'")
    assert {0, 5} == set(shown["step"])


def test_views_have_their_columns_before_anything_is_trained(trained: Path, tmp_path: Path):
    """As the tables declare them; views are of the files at the time of building."""
    build_catalogue(tmp_path)
    for view, table in (("curves", schemas.CURVES), ("rollouts", schemas.ROLLOUTS)):
        empty, full = (rows(folder, f"FROM {view}") for folder in (tmp_path, trained))
        assert 0 == empty.height < full.height
        assert empty.schema == full.schema
        own = {name: kind for name, kind in full.schema.items() if name in table.schema}
        assert dict(table.schema) == own
    build_catalogue(tmp_path)
    write_policy(tmp_path)
    assert 0 == rows(tmp_path, "FROM curves").height
    build_catalogue(tmp_path)
    assert rows(trained, "FROM curves").equals(rows(tmp_path, "FROM curves"))
    with open_catalogue(tmp_path) as connection, pytest.raises(duckdb.Error):
        connection.execute("DELETE FROM training_attempts")
