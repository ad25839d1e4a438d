"""Predictions of a system, killed while they are made: the next run asks for the rest alone."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from evaluation_graph import materialize, write_tests
from project import ROOT, SUPPORT
from resources.evaluation.opened_system import SHARDS
from resources.store.parquet import DataFolder

SYSTEM, KEY = "simple-rules-faithful", "predictions/fever/simple-rules-faithful"
CLAIMS = 300
"""More than are in progress at a time, so that some are stored before others are asked."""


def kept(data: Path) -> int:
    """Claims that lie in whole shards."""
    return sum(pq.read_metadata(path).num_rows for path in (data / SHARDS).rglob("*.parquet"))


def killed_midway(data: Path) -> None:
    """Materialize in a process of its own that is killed as soon as something is stored."""
    child = subprocess.Popen(
        [sys.executable, str(SUPPORT / "evaluation_graph.py"), SYSTEM, str(data)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list((data / SHARDS).rglob("*.parquet")):
        assert child.poll() is None, "it ended before anything was stored"
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.005)
    child.kill()
    assert -signal.SIGKILL == child.wait(timeout=30)


def run_of(data: Path) -> tuple[int, int]:
    """Claims that the last run asked, and those that it found."""
    record = DataFolder(base_dir=str(data)).run(KEY)
    return record["engine_calls"], record["engine_hits"]


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path):
    """Nothing half done is left; what was stored is not asked again; a third run asks nothing."""
    data, whole = tmp_path / "killed", tmp_path / "whole"
    write_tests(data, CLAIMS)
    killed_midway(data)
    folder, stored = DataFolder(base_dir=str(data)), kept(data)
    assert 0 < stored < CLAIMS
    assert not folder.exists(KEY)
    assert materialize(data, SYSTEM, "fever").success
    assert (CLAIMS - stored, stored) == run_of(data)
    assert materialize(data, SYSTEM, "fever").success
    assert (0, CLAIMS) == run_of(data)
    write_tests(whole, CLAIMS)
    shutil.copytree(data / "engine_results", whole / "engine_results")  # the verifier's vectors
    assert materialize(whole, SYSTEM, "fever").success
    assert (CLAIMS, 0) == run_of(whole)
    uninterrupted = DataFolder(base_dir=str(whole)).read(KEY)
    assert folder.read(KEY).equals(uninterrupted)
