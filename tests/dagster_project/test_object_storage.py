"""``DECOMPOSERL_DATA`` in a bucket: the same bytes as in a folder, and what a user sees of it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from typer.testing import CliRunner

from assets.catalog import attrition_asset, catalog_asset, chat_replies
from assets.corpora import benchmark_assets, source_assets
from assets.funnel import funnel_assets
from assets.training_inputs import base_policy_asset
from dagster_project.cli import app
from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile, profile_from_environment, resources_for
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.errors import ConfigError
from decomposerl.training.experiment import BASE_POLICY
from documents import shell_lines
from environment import variables
from object_server import BUCKET, KEY, SECRET, ObjectServer, object_server
from project import ROOT
from resources.catalogue.claim_lookup import find_claim
from resources.catalogue.database import FILE, build_catalogue, open_catalogue, read_table
from resources.policy_tiny.folder import base_policy_facts
from resources.preflight import probes
from resources.store.mirror import attach, detach, pull
from resources.store.parquet import DataFolder
from sample import Sample
from toy_corpus import write_sample

URL = f"s3://{BUCKET}/run"
LOCAL = {"engine_results", "sample", ".objects", ".locks"}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as one:
        yield one


def funnel(corpora: Path, data: Path) -> dg.ExecuteInProcessResult:
    """From some corpora of the sample to the catalogue, in this process."""
    sources = [one for one in SOURCES if one.name in {"hover", "scifact"}]
    benchmarks = [one for one in BENCHMARKS if one.name == "wice"]
    corpora_assets = [*source_assets(sources, benchmarks), *benchmark_assets(benchmarks, sources)]
    after = [attrition_asset(sources), chat_replies, catalog_asset(sources, benchmarks)]
    assets = [*corpora_assets, *funnel_assets(["hover", "scifact"], ["wice"], {}), *after]
    resources = resources_for(Profile("embedded", corpora, data))
    quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    with dg.instance_for_test() as instance:
        return dg.materialize(assets, instance=instance, resources=resources, run_config=quiet)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The Parquet files of a data folder."""
    paths = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return {str(path): (folder / path).read_bytes() for path in paths if path.parts[0] not in LOCAL}


@pytest.fixture(scope="module")
def both(
    server: ObjectServer, sample: Sample, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path, dg.ExecuteInProcessResult]]:
    """A data folder, a second machine's copy of a bucket, and the run that filled the bucket."""
    plain, scratch = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("scratch")
    corpora = tmp_path_factory.mktemp("corpora")
    write_sample(sample, corpora)
    funnel(corpora, plain)
    one = attach(URL, scratch / "one", server.options())
    # What engines said is stored already: of the bucket's run, the tables are of interest.
    shutil.copytree(plain / "engine_results", one / "engine_results")
    server.fail("503", "PUT", "drops/rule_filtered.parquet")
    server.fail("lost", "PUT", "rule_filtered.parquet")
    server.fail("lost", "PUT", ".locks/")
    ran = funnel(corpora, one)
    two = attach(URL, scratch / "two", server.options())
    yield plain, two, ran
    detach(one)
    detach(two)


def test_the_funnel_in_a_bucket_has_the_same_bytes_as_in_a_folder(
    both: tuple[Path, Path, dg.ExecuteInProcessResult], server: ObjectServer
):
    """Every table, in spite of faults; no lock is left, and no object has a temporary name.

    An asset's address is the object's; no event of the run has a credential.
    """
    plain, _, ran = both
    objects = {
        key.removeprefix("run/"): data for key, data in server.objects().items() if "run/" in key
    }
    tables = {key: data for key, data in objects.items() if key.endswith(".parquet")}
    assert ran.success
    assert bytes_of(plain) == {k: v for k, v in tables.items() if not k.startswith("engine_")}
    assert len(bytes_of(plain)) > 20
    assert FILE in objects
    assert not [key for key in objects if "/." in f"/{key}"]
    event = ran.asset_materializations_for_node("rule_filtered")[0]
    assert f"{URL}/rule_filtered.parquet" == event.metadata["dagster/uri"].value
    said = "\n".join(str(one) for one in ran.all_events)
    assert [] == [secret for secret in (KEY, SECRET) if secret in said]


def test_another_machine_reads_tables_records_and_claims(
    both: tuple[Path, Path, dg.ExecuteInProcessResult], server: ObjectServer
):
    """Frames, run records, claims and the catalogue, as in a folder; it may rebuild it."""
    plain, two, _ = both
    here, there = (DataFolder(base_dir=str(folder)) for folder in (plain, two))
    assert here.read("training_claims").equals(there.read("training_claims"))
    assert there.exists("drops/rule_filtered")
    assert not there.exists("policy/none/curves")
    records = [one.run("difficulty_band")["data_version"] for one in (here, there)]
    assert records[0] == records[1]
    claim = here.read("claims/hover")["claim_id"][0]
    assert find_claim(plain, claim) == find_claim(two, claim)
    assert read_table(plain, "attrition").equals(read_table(two, "attrition"))
    pull(two, "*.parquet", "*/*.parquet")
    query = "SELECT count(*) FROM training_claims"
    with open_catalogue(plain) as mine, open_catalogue(two) as theirs:
        assert mine.sql(query).fetchall() == theirs.sql(query).fetchall()
    build_catalogue(two)
    assert (two / FILE).read_bytes() == server.objects()[f"run/{FILE}"]


def test_a_base_policy_is_one_object_that_another_machine_unpacks(
    both: tuple[Path, Path, dg.ExecuteInProcessResult], server: ObjectServer, tmp_path: Path
):
    """Its facts there are those here; its files are not objects of their own."""
    _, two, _ = both
    one = attach(URL, tmp_path, server.options())
    folder = {"data_folder": DataFolder(base_dir=str(one))}
    assert dg.materialize([base_policy_asset(BASE_POLICY)], resources=folder).success
    keys = [key for key in server.objects() if BASE_POLICY in key]
    assert [f"run/{BASE_POLICY}.tar"] == keys
    read = DataFolder(base_dir=str(two)).pulled(BASE_POLICY) / BASE_POLICY
    assert base_policy_facts(one / BASE_POLICY) == base_policy_facts(read)
    detach(one)


def test_doctor_writes_and_removes_a_probe(server: ObjectServer, tmp_path: Path):
    """A bucket that cannot be written is missing, and says why without a secret."""
    data = attach(f"s3://{BUCKET}/empty", tmp_path / "a", server.options())
    assert ["ok"] == [check.state for check in probes.bucket(data)]
    assert not [key for key in server.objects() if key.startswith("empty")]
    none = attach("s3://no-such-bucket", tmp_path / "b", server.options(0))
    (check,) = probes.bucket(none)
    assert "missing" == check.state
    assert "NoSuchBucket" in f"{check}" or "no such bucket" in f"{check}"
    assert SECRET not in f"{check}"
    assert [] == list(probes.bucket(tmp_path))
    detach(data)
    detach(none)


def test_definitions_load_without_the_bucket(tmp_path: Path):
    """While storage is away, too; a URL that cannot be is refused by its variable, not repeated."""
    environment = variables(DATA="s3://no-such-bucket/x/", SCRATCH=str(tmp_path))
    profile = profile_from_environment(environment)
    assert "s3://no-such-bucket/x" == profile.bucket
    assert tmp_path in profile.data.parents
    assert build_definitions(profile).resolve_all_job_defs()
    detach(profile.data)
    wrong = {"s3://key:hidden@bucket/x": "environment", "hdfs://hidden/x": "s3, gs and az"}
    for url, said in (wrong | {"s3:/hidden/x": "URL"}).items():
        with pytest.raises(ConfigError, match=said) as refused:
            profile_from_environment({"DECOMPOSERL_DATA": url})
        assert "DECOMPOSERL_DATA" in str(refused.value)
        assert "hidden" not in str(refused.value)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="DECOMPOSERL_SCRATCH"):
        attach(URL, tmp_path / "file")


@pytest.mark.usefixtures("both")
def test_a_pattern_that_names_nothing_is_an_error(server: ObjectServer, tmp_path: Path):
    """In one sentence with the pattern: a script would go on in a folder without the files."""
    env = {"DECOMPOSERL_DATA": URL, "DECOMPOSERL_SCRATCH": str(tmp_path), **server.variables}
    for pattern in ("claims/hoover.parquet", "/etc/hosts", "../hosts", ""):
        done = CliRunner(env=env).invoke(app, ["pull", pattern])
        assert (2, True) == (done.exit_code, f"'{pattern}'" in done.output), done.output


@pytest.mark.usefixtures("both")
def test_the_commands_of_the_page_run(server: ObjectServer, tmp_path: Path):
    """As printed, with a bucket that is there; no credential is printed."""
    page = shell_lines(ROOT / "docs/how-to/object-storage.md")
    lines = [one for one in page if "pip install" not in one and "--upstream" not in one]
    script = "\n".join(["set -eux", *lines]).replace("s3://my-bucket/claims", URL)
    script = script.replace("$PWD/scratch", str(tmp_path / "scratch"))
    script = script.replace(".venv/bin/decomposerl", f"{sys.executable} -m dagster_project.cli")
    env = {**os.environ, **server.variables, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert "bucket" in done.stdout
    assert "hover.parquet" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert json.dumps(KEY) not in done.stdout + done.stderr
    assert pl.read_parquet(next((tmp_path / "scratch").glob("*/claims/hover.parquet"))).height
