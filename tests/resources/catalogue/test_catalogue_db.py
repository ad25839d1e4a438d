import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import duckdb
import polars as pl
import pytest

from assets.catalog import attrition_asset, catalog_asset
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.errors import ConfigError, DecomposeRLError, SchemaError
from decomposerl.evaluation.scored_claims import THREE_WAY_SET
from decomposerl.reports.attrition import STAGES, attrition
from fixture_data import BENCHMARK, SIZES, SPLIT, World, build
from project import ROOT
from resources.catalogue.database import (
    FILE,
    build_catalogue,
    engines_of,
    open_catalogue,
    read_stages,
    read_table,
)
from resources.store.parquet import DataFolder, ParquetTables, write_parquet

BROWSING = ROOT / "docs/how-to/query.md"
MORE = Path(__file__).with_name("more_queries.sql").read_text("utf-8").partition("\n\n")[2]
QUERIES = re.findall(r"```sql\n(.*?)```", BROWSING.read_text("utf-8"), flags=re.DOTALL)
QUERIES += MORE.strip().split("\n\n")
MAY_BE_EMPTY = ("ad1c711c", "not_available", "rows_in !=")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = build(tmp_path_factory.mktemp("data"))
    build_catalogue(made.data)
    return made


@contextmanager
def holding(data: Path, *, read_only: bool) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the catalogue open until its input closes."""
    code = "\n".join(
        [
            "import duckdb, sys",
            f"c = duckdb.connect({FILE!r}, read_only={read_only})",
            "print(len(c.table('drops').fetchall()), flush=True)",
            "sys.stdin.readline()",
            "print(len(c.table('attrition').fetchall()), flush=True)",
            "c.close()",
        ]
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=data, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.mark.parametrize("query", QUERIES, ids=[query.split("\n")[0][:40] for query in QUERIES])
def test_documented_queries_run(world: World, query: str):
    """Every SQL block of docs/how-to/query.md, and some more, gives rows where there are some."""
    with open_catalogue(world.data) as connection:
        rows = connection.sql(query).fetchall()
    assert rows or any(word in query for word in MAY_BE_EMPTY)


def test_a_claim_of_three_labels_is_one_test_claim(tmp_path: Path):
    """The set of three labels repeats claims of others: queries that join by id see each once."""
    world = build(tmp_path)
    third = world.benchmark.with_columns(label_rule=pl.lit("keep_middle"))
    write_parquet(third, world.data / f"benchmark/{THREE_WAY_SET}.parquet")
    for corpora in ((), (SOURCES, BENCHMARKS)):
        build_catalogue(world.data, *corpora)
        with open_catalogue(world.data) as connection:
            (row,) = connection.sql(
                "SELECT count(*), count(DISTINCT claim_id) FROM benchmarks"
            ).fetchall()
        assert (world.benchmark.height, world.benchmark.height) == row


def test_the_claims_nearest_to_a_threshold_are_not_exact_matches(tmp_path: Path):
    """An exact match is no decision by a threshold, so the page's query leaves it out."""
    made = build(tmp_path)
    file = made.data / "drops/decontaminated.parquet"
    exact = dict.fromkeys(("value", "threshold"), pl.lit(1.0)) | {"reason": pl.lit("exact_match")}
    pl.read_parquet(file).with_columns(**exact).write_parquet(file)
    build_catalogue(made.data)
    (query,) = (one for one in QUERIES if "abs(d.value / d.threshold - 1)" in one)
    with open_catalogue(made.data) as connection:
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


def test_documented_queries_run_on_an_empty_folder(tmp_path: Path):
    """Before anything is materialized the same queries run and give no claims."""
    build_catalogue(tmp_path)
    with open_catalogue(tmp_path) as connection:
        for query in QUERIES:
            connection.sql(query).fetchall()
        assert 0 == len(connection.table("claims").fetchall())


def test_empty_views_have_the_types_of_full_ones(world: World, tmp_path: Path):
    """A view or table has the same columns and types before and after the first run."""
    build_catalogue(tmp_path)

    def described(data: Path) -> list[tuple[str, ...]]:
        with open_catalogue(data) as connection:
            return connection.sql(
                "SELECT table_name, column_name, data_type FROM information_schema.columns "
                "ORDER BY table_name, ordinal_position"
            ).fetchall()

    assert described(tmp_path) == described(world.data)


def test_views_cover_every_file(world: World):
    """Union views hold all sources, all benchmarks, and drops and rejects of both."""
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


def test_tables_agree_with_the_reports(world: World):
    """The attrition in the file is the one counted from the frames."""
    assert world.attrition.equals(attrition(read_stages(world.data)))
    assert world.attrition.equals(read_table(world.data, "attrition"))
    wide = read_table(world.data, "attrition_wide")
    assert 36841 == wide.filter(source="ex_fever")["paper_raw"][0]
    assert 155_506 == wide["paper_raw"][-1]
    assert ["verifier=lexical"] == engines_of(world.data)


@pytest.mark.parametrize(
    ("rewritten", "engines"),
    [
        ("drops/claims/hover.parquet", ["cosine", "join", "lexical", "rules", "words_x1.3"]),
        ("drops/**/*.parquet", []),
    ],
)
def test_drops_of_an_earlier_version_read_as_without_engine(
    tmp_path: Path, rewritten: str, engines: list[str]
):
    """Where one or all files of drops know no engine the counts are the same."""
    made = build(tmp_path)
    for path in tmp_path.glob(rewritten):
        pl.read_parquet(path).drop("engine").write_parquet(path)
    dg.materialize(
        [attrition_asset([s for s in SOURCES if s.name in SIZES])],
        resources={
            "io_manager": ParquetTables(base_dir=str(tmp_path)),
            "data_folder": DataFolder(base_dir=str(tmp_path)),
        },
    )
    build_catalogue(tmp_path)
    assert made.attrition.equals(pl.read_parquet(tmp_path / "attrition.parquet"))
    assert made.attrition.equals(read_table(tmp_path, "attrition"))
    with open_catalogue(tmp_path) as connection:
        found = connection.sql("SELECT DISTINCT engine FROM drops WHERE engine NOT NULL ORDER BY 1")
        assert engines == [engine for (engine,) in found.fetchall()]


def test_every_claim_has_one_end(world: World):
    """In ``journey`` each claim is dropped once or reaches the training set, never both."""
    with open_catalogue(world.data) as connection:
        ends = connection.sql(
            "SELECT claim_id, count(*) FILTER (outcome = 'dropped' OR stage = 'training_claims') "
            "FROM journey GROUP BY claim_id"
        ).fetchall()
    assert {1} == {n for _, n in ends}
    held_out = world.benchmark.filter(source=SPLIT).height
    assert sum(SIZES.values()) + len(SIZES) + held_out == len(ends)


def test_a_split_corpus_tells_each_claim_once(world: World):
    """What a benchmark leaves to training is no drop: one row a claim, and a stage in journey."""
    unique = "SELECT count(*) = count(DISTINCT ({})), count(*) > 0 FROM {}"
    with open_catalogue(world.data) as connection:
        for key, view in (("claim_id", "drops"), ("claim_id, stage", "journey")):
            assert [(True, True)] == connection.sql(unique.format(key, view)).fetchall()
        shared = connection.sql(
            "SELECT stage, reason, count(*) FROM benchmark_drops "
            "WHERE claim_id IN (SELECT claim_id FROM claims) GROUP BY ALL"
        ).fetchall()
        rows = connection.sql(f"FROM explain('{world.claims['claim_id'][-1]}')").pl()
    assert not rows["stage"].str.starts_with("benchmark/").any()
    assert [(f"benchmark/{SPLIT}", "training_document", SIZES[SPLIT])] == shared


def test_a_removed_corpus_counts_no_more(tmp_path: Path):
    """Files that a removed source or benchmark left behind are in no view and no table."""
    build(tmp_path)
    kept = [s for s in SOURCES if s.name in {"hover", "scitab"}]
    tests = [b for b in BENCHMARKS if b.name == BENCHMARK]
    dg.materialize(
        [attrition_asset(kept), catalog_asset(kept, tests)],
        resources={
            "io_manager": ParquetTables(base_dir=str(tmp_path)),
            "data_folder": DataFolder(base_dir=str(tmp_path)),
        },
    )
    assert pl.read_parquet(tmp_path / "attrition.parquet").equals(read_table(tmp_path, "attrition"))
    runs = [s for s in read_table(tmp_path, "stage_runs")["stage"] if "/" in s]
    assert [f"benchmark/{BENCHMARK}", "claims/hover", "claims/scitab"] == sorted(runs)
    with open_catalogue(tmp_path) as connection:

        def names(view: str, column: str = "source") -> set[str]:
            return set(connection.table(view).pl()[column])

        assert {"hover", "scitab"} == names("claims")
        assert {BENCHMARK} == names("benchmarks")
        assert {"hover", "scitab", BENCHMARK} == names("rejects")
        assert set() == names("benchmark_drops")
        loading = {stage for stage in names("drops", "stage") if "/" in stage}
        assert {"claims/hover", "claims/scitab"} == loading


def test_explain_macro_shows_the_match(world: World):
    """``explain`` takes a prefix and ends with the drop and the matched claim's text."""
    leaked = world.dropped("semantic_match")
    with open_catalogue(world.data) as connection:
        rows = connection.sql(f"FROM explain('{leaked[:8]}')").pl()
    assert list(STAGES[: STAGES.index("decontaminated") + 1]) == rows["stage"].to_list()
    assert (f"benchmark/{BENCHMARK}", world.benchmark["claim"][0]) == (
        rows["matched_source"][-1],
        rows["matched_claim"][-1],
    )


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
def test_an_open_session_neither_blocks_nor_is_disturbed(tmp_path: Path, *, read_only: bool):
    """A rebuild succeeds beside an open session, which goes on reading what it opened."""
    made = build(tmp_path)
    build_catalogue(tmp_path)
    before = (tmp_path / FILE).stat().st_ino
    with holding(tmp_path, read_only=read_only) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        started = time.monotonic()
        build_catalogue(tmp_path)
        assert time.monotonic() - started < 5
        assert before != (tmp_path / FILE).stat().st_ino
        assert made.attrition.equals(read_table(tmp_path, "attrition"))
        process.stdin.write("\n")
        process.stdin.flush()
        assert made.attrition.height == int(process.stdout.readline())
    assert 0 == process.returncode
    assert made.attrition.equals(read_table(tmp_path, "attrition"))


def test_another_users_log_is_not_replayed(tmp_path: Path):
    """What someone wrote into the old file never reaches or breaks the new one."""
    build(tmp_path)
    path = build_catalogue(tmp_path)
    writer = duckdb.connect(path)
    writer.execute("PRAGMA disable_checkpoint_on_shutdown")
    writer.execute("CREATE TABLE mine AS SELECT 1 AS x")
    build_catalogue(tmp_path)
    writer.close()
    with open_catalogue(tmp_path) as connection:
        names = {name for (name,) in connection.sql("SHOW TABLES").fetchall()}
    assert "mine" not in names
    assert "attrition" in names


def test_a_broken_file_leaves_the_live_catalogue(tmp_path: Path):
    """A build that fails says so, keeps the old file and leaves nothing half-built."""
    build(tmp_path)
    before = build_catalogue(tmp_path).read_bytes()
    (tmp_path / "rule_filtered.parquet").write_bytes(b"PAR1 cut in half")
    with pytest.raises(SchemaError, match="cannot be built"):
        build_catalogue(tmp_path)
    assert before == (tmp_path / FILE).read_bytes()
    assert [] == list(tmp_path.glob(f".{FILE}*"))


def test_a_broken_run_record_is_named(tmp_path: Path):
    """A run record that is no JSON is an error that names the file."""
    build(tmp_path)
    (tmp_path / "stage_runs" / "deduplicated.json").write_text("{", "utf-8")
    with pytest.raises(SchemaError, match=r"deduplicated\.json"):
        build_catalogue(tmp_path)


def test_abandoned_builds_are_cleared(tmp_path: Path):
    """What a killed build left is removed once it is an hour old, not before."""
    import os

    old, young = (tmp_path / f".{FILE}.{name}.building" for name in ("old", "young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    build_catalogue(tmp_path)
    assert (False, True) == (old.exists(), young.exists())


def test_a_folder_that_duckdb_cannot_name(tmp_path: Path):
    """A comma or a pattern character in the path is refused with the reason."""
    with pytest.raises(ConfigError, match="DuckDB cannot take"):
        build_catalogue(tmp_path / "a,b")


def test_no_catalogue_says_how_to_build_it(tmp_path: Path):
    """Opening what was never built names the command."""
    with pytest.raises(DecomposeRLError, match="decomposerl run catalog --upstream"):
        open_catalogue(tmp_path)


def test_a_catalogue_open_for_writing_is_explained(tmp_path: Path):
    """While another process writes, the error tells how to open it for reading."""
    build(tmp_path)
    build_catalogue(tmp_path)
    with holding(tmp_path, read_only=False) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(DecomposeRLError, match="-readonly"):
            open_catalogue(tmp_path)
        process.stdin.write("\n")


def test_stage_runs_have_their_columns(world: World):
    """Every run record is a row of ``stage_runs``, with the columns of its table."""
    runs = read_table(world.data, "stage_runs")
    records = list(world.data.glob("stage_runs/*.json"))
    assert len(records) == runs.height
    assert set(json.loads(records[0].read_text("utf-8"))) == set(runs.columns)
    assert runs.filter(pl.col("stage") == "claims/hover").height == 1
