"""Temporary files: whole or not at all, and what killed writers leave is removed by the next."""

import os
import subprocess
import sys
import time
from errno import ENOSPC
from pathlib import Path

import pytest

from project import ROOT
from resources.corpora.bundled_sample import ensure_sample, fingerprint
from resources.store.temporary import aside, remove_abandoned, replace_file
from sample import Sample
from toy_corpus import write_sample

WRITER = """
import sys, time
from pathlib import Path
from resources.store.temporary import aside
with aside(Path(sys.argv[1]), sys.argv[2]) as temporary:
    if sys.argv[2] == "writing":
        temporary.mkdir()
        temporary = temporary / "part"
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def writer(target: Path, ending: str = "partial") -> subprocess.Popen[str]:
    """A process in the middle of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(target), ending],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """As the system does when memory runs out."""
    process.kill()
    process.communicate()


@pytest.mark.parametrize("ending", ["partial", "building", "writing"])
def test_what_a_killed_writer_left_is_removed_and_a_living_ones_is_not(tmp_path: Path, ending: str):
    """By the next writer into the folder, whatever that one writes; the old file stays."""
    (tmp_path / "dead").write_text("old")
    dead, living = writer(tmp_path / "dead", ending), writer(tmp_path / "living", ending)
    try:
        kill(dead)
        assert "old" == (tmp_path / "dead").read_text()
        assert 3 == len(list(tmp_path.iterdir()))
        replace_file(tmp_path / "other", lambda path: path.write_text("whole"))
        (left,) = [path for path in tmp_path.iterdir() if path.name not in {"other", "dead"}]
        assert left.name.startswith(".living.")
    finally:
        kill(living)
    remove_abandoned(tmp_path)
    assert {"other", "dead"} == {path.name for path in tmp_path.iterdir()}


def test_a_process_with_the_number_of_a_dead_one_removes_its_files(tmp_path: Path):
    """In a container every start may have the same number; its own files are in use."""
    with aside(tmp_path / "a") as own:
        start = own.name.split("-")[2].split(".")[0]
        own.write_text("in use")
        earlier = own.with_name(own.name.replace(start, "0" * 8))
        earlier.write_text("left")
        remove_abandoned(tmp_path)
        assert (True, False) == (own.exists(), earlier.exists())
    assert [] == list(tmp_path.iterdir())


def test_files_of_another_machine_and_of_earlier_versions_go_after_an_hour(tmp_path: Path):
    """Whether their writers live is not known; nothing that is no temporary name is touched."""
    names = [
        f".a.{'0' * 8}-1-{'1' * 8}.partial",
        ".a.parquet.99.partial",
        ".writing-abc",
        f".decomposerl.duckdb.{'2' * 32}.building.wal",
    ]
    kept = [".a.partial", "a.partial", ".gitignore", "x.1-2-3.partial", ".hidden"]
    for name in (*names, *kept):
        (tmp_path / name).write_text("")
    remove_abandoned(tmp_path)
    assert len(names) + len(kept) == len(list(tmp_path.iterdir()))
    hours_ago = time.time() - 2 * 3600
    for path in tmp_path.iterdir():
        os.utime(path, (hours_ago, hours_ago))
    remove_abandoned(tmp_path)
    assert set(kept) == {path.name for path in tmp_path.iterdir()}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    """A full disk, for one, is reported without a name: the target's is added."""
    target = tmp_path / "a"
    target.write_text("old")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        replace_file(target, fail)
    assert [("a", "old")] == [(path.name, path.read_text()) for path in tmp_path.iterdir()]


def test_the_next_start_finds_the_sample_without_left_overs(sample: Sample, tmp_path: Path):
    """What a killed generator left is gone, even where nothing is written."""
    target = write_sample(sample, tmp_path / fingerprint())
    kill(writer(target, "writing"))
    assert 2 == len(list(tmp_path.iterdir()))
    assert target == ensure_sample(tmp_path)
    assert [target] == list(tmp_path.iterdir())
