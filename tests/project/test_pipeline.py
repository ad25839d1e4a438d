"""The whole graph on the bundled sample: the law, the tables, the second run, the UI's data."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from dagster_lines import run_lines
from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile
from decomposerl import schemas
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.funnel.catalogue import STAGES
from decomposerl.funnel.conservation import conservation_errors
from documents import shell_lines
from project import ROOT
from resources.corpora.bundled_sample import fingerprint
from resources.store.parquet import DataFolder, file_sha256
from sample import Sample
from studies.reference.files import unlisted
from toy_corpus import write_sample

RUN_CONFIG = {
    "ops": {
        "diversity_selected": {"config": {"budget_per_label": 200}},
        "deduplicated": {"config": {"pairs_floor": 0.6}},
    },
    "loggers": {"console": {"config": {"log_level": "ERROR"}}},
}


@dataclass(frozen=True)
class Run:
    """One materialization of everything, with where it put the data."""

    result: dg.ExecuteInProcessResult
    folder: DataFolder
    definitions: dg.Definitions
    instance: dg.DagsterInstance


def materialize_all(profile: Profile, instance: dg.DagsterInstance) -> Run:
    """Run the ``funnel`` job for a profile in this process."""
    definitions = build_definitions(profile)
    result = definitions.resolve_job_def("funnel").execute_in_process(
        run_config=RUN_CONFIG, instance=instance, raise_on_error=True
    )
    return Run(result, DataFolder(base_dir=str(profile.data)), definitions, instance)


@pytest.fixture(scope="module")
def profile(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    data = tmp_path_factory.mktemp("data")
    write_sample(sample, data / "sample" / fingerprint())
    return Profile("embedded", None, data)


@pytest.fixture(scope="module")
def first(profile: Profile, sample_results: Path) -> Iterator[Run]:
    with dg.instance_for_test() as instance:
        run = materialize_all(profile, instance)
        if not sample_results.exists():
            part = sample_results.with_name("sample_results_part")
            shutil.copytree(profile.data / "engine_results/embedder", part / "embedder")
            part.rename(sample_results)  # whole or not at all
        yield run


@pytest.fixture(scope="module")
def hashes(first: Run) -> dict[str, str]:
    return {
        str(path.relative_to(first.folder.path)): file_sha256(path)
        for path in sorted(first.folder.path.rglob("*.parquet"))
        if not {"engine_results", "sample"} & set(path.relative_to(first.folder.path).parts)
    }


@pytest.fixture(scope="module")
def second(first: Run, hashes: dict[str, str], profile: Profile) -> Run:
    assert hashes
    return materialize_all(profile, first.instance)


def test_every_asset_before_training_is_materialized_and_every_check_passes(first: Run):
    """One selection, one run: all sources, benchmarks, stages, attrition and catalogue."""
    done = {event.asset_key for event in first.result.get_asset_materialization_events()}
    graph = first.definitions.resolve_asset_graph()
    later = ("training", "evaluation", "studies", "three_way", "report")
    after = dg.AssetSelection.groups(*later).resolve(graph)
    assert set(graph.get_all_asset_keys()) - after == done
    evaluations = first.result.get_asset_check_evaluations()
    assert [] == [e.check_name for e in evaluations if e.blocking and not e.passed]
    assert len(SOURCES) + len(STAGES) + len(STAGES[:-2]) + 2 == len(evaluations)


def test_each_stage_keeps_or_drops_every_row_once(first: Run):
    """The law, read from disk: rows in = rows kept + rows dropped, per stage and source."""
    read = first.folder.read
    before = pl.concat(
        [read(f"claims/{source.name}", ["claim_id", "source"]) for source in SOURCES]
    )
    for stage in STAGES:
        if stage == "diversity_selected":
            continue
        kept, drops = read(stage), read(f"drops/{stage}")
        assert [] == conservation_errors(before, kept, drops), stage
        before = kept.select("claim_id", "source")


def test_the_last_two_stages_share_one_account(first: Run):
    """Silver-decomposed rows = selected + long evidence + dropped."""
    read = first.folder.read
    origins = dict(read("training_claims")["origin"].value_counts().rows())
    dropped = read("drops/training_claims").height
    assert read("silver_decomposed").height == sum(origins.values()) + dropped
    assert origins["selected"] == read("diversity_selected").height
    assert origins["long_evidence"] > 0


def test_every_stage_drops_something_on_the_sample_and_something_survives(first: Run):
    """The sample plants cases for every filter, so a step that never fires is broken."""
    reasons = pl.concat(
        [first.folder.read(f"drops/{s}") for s in STAGES if s != "diversity_selected"]
    )
    fired = set(reasons.select("step", "reason").rows())
    assert {step for step, _ in fired} >= {
        "difficulty",
        "entities",
        "overlap",
        "diversity_selection",
    }
    assert first.folder.read("training_claims").height > 200


def test_the_selections_engine_is_the_embedder(first: Run):
    """And the token counter's is the step that adds long evidence, which selects nothing."""
    named = [json.loads(first.folder.run(s)["step_engines"]) for s in STAGES[-2:]]
    assert [["diversity_selection"], ["long_evidence"]] == [list(one) for one in named]
    assert "minilm" in named[0]["diversity_selection"]
    assert "words" in named[1]["long_evidence"]


def test_labels_of_the_training_set_are_balanced(first: Run):
    """Equal budgets per label leave neither label above 60 %."""
    share = (first.folder.read("training_claims")["label"] == "Supported").mean()
    assert 0.4 <= share <= 0.6


def test_rejects_of_the_sample_are_quarantined_with_file_row_and_reason(first: Run):
    """The sample's planted bad rows stand in the rejects, and only they."""
    rejects = pl.concat([first.folder.read(f"rejects/{source.name}") for source in SOURCES])
    assert 0 < rejects.height < 20
    assert (rejects["row"] > 0).all()
    assert set(rejects["reason"]) >= {"malformed_line", "unknown_label"}


def test_a_second_run_calls_no_engine_and_writes_the_same_bytes(
    second: Run, hashes: dict[str, str]
):
    """Nothing changed: no verifier, embedder, entity or silver call, and equal files."""
    assert second.result.success
    for stage in ("rule_filtered", "difficulty_band", "deduplicated", "decontaminated",
                  "silver_decomposed", "diversity_selected"):  # fmt: skip
        event = second.result.asset_materializations_for_node(stage)[0]
        assert event.metadata["engine calls"].value == 0, stage
        assert event.metadata["engine results reused"].value > 0, stage
    again = {name: file_sha256(second.folder.path / name) for name in hashes}
    assert hashes == again


def test_run_records_name_engine_configuration_and_version(first: Run):
    """Every asset leaves a record that the catalogue lists."""
    record = first.folder.run("difficulty_band")
    assert record["engine"].startswith("lexical_verifier")
    assert {"low": 0.3, "high": 0.8} == json.loads(record["config"])
    assert record["data_version"] == file_sha256(first.folder.path / "difficulty_band.parquet")


def test_each_stage_page_shows_what_a_reader_asks_for(first: Run):
    """Rows by reason and source, pictures, balance, sample and settings are metadata."""
    for stage in STAGES:
        metadata = first.result.asset_materializations_for_node(stage)[0].metadata
        assert metadata.keys() >= {
            "drops by reason",
            "by source",
            "rows by source",
            "label balance",
            "sample",
            "settings",
            "evidence tokens",
            "guard",
            "close calls",
        }, stage
        assert str(metadata["rows by source"].value).startswith("![")


def test_licence_and_terms_are_shown_with_every_source(first: Run):
    """A user sees under which terms a corpus may be used before using it."""
    graph = first.definitions.resolve_asset_graph()
    for source in SOURCES:
        metadata = graph.get(dg.AssetKey(["claims", source.name])).metadata
        assert metadata["license"]
        assert metadata["terms of use"]


def test_evaluation_only_corpora_stay_out_of_training(first: Run):
    """LLM-AggreFact gives no training claim unless a user opts in; CoverBench has no source."""
    assert first.folder.read("claims/llm_aggrefact").height == 0
    assert first.folder.run("claims/llm_aggrefact")["status"] == "off_by_terms"
    assert "coverbench" not in {source.name for source in SOURCES}
    assert "coverbench" in {benchmark.name for benchmark in BENCHMARKS}


def test_tables_on_disk_conform_to_their_schemas(first: Run):
    """What lies on disk is what ``schemas`` promises."""
    for source in SOURCES:
        schemas.CLAIMS.conform(first.folder.read(f"claims/{source.name}"))
    schemas.TRAINING_CLAIMS.conform(first.folder.read("training_claims"))
    schemas.ATTRITION.conform(first.folder.read("attrition"))


def test_every_file_is_on_the_reference_page(first: Run):
    """``docs/reference/files.md`` has a path for each file of the data folder."""
    assert [] == unlisted(first.folder.path)


def test_attrition_adds_up_to_the_stages(first: Run):
    """The attrition table is a count of the stages' own rows."""
    attrition = first.folder.read("attrition")
    for stage in STAGES:
        kept = attrition.filter(stage=stage, outcome="kept")["rows"].sum()
        assert first.folder.read(stage).height == kept


def test_the_catalogue_answers_from_the_data_folder(first: Run):
    """The DuckDB file lists every claim of the training set and its stage runs."""
    code = (
        "import duckdb, json; c = duckdb.connect('decomposerl.duckdb', read_only=True);"
        "print(json.dumps([c.sql('select count(*) from training_claims').fetchall()[0][0],"
        "c.sql('select count(*) from stage_runs').fetchall()[0][0]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=first.folder.path,
        capture_output=True,
        text=True,
        check=True,
    )
    claims, runs = json.loads(done.stdout)
    assert first.folder.read("training_claims").height == claims
    assert len(SOURCES) + len(BENCHMARKS) + len(STAGES) + 2 == runs


def test_explain_tells_the_life_of_a_dropped_and_of_a_kept_claim(first: Run):
    """The command names the step that dropped a claim, and its duplicate's text."""
    drops = first.folder.read("drops/deduplicated")
    row = drops.filter(pl.col("matched_claim_id").is_not_null()).row(0, named=True)
    page = cli(first, "explain", row["claim_id"])
    assert row["reason"] in page or row["step"] in page
    kept = first.folder.read("training_claims").row(0, named=True)
    assert "training_claims" in cli(first, "explain", kept["claim_id"])


def test_attrition_answers_for_another_threshold(first: Run):
    """The stored pairs lead to what the run decided, and to more kept at a higher cosine."""
    kept, entered = (first.folder.read(s).height for s in ("deduplicated", "difficulty_band"))
    same, looser = (
        json.loads(cli(first, "attrition", "--semantic-threshold", at, "--format", "json"))[-1]
        for at in ("0.7", "1.0")
    )
    assert (entered, kept, kept) == (same["rows_in"], same["kept"], same["kept_asked"])
    assert looser["difference"] > 0


def cli(run: Run, *arguments: str) -> str:
    """Output of the ``decomposerl`` command on a run's data folder."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", *arguments, "--data", str(run.folder.path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return re.sub(r"\s+", " ", done.stdout)


def materialize_lines() -> list[str]:
    """Every ``dagster asset materialize`` line of README and the page on Dagster, in order.

    Without those that configure a run by a file that the page writes.
    """
    pages = [*shell_lines(ROOT / "README.md"), *shell_lines(ROOT / "docs/how-to/dagster.md")]
    lines = dict.fromkeys(one for one in pages if "dagster asset materialize" in one)
    return [one for one in lines if " -c " not in one or " -c configs/" in one]


@pytest.mark.timeout(1_200)
def test_every_materialize_line_of_readme_and_page_runs(second: Run, profile: Profile):
    """What a user is asked to type works as typed."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "DECOMPOSERL_DATA": str(profile.data),
        "DAGSTER_MODULE_NAME": "dagster_project.definitions",
        "HOME": str(second.folder.path.parent),
    }
    lines = materialize_lines()
    assert len(lines) >= 5
    run_lines(lines, environment)
