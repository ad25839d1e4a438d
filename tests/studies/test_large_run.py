"""The funnel over a large made pool, at a small size: every step, and evidence given back."""

import subprocess
from pathlib import Path

import polars as pl
import pytest

from decomposerl.funnel.catalogue import STAGES
from perf.bench_process import run_fresh
from perf.memory_watch import OVER
from resources.store.parquet import DataFolder
from studies.large_inputs import write_pool
from studies.large_run import discard, materialize
from studies.paper_plan import COUNTS

ROWS, DIMENSIONS = 1_200, 32
DROPPING = ("rule_filtered", "difficulty_band", "deduplicated", "silver_decomposed")


def test_every_stage_runs_and_no_later_one_misses_the_evidence_given_back(tmp_path: Path):
    """Checks hold at each stage, although the tables before it have no evidence any more."""
    folder = DataFolder(base_dir=str(tmp_path))
    write_pool(tmp_path, ROWS)
    entered = sum(folder.read(f"claims/{name}", ["claim_id"]).height for name in COUNTS)
    assert abs(entered - ROWS) < len(COUNTS)
    for step in STAGES:
        assert {"source_guard"} >= set(materialize(tmp_path, step, DIMENSIONS)), step
        record = folder.run(step)
        assert 0 < record["rows_kept"] <= record["rows_in"], step
        assert record["rows_kept"] < record["rows_in"] or step not in DROPPING, step
        discard(tmp_path, step)
    assert {""} == set(folder.read("rule_filtered")["evidence"])
    assert {""} == set(folder.read("silver_decomposed")["evidence"])
    kept = folder.read("training_claims")
    assert kept["evidence"].str.len_bytes().mean() > 3_000
    assert (kept["passages"].list.len() > 0).all()


def test_a_step_may_not_hold_more_than_the_limit(tmp_path: Path):
    """The limit is one of the process: with too little, a step ends instead of swapping."""
    words = ["--claims", "300", "--folder", str(tmp_path), "--step", "pool", "--memory-gb"]
    assert "pool" == run_fresh("studies.large_run", *words, "4")["step"]
    assert pl.read_parquet(tmp_path / "claims/hover.parquet").height
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_fresh("studies.large_run", *words, "0.15")
    assert OVER == caught.value.returncode
