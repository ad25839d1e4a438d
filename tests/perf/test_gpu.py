"""The measurements of a card, everything small on the processor."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from decomposerl.kernels.cosine_filter import keep_first_cosine
from decomposerl.training.memory import shape_of
from perf.gpu import DUPLICATE, findings_of, removed_by_definition
from perf.grpo_case import QWEN_7B
from perf.inputs import clustered_vectors
from project import ROOT


def test_every_part_runs_and_its_rates_are_kept(tmp_path: Path):
    """One command: a table without a failure, and the rates that the doctor reads."""
    page = tmp_path / "gpu.md"
    words = [sys.executable, "-m", "perf.gpu", "--tiny", "--out", str(page)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout
    assert done.stdout == page.read_text("utf-8")
    assert 2 == done.stdout.count(" 0 wrong decisions")
    plain = json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert plain["tiny"]
    assert {"update", "tiny_judge", "embedder", "verifier"} == set(plain["tokens_per_s"])
    assert all(rate > 0 for rate in plain["tokens_per_s"].values())


@pytest.mark.parametrize(
    ("name", "limit_s", "measured", "beside"),
    [
        ("embedder", 0.2, "not finished in 0.2 s", ""),
        ("no part", 60, "exit status 2", "invalid choice"),
    ],
)
def test_a_part_that_fails_or_takes_too_long_is_a_row(
    name: str, limit_s: float, measured: str, beside: str
):
    """It says what happened, with the error's last line."""
    (row,) = findings_of(name, limit_s, tiny=True)
    assert (True, measured) == (row.failed, row.measured)
    assert beside in row.beside


def test_the_definition_is_the_searchs():
    """The float64 reference removes the rows that the search removes."""
    vectors = clustered_vectors(9_000, 24)  # several blocks
    removed = removed_by_definition(vectors, "cpu")
    assert 0 < removed.sum() < len(removed)
    assert np.array_equal(removed, keep_first_cosine(vectors, DUPLICATE).is_matched)


def test_the_model_is_the_papers():
    """The architecture has the 7.6 billion parameters of Qwen2.5-7B."""
    assert 7_615_616_512 == shape_of(QWEN_7B | {"model_type": "qwen2"}).parameters
