"""Killed in the middle, the funnel resumes: paid-for engine results are kept, the data is equal."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl

from project import ROOT
from resources.store.parquet import DataFolder, file_sha256
from toy_corpus import corpus

STAGES = ("rule_filtered", "difficulty_band", "deduplicated", "training_claims")


def start(corpora: Path, data: Path) -> subprocess.Popen[bytes]:
    """Start the funnel job on a corpora folder in a process of its own."""
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


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file matching ``pattern`` lies under ``folder``."""
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, f"no {pattern} after two minutes"
        time.sleep(0.05)


def test_a_run_killed_in_a_stage_is_completed_by_the_next_one(tmp_path: Path):
    """SIGKILL once the verifier's stage has stored results: the next run asks only for the rest."""
    # Two batches of the verifier: the kill comes after the first and leaves the second to ask.
    corpora = corpus(tmp_path / "corpora", claims=700)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(corpora, killed)
    wait_for(killed, "engine_results/embedder/**/*.parquet", process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    assert not (killed / "training_claims.parquet").exists()

    assert start(corpora, killed).wait(timeout=300) == 0
    assert start(corpora, whole).wait(timeout=300) == 0

    for stage in STAGES:
        assert file_sha256(whole / f"{stage}.parquet") == file_sha256(killed / f"{stage}.parquet")
    resumed = DataFolder(base_dir=str(killed)).run("rule_filtered")
    assert resumed["engine_calls"] == 0
    assert resumed["engine_hits"] > 0
    assert pl.read_parquet(killed / "training_claims.parquet").height > 0
