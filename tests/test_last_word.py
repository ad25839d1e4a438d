"""What a person reads when a run stops: one sentence, last and alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 4  # a warning of Dagster's own in two, its "failed" in one, the sentence
STEP = ["--select", 'key:"deduplicated"']
WRONG = ["--config-json", '{"ops": {"deduplicated": {"config": {"cosin": 3}}}}']


def stopped(tmp_path: Path, *words: str, **environment: str) -> list[str]:
    """The lines of a run of ``dagster asset materialize`` that must fail."""
    kept = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    defaults = {"DECOMPOSERL_DATA": str(tmp_path / "data"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "dagster", "asset", "materialize"]
    done = subprocess.run(
        [*command, "-m", "dagster_project.definitions", *words],
        cwd=ROOT,
        env=kept | defaults | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_a_missing_input_is_one_sentence_and_its_trace_is_in_the_log(tmp_path: Path):
    """The file, what to do, and where the rest is."""
    lines = stopped(tmp_path, *STEP)
    assert len(lines) <= MOST_LINES
    found = re.search(r"^(.*) is not there; materialize '(.*)' first \(log: (.*)\)$", lines[-1])
    assert found is not None
    assert ("difficulty_band", "difficulty_band") == (Path(found[1]).stem, found[2])
    log = Path(found[3]).read_text("utf-8")
    assert "Stack Trace" in log
    assert "RUN_FAILURE" in log


def test_a_damaged_input_is_one_sentence(tmp_path: Path):
    """The file, and that its asset is to be made again."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/difficulty_band.parquet").write_text("PAR1")
    lines = stopped(tmp_path, *STEP)
    assert len(lines) <= MOST_LINES
    assert re.search(
        r"band\.parquet cannot be read .*materialize 'difficulty_band' again", lines[-1]
    )


def test_a_data_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    """The folder, and why."""
    (tmp_path / "file").write_text("")
    lines = stopped(
        tmp_path, "--select", 'key:"claims/hover"', DECOMPOSERL_DATA=str(tmp_path / "file/data")
    )
    assert len(lines) <= MOST_LINES
    assert re.search(r"Not a directory: '.*file/data", lines[-1])


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (STEP, {"DECOMPOSERL_CORPUS": "x"}, "the nearest is DECOMPOSERL_CORPORA"),
        (STEP, {"DECOMPOSERL_DATA": "s3://bucket/x"}, "holds a URL"),
        (["--select", 'key:"claims/hoover"'], {}, 'the nearest is key:"claims/hover"'),
        ([*STEP, *WRONG], {}, 'unexpected config entry "cosin"'),
    ],
)
def test_a_run_that_is_refused_says_so_alone_and_writes_nothing(
    words: list[str], environment: dict[str, str], said: str, tmp_path: Path
):
    """Before its first step."""
    lines = stopped(tmp_path, *words, **environment)
    assert len(lines) <= MOST_LINES
    assert said in lines[-1]
    assert not (tmp_path / "data").exists()


def test_the_demo_too(tmp_path: Path):
    """It says what is wrong with its environment in one line."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project"],
        cwd=ROOT,
        env=os.environ | {"DECOMPOSERL_PROFIL": "paper", "DECOMPOSERL_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert (1, True) == (done.returncode, "the nearest is DECOMPOSERL_PROFILE" in line)
