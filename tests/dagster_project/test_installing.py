"""The installation's progress, by what pip prints and what lies in site-packages."""

import sys
from pathlib import Path

import pytest

from dagster_project.installing import Installation, run

PIP = [
    "Obtaining file:///project",
    "Collecting torch==2.13.0",
    "  Downloading torch-2.13.0.whl (180.5 MB)",
    "Collecting polars",
    "  Downloading polars-1.40.whl.metadata (10 kB)",
    "Requirement already satisfied: numpy in site-packages",
]


def program(lines: list[str], tail: str = "") -> list[str]:
    """A stand-in of pip: prints the lines, then does what ``tail`` says."""
    return [sys.executable, "-c", f"import sys, time\nprint({chr(10).join(lines)!r})\n{tail}"]


def test_a_file_gets_lines_and_the_log_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A file gets lines, the log all of it; of a failure the last; what is installed has a rate."""
    log = tmp_path / "pip.log"
    command = program(PIP, "sys.stdout.flush(); time.sleep(0.5)")
    assert 0 == run(command, log, Installation(tmp_path), every_s=0.1)
    shown = capsys.readouterr()
    assert "  collecting: 3 packages, 181 MB, 0 s" in shown.out.splitlines()
    assert "Collecting" not in shown.out
    assert PIP == log.read_text("utf-8").splitlines()
    command = program([*PIP, "ERROR: No matching distribution"], "sys.exit(3)")
    assert 3 == run(command, log, Installation(tmp_path))
    *_, error, last = capsys.readouterr().err.splitlines()
    assert "ERROR: No matching distribution" == error
    assert str(log) in last

    (tmp_path / "pip-26.dist-info").mkdir()
    progress = Installation(tmp_path)
    for line in PIP:
        progress.read(line)
    assert progress.line().startswith("  collecting: 3 packages, 181 MB, 0 s")
    progress.read("Installing collected packages: a, b, c, d")
    assert progress.line() == "  installing: 0 of 4 packages, 0 s"
    for name in "ab":
        (tmp_path / f"{name}-1.dist-info").mkdir()
    progress.since -= 4
    assert progress.line() == "  installing: 2 of 4 packages, 0 s, 0.5 a second, 4 s left"
