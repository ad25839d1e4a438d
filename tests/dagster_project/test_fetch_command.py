"""``decomposerl fetch``: terms before anything else, what is left to a person, and the list."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from decomposerl.claims.addresses import ACCESS
from file_server import Fault, FileServer
from resources.hub.download import LOCK_FILE

SCITAB = ACCESS["scitab"].downloads[0]
CONTENT = b"[]"


def run(*words: str, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(app, ["fetch", *words])


@pytest.fixture
def mirror() -> Iterator[FileServer]:
    """A mirror with SciTab's file, whose content is not the published one."""
    with FileServer({"/" + SCITAB.url.partition("://")[2]: CONTENT}) as server:
        yield server


def refused(result: Result, *words: str) -> None:
    assert 2 == result.exit_code
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in words), result.stderr


def test_terms_come_first_and_are_accepted_once(tmp_path: Path, mirror: FileServer):
    """Nothing is requested before they are accepted; shown again once they have changed."""
    words = ("scitab", "--corpora", str(tmp_path), "--mirror", mirror.url())
    shown = run(*words, "--accept-changed")
    refused(shown, "--accept-terms")
    assert all(word in shown.stdout for word in ("SciTab (scitab)", "2.3 MB", "MIT"))
    assert [] == mirror.seen
    refused(run(*words, "--accept-terms"), "2 bytes", "2,292,807", "--accept-changed")
    assert not (tmp_path / "scitab/sci_tab.json").exists()
    accepted = run(*words, "--accept-terms", "--accept-changed")
    assert 0 == accepted.exit_code, accepted.stderr
    assert CONTENT == (tmp_path / "scitab/sci_tab.json").read_bytes()
    again = run(*words, "--accept-changed")
    assert f"{tmp_path}/scitab/sci_tab.json (as fetched before)\n" == again.stdout
    assert 2 == len(mirror.seen)
    lock = tmp_path / LOCK_FILE
    text = lock.read_text("utf-8")
    digest = text.partition('accepted = "')[2].split(" on ")[0]
    assert 12 == len(digest)
    lock.write_text(text.replace(digest, "0" * 12), "utf-8")
    refused(run(*words, "--accept-changed"), "--accept-terms")


def test_a_step_for_a_person_is_said_and_ends_with_1(tmp_path: Path):
    """What to open, which files, which folder; once they are there nothing is left."""
    words = ("ambifc", "--corpora", str(tmp_path), "--accept-terms")
    said = run(*words)
    assert 1 == said.exit_code
    assert "https://drive.google.com/drive/folders/" in said.stdout
    assert "train.certain.jsonl" in said.stdout
    for_programs = run(*words, "--json")
    assert ([], True) == (json.loads(for_programs.stdout), "train.certain" in for_programs.stderr)
    for path in ACCESS["ambifc"].placed:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"{}\n")
    done = run(*words)
    assert (0, "") == (done.exit_code, done.stdout)


def test_one_failure_does_not_stop_the_others(tmp_path: Path, mirror: FileServer):
    """Every failed corpus is named; the exit code says that not all are there."""
    mirror.faults["/" + SCITAB.url.partition("://")[2]] = [Fault(503), Fault(200, body=CONTENT)]
    words = ("pubmedclaim", "scitab", "--corpora", str(tmp_path), "--mirror", mirror.url())
    result = run(*words, "--accept-terms", "--accept-changed")
    refused(result, "pubmedclaim: pubmedqa/ori_pqal.json: 127.0.0.1")
    assert f"{tmp_path}/scitab/sci_tab.json\n" == result.stdout.splitlines(keepends=True)[-1]


def test_the_list_has_every_corpus_with_what_a_user_needs(tmp_path: Path):
    """JSON: all facts of the table. Text: one row each, and what is on disk."""
    rows = json.loads(run("--list", "--json").stdout)
    assert list(ACCESS) == [row["name"] for row in rows]
    for row in rows:
        assert all((row["license"], row["terms"], row["files"]))
        assert row["homepage"].startswith("https://")
        assert all(file["address"] or row["obtained"] == "manual" for file in row["files"])
        assert all(file["checked_in"] for file in row["files"])
    by_name = {row["name"]: row for row in rows}
    assert "hub, gated" == by_name["llm_aggrefact"]["obtained"]
    assert "decomposerl fetch hover --pages" == by_name["hover"]["command"]
    (tmp_path / "scitab").mkdir()
    (tmp_path / "scitab" / "sci_tab.json.gz").write_bytes(b"")
    shown = run("--list", "scitab", "wice", "--corpora", str(tmp_path), env={"COLUMNS": "160"})
    assert "1 of 1" in shown.stdout
    assert "0 of 5" in shown.stdout
    assert "hover" not in shown.stdout


def local_hub(root: Path) -> str:
    """A hub in a folder that holds LLM-AggreFact at revision ``r1``."""
    location = ACCESS["llm_aggrefact"].hub
    assert location is not None
    folder = root / location.repo_id
    for name, _ in location.files:
        (folder / "r1" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "r1" / name).write_bytes(name.encode())
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("r1", "utf-8")
    return root.as_uri()


def test_a_corpus_of_the_hub_is_pinned(tmp_path: Path):
    """Files land in the corpora folder, the revision in the lock; both entries stay."""
    corpora, endpoint = tmp_path / "corpora", local_hub(tmp_path / "hub")
    words = ("llm_aggrefact", "--corpora", str(corpora), "--endpoint", endpoint)
    result = run(*words, "--accept-terms", "--json")
    assert 0 == result.exit_code, result.stderr
    rows = json.loads(result.stdout)
    assert ["llm_aggrefact/dev.parquet", "llm_aggrefact/test.parquet"] == [
        row["path"] for row in rows
    ]
    assert (corpora / "llm_aggrefact" / "dev.parquet").is_file()
    lock = (corpora / LOCK_FILE).read_text("utf-8")
    assert 'revision = "r1"' in lock
    assert "accepted = " in lock
    refused(run(*words, "--revision", "r9"), "no revision 'r9'")


def test_the_doctor_names_the_command_for_what_is_not_there(tmp_path: Path):
    """A note for each corpus of the folder that is not complete; none stops a run."""
    file = tmp_path / "scitab/sci_tab.json"
    file.parent.mkdir()
    env = {"DECOMPOSERL_CORPORA": str(tmp_path), "DECOMPOSERL_PROFILE": "embedded"}
    command = "decomposerl fetch scitab"
    for size, words in ((SCITAB.size, ("1 of 16", "fetch hover")), (9, ("move it away", command))):
        file.touch()
        os.truncate(file, size)
        done = CliRunner(env=env).invoke(app, ["doctor", "--data", str(tmp_path / "data")])
        assert 0 == done.exit_code, done.output
        assert [] == [word for word in words if word not in done.stdout]
        assert (size == 9) == (command in done.stdout)


def test_a_cut_file_of_a_person_counts_as_damaged_until_it_is_dealt_with(
    tmp_path: Path, mirror: FileServer
):
    """The list, a fetch and its next steps: move it away, or keep it as it is."""
    folder = tmp_path / "scitab"
    folder.mkdir()
    (folder / "sci_tab.json").write_bytes(b"[{")
    to = ("scitab", "--corpora", str(tmp_path))
    env = {"COLUMNS": "160"}
    shown = run("--list", *to, env=env)
    assert "0 of 1" in shown.stdout
    step = "2 bytes where 2,292,807 are published; move it away, then decomposerl fetch scitab"
    assert step in " ".join(shown.stderr.split())
    words = (*to, "--mirror", mirror.url(), "--accept-terms")
    refused(run(*words), "sci_tab.json was there before", "Move it away", "--accept-changed")
    assert b"[{" == (folder / "sci_tab.json").read_bytes()
    assert 0 == run(*words, "--accept-changed").exit_code
    listed = run("--list", *to, env=env)
    assert ("1 of 1" in listed.stdout, "") == (True, listed.stderr)
    assert [] == mirror.seen
    (folder / "sci_tab.json").write_bytes(b"edited since")
    again = run(*words, "--accept-changed")
    assert "what was at scitab/sci_tab.json is sci_tab.json.replaced-1" in again.stderr
    assert CONTENT == (folder / "sci_tab.json").read_bytes()
