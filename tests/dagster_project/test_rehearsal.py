"""``decomposerl rehearse``: the whole embedded profile on eight claims, and how it fails."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from environment import variables
from project import PYTHONPATH
from resources.hub.locks import LOCK_FILE

STEPS = (
    *("doctor", "corpora", "rule_filtered", "difficulty_band", "deduplicated", "decontaminated"),
    *("silver_decomposed", "policy", "judge", "decomposerl-tiny", "minicheck-lexical"),
    "leaderboard",
)


def rehearse(data: Path, *options: str, **named: str) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, as it changes its environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    return subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "rehearse", *options],
        env={**clean, "PYTHONPATH": PYTHONPATH, **variables(**{"DATA": str(data), **named})},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def done(data: Path) -> "subprocess.CompletedProcess[str]":
    return rehearse(data, "--report", str(data / "page.md"))


def test_every_step_of_the_profile_is_rehearsed(
    done: "subprocess.CompletedProcess[str]", data: Path
):
    """Each has a line and a row of the report, in order; the full run is estimated from them."""
    assert 0 == done.returncode, done.stdout + done.stderr
    ended = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("✓")]
    assert list(STEPS) == ended
    page = (data / "page.md").read_text("utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()]
    assert list(STEPS) == [row.replace("\\", "") for row in rows if row.replace("\\", "") in STEPS]
    assert page.rstrip().endswith("every step succeeded.")
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("training: ")]
    assert "30 steps" in line
    assert "512 held-out completions" in line  # 128 claims, two completions, both ends
    assert "hours" in done.stdout


def test_the_claims_of_a_rehearsal_are_few_and_all_in_its_folder(
    done: "subprocess.CompletedProcess[str]", data: Path
):
    """Eight claims, the longest among them, and four of each of two test sets; nothing beside."""
    assert 0 == done.returncode
    folder = data / "rehearsal"
    assert {"rehearsal", "page.md"} == {path.name for path in data.iterdir()}
    claims = pl.concat(pl.read_parquet(file) for file in folder.glob("claims/*.parquet"))
    tests = [pl.read_parquet(file).height for file in folder.glob("benchmark/*.parquet")]
    assert (8, [4, 4]) == (claims.height, sorted(tests)[-2:])
    assert 0 == sum(sorted(tests)[:-2])
    words = claims["evidence"].str.count_matches(r"\S+").sort().to_list()
    assert (True, True) == (words[-1] > 4_000, words[-2] < 1_000)  # the longest, and any others
    (config,) = folder.glob("policy/tiny/outcome.json")
    assert '"steps": 2' in config.read_text("utf-8")


def test_what_is_missing_ends_it_before_anything_runs(tmp_path: Path):
    """One sentence that names the step, what is missing, and the fix; exit code 1."""
    lock = tmp_path / LOCK_FILE
    lock.write_text(f'"org/m" = "{"a" * 40}"\n', "utf-8")
    file = tmp_path / "decomposerl.toml"
    file.write_text('profile = "local"\n[silver]\nbase_url = "http://127.0.0.1:9/v1"\n', "utf-8")
    done = rehearse(tmp_path)
    assert 1 == done.returncode
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("the rehearsal failed at doctor: ")
    assert "corpora" not in done.stdout
    # The commits and the settings of the full run are the ones that are rehearsed.
    for kept in (lock, file):
        assert kept.read_text("utf-8") == (tmp_path / "rehearsal" / kept.name).read_text("utf-8")


def test_a_field_that_no_resource_has_is_refused(tmp_path: Path):
    """By the first step that would use it; exit code 2."""
    file = tmp_path / "resources.yaml"
    file.write_text("resources: {verifier: {config: {no_such_field: 1}}}", "utf-8")
    done = rehearse(tmp_path, "--config", str(file))
    assert (2, True) == (done.returncode, "no_such_field" in done.stderr)
    assert 1 == len(done.stderr.splitlines())
