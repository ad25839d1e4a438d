"""The whole graph on the bundled sample: the law, the tables, a second run, the UI's data."""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.definitions import defs
from decomposerl import schemas
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.evaluation.published import TEST_SET_SIZES
from decomposerl.funnel.catalogue import STAGES
from decomposerl.funnel.step import conservation_errors
from documents import shell_lines
from page_commands import blocks, project_in
from project import ROOT
from resources.store.integrity import file_sha256
from resources.store.parquet import DataFolder
from shared_runs import DemoRun
from studies.reference.files import unlisted

COUNTED = [stage for stage in STAGES if stage != "diversity_selected"]
"""Stages that account for all of their rows; the selection leaves that to the next one."""
SHOWN = {"drops by reason", "by source", "label balance", "sample", "settings", "guard"}


@pytest.fixture(scope="module")
def folder(demo: DemoRun) -> DataFolder:
    return demo.data


@pytest.fixture(scope="module")
def materialized(demo: DemoRun) -> dict[dg.AssetKey, dg.AssetMaterialization]:
    """What the run shows of each asset."""
    made = demo.events(dg.DagsterEventType.ASSET_MATERIALIZATION)
    return {one.materialization.asset_key: one.materialization for one in made}


def test_every_asset_before_training_is_materialized_and_every_check_passes(
    demo: DemoRun, materialized: dict[dg.AssetKey, dg.AssetMaterialization]
):
    """One selection, one run: all sources, benchmarks, stages, attrition and catalogue."""
    graph = defs.resolve_asset_graph()
    later = ("training", "evaluation", "studies", "report")
    after = dg.AssetSelection.groups(*later).resolve(graph)
    assert set(graph.get_all_asset_keys()) - after == set(materialized)
    checks = demo.events(dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    assert [] == [one.check_name for one in checks if one.blocking and not one.passed]
    sized = [one for one in BENCHMARKS if one.name in TEST_SET_SIZES]
    assert 2 * len(SOURCES) + len(STAGES) + len(STAGES[:-2]) + 2 + len(sized) == len(checks)


def test_each_stage_keeps_or_drops_every_row_once(folder: DataFolder):
    """The law, read from disk: rows in = rows kept + rows dropped, per stage and source.

    Of the last two stages: silver-decomposed rows = selected + long evidence + dropped.
    """
    before = pl.concat(
        [folder.read(f"claims/{source.name}", ["claim_id", "source"]) for source in SOURCES]
    )
    attrition = folder.read("attrition")
    for stage in COUNTED:
        kept, drops = folder.read(stage), folder.read(f"drops/{stage}")
        assert [] == conservation_errors(before, kept, drops), stage
        before = kept.select("claim_id", "source")
    for stage in STAGES:
        counted = attrition.filter(stage=stage, outcome="kept")["rows"].sum()
        assert folder.read(stage).height == counted, stage
    origins = dict(folder.read("training_claims")["origin"].value_counts().rows())
    assert origins["selected"] == folder.read("diversity_selected").height
    assert origins["long_evidence"] > 0
    assert sum(origins.values()) > 200


def test_every_stage_drops_something_on_the_sample(folder: DataFolder):
    """The sample plants cases for every filter, so a step that never fires is broken."""
    steps = {step for stage in COUNTED for step in folder.read(f"drops/{stage}")["step"]}
    assert steps >= {"difficulty", "entities", "overlap", "diversity_selection"}


def test_labels_of_the_training_set_are_balanced(folder: DataFolder):
    """Equal budgets per label leave neither label above 60 %."""
    share = (folder.read("training_claims")["label"] == "Supported").mean()
    assert 0.4 <= share <= 0.6


def test_rejects_of_the_sample_are_quarantined_with_file_row_and_reason(folder: DataFolder):
    """The sample's planted bad rows stand in the rejects, and only they."""
    rejects = pl.concat([folder.read(f"rejects/{source.name}") for source in SOURCES])
    assert 0 < rejects.height < 20
    assert (rejects["row"] > 0).all()
    assert set(rejects["reason"]) >= {"malformed_line", "unknown_label"}


def test_run_records_name_engines_configuration_and_version(folder: DataFolder):
    """The selection's engine is the embedder; long evidence selects nothing, and counts words."""
    record = folder.run("difficulty_band")
    assert record["engine"].startswith("lexical_verifier")
    assert {"low": 0.3, "high": 0.8} == json.loads(record["config"])
    assert record["data_version"] == file_sha256(folder.path / "difficulty_band.parquet")
    named = [json.loads(folder.run(stage)["step_engines"]) for stage in STAGES[-2:]]
    assert [["diversity_selection"], ["long_evidence"]] == [list(one) for one in named]
    assert "minilm" in named[0]["diversity_selection"]
    assert "words" in named[1]["long_evidence"]


def test_each_page_shows_what_a_reader_asks_for(
    materialized: dict[dg.AssetKey, dg.AssetMaterialization],
):
    """Stages show rows, pictures, balance and settings; every source its licence and terms."""
    for stage in STAGES:
        metadata: Any = materialized[dg.AssetKey(stage)].metadata
        assert metadata.keys() >= SHOWN, stage
        assert str(metadata["kept and dropped"].value).startswith("![")
    graph = defs.resolve_asset_graph()
    for source in SOURCES:
        terms = graph.get(dg.AssetKey(["claims", source.name])).metadata
        assert terms["license"], source.name
        assert terms["terms of use"], source.name


def test_evaluation_only_corpora_stay_out_of_training(folder: DataFolder):
    """LLM-AggreFact gives no training claim unless a user opts in; CoverBench has no source."""
    assert folder.read("claims/llm_aggrefact").height == 0
    assert folder.run("claims/llm_aggrefact")["status"] == "off_by_terms"
    assert "coverbench" not in {source.name for source in SOURCES}
    assert "coverbench" in {benchmark.name for benchmark in BENCHMARKS}


def test_files_conform_and_are_on_the_reference_page(folder: DataFolder):
    """What lies on disk is what ``schemas`` promises and ``docs/reference/files.md`` lists."""
    for source in SOURCES:
        schemas.CLAIMS.conform(folder.read(f"claims/{source.name}"))
    schemas.TRAINING_CLAIMS.conform(folder.read("training_claims"))
    schemas.ATTRITION.conform(folder.read("attrition"))
    assert [] == unlisted(folder.path)


def test_the_catalogue_answers_from_the_data_folder(demo: DemoRun, tmp_path: Path):
    """The DuckDB file lists every claim of the training set and its stage runs, wherever it is."""
    data = demo.copied(tmp_path / "moved")
    before = Path.cwd()
    os.chdir(data)  # views have paths relative to the file
    try:
        with duckdb.connect("decomposerl.duckdb", read_only=True) as catalogue:
            counts = [
                catalogue.sql(f"select count(*) from {view}").fetchall()[0][0]  # noqa: S608
                for view in ("training_claims", "stage_runs")
            ]
    finally:
        os.chdir(before)
    runs = len(SOURCES) + len(BENCHMARKS) + len(STAGES) + 2
    assert [demo.data.read("training_claims").height, runs] == counts


def printed(folder: DataFolder, *words: str) -> str:
    """Output of the ``decomposerl`` command on the run's data folder."""
    done = CliRunner().invoke(app, [*words, "--data", str(folder.path)])
    assert 0 == done.exit_code, done.output
    return " ".join(done.stdout.split())


def test_explain_tells_the_life_of_a_dropped_and_of_a_kept_claim(folder: DataFolder):
    """The command names the step that dropped a claim, and its duplicate's text."""
    drops = folder.read("drops/deduplicated")
    row = drops.filter(pl.col("matched_claim_id").is_not_null()).row(0, named=True)
    page = printed(folder, "explain", row["claim_id"])
    assert row["reason"] in page or row["step"] in page
    kept = folder.read("training_claims").row(0, named=True)
    assert "training_claims" in printed(folder, "explain", kept["claim_id"])


@pytest.mark.timeout(1_200)
def test_printed_lines_run_again_call_no_engine_and_leave_the_same_bytes(
    demo: DemoRun, warm: Path, tmp_path: Path
):
    """Those of the page on Dagster, which also make the training set again.

    README's are run in ``test_first_pages``; one is configured by a file that the page writes.
    """
    again = DataFolder(base_dir=str(demo.copied(tmp_path / "data")))
    lines = [
        line
        for line in shell_lines(ROOT / "docs/how-to/dagster.md")
        if "asset materialize" in line and "-c one.yaml" not in line
    ]
    assert 3 == len(lines)
    desk = project_in(tmp_path / "desk", "", warm)
    page = "\n".join(["```sh", "export PATH=$PWD/.venv/bin:$PATH", *lines, "```"])
    status, shown = desk.run(page, blocks(page), DECOMPOSERL_DATA=str(again.path))
    assert 0 == status, shown[-3_000:]
    for stage in STAGES[:-1]:
        record = again.run(stage)
        assert record["run_id"] != demo.data.run(stage)["run_id"]
        assert (0, True) == (record["engine_calls"], record["engine_hits"] > 0), stage
    parts = ["claims", "benchmark", "rejects", "drops", "selection_cells"]
    names = [f"{stage}.parquet" for stage in STAGES]
    names += [
        str(path.relative_to(again.path))
        for part in parts
        for path in (again.path / part).rglob("*.parquet")
    ]
    assert len(names) > 3 * len(SOURCES)
    changed = [
        name for name in names
        if file_sha256(again.path / name) != file_sha256(demo.data.path / name)
    ]  # fmt: skip
    assert [] == changed
