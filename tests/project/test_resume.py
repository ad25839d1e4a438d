"""Killed in the middle, the funnel resumes: paid-for engine results are kept, the data is equal."""

import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile
from project import ROOT
from resources.store.integrity import file_sha256
from resources.store.parquet import DataFolder
from shared_runs import QUIET
from toy_corpus import corpus

STAGES = ("rule_filtered", "difficulty_band", "deduplicated", "training_claims")


def start(corpora: Path, data: Path) -> subprocess.Popen[bytes]:
    """Start the funnel's assets on a corpora folder in a process of its own."""
    selection = 'group:"sources" or group:"benchmarks" or group:"funnel"'
    command = [sys.executable, "-m", "dagster", "asset", "materialize"]
    command += ["-m", "dagster_project.definitions", "--select", selection]
    environment = os.environ | {
        "DECOMPOSERL_CORPORA": str(corpora),
        "DECOMPOSERL_DATA": str(data),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def run(corpora: Path, data: Path) -> DataFolder:
    """Run the job ``funnel`` to its end."""
    job = build_definitions(Profile("embedded", corpora, data)).resolve_job_def("funnel")
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(run_config=QUIET, instance=instance).success
    return DataFolder(base_dir=str(data))


def test_a_run_killed_in_a_stage_is_completed_by_the_next_one(tmp_path: Path):
    """SIGKILL once the embedder has stored results: the next run asks only for the rest."""
    corpora = corpus(tmp_path / "corpora", claims=200)
    killed, process = tmp_path / "killed", start(corpora, tmp_path / "killed")
    deadline = time.monotonic() + 120
    while not list(killed.glob("engine_results/embedder/**/*.parquet")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "no vectors after two minutes"
        time.sleep(0.05)
    process.kill()
    process.wait(timeout=30)
    assert not (killed / "training_claims.parquet").exists()
    resumed, whole = run(corpora, killed), run(corpora, tmp_path / "whole")
    for stage in STAGES:
        files = [folder.path / f"{stage}.parquet" for folder in (whole, resumed)]
        assert 1 == len({file_sha256(file) for file in files}), stage
    record = resumed.run("rule_filtered")
    assert (0, True) == (record["engine_calls"], record["engine_hits"] > 0)
    assert resumed.read("training_claims").height > 0
