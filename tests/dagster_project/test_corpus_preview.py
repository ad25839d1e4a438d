"""``decomposerl init corpus --preview``: claims as they would be read, and nothing written."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bridge_corpus import block, bridge_corpus
from dagster_project.cli import app

ROWS = [
    {
        "note_id": n,
        "statement": f"Bridge {n} was painted in 2011.",
        "report": f"Bridge {n} was painted in 2011. It took a month. "
        + "It is blue. " * (n == 0) * 9,
        "verdict": ("holds", "fails", "unclear", "odd")[n % 4],
    }
    for n in range(12)
]
TOML = """
[source]
name = "notes"
title = "Notes"
[files]
train = ["notes/a.jsonl"]
test = ["notes/test.jsonl"]
[columns]
claim = "statement"
evidence = "report"
label = "verdict"
id = "note_id"
[evidence]
split = "sentences"
[labels]
supported = ["holds"]
refuted = ["fails"]
middle = ["unclear"]
"""


def init(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", "corpus", *words])


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_guess_is_shown_without_a_trace(tmp_path: Path):
    """The first claims with label and passages, the rows by label and drop; no folder is made."""
    file, corpora = tmp_path / "notes.jsonl", tmp_path / "corpora"
    file.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    before = everything(tmp_path)
    done = init("notes", "--from", str(file), "--corpora", str(corpora), "--preview", "2")
    assert 0 == done.exit_code, done.output
    assert before == everything(tmp_path)
    assert not corpora.exists()
    text = done.stdout
    assert "claims/notes: 12 rows from notes/notes.jsonl; status ok" in text
    assert "1. Supported (native 'holds'), id '0'" in text
    assert "   claim: Bridge 0 was painted in 2011.\n   [0] Bridge 0 was painted in 2011.\n" in text
    assert "   [1] It took a month.\n   [2] It is blue.\n" in text
    assert "   and 3 more\n" in text
    assert "2. Refuted (native 'fails'), id '1'" in text
    assert "3. " not in text
    lines = [line.split(None, 1) for line in text.splitlines() if line.startswith("       ")]
    assert {"Supported": "3", "Refuted": "3", "dropped: middle_class": "3"}.items() <= {
        what: count for count, what in lines
    }.items()


def test_a_source_toml_that_is_there_is_shown_with_its_rejects(tmp_path: Path):
    """Training and test files; the labels that no list has; how many rejects are too many."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "source.toml").write_text(TOML, "utf-8")
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    bare = {**ROWS[0], "report": None}
    (folder / "test.jsonl").write_text(json.dumps(bare) + "\n" + json.dumps(ROWS[2]), "utf-8")
    before = everything(tmp_path)
    done = init("notes", "--corpora", str(tmp_path), "--preview", "5")
    assert 0 == done.exit_code, done.output
    assert before == everything(tmp_path)
    trained, tested = done.stdout.split("benchmark/notes: ")
    assert ["1.", "2.", "3.", "4.", "5."] == [
        line.split()[0] for line in trained.splitlines() if line[1:3] == ". "
    ]
    assert "       3  rejected: unknown_label label, first notes/a.jsonl:4: odd" in trained
    assert "unknown labels: 'odd' (3)" in trained
    assert "25.0% of the rows are rejects; above 5.0% the corpus is not read" in trained
    assert "2 rows from notes/test.jsonl" in tested
    assert "1. no label (native 'unclear')" in tested
    assert "rejected: missing_field report, first notes/test.jsonl:1: is absent or null" in tested


@pytest.mark.parametrize(
    ("words", "toml", "said"),
    [
        (("--preview", "5"), None, "source.toml is not there: name a file of rows with --from"),
        ((), None, "name the file of its rows with --from"),
        (("--preview", "5"), "[source]", "source.title: is missing"),
    ],
)
def test_what_cannot_be_shown_is_said(
    words: tuple[str, ...], toml: str | None, said: str, tmp_path: Path
):
    """No file of rows, a source.toml with mistakes, no claim to show."""
    if toml is not None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes/source.toml").write_text(toml, "utf-8")
    done = init("notes", "--corpora", str(tmp_path), *words)
    assert 2 == done.exit_code, done.output
    assert said in " ".join(done.stderr.split())


def test_files_that_are_absent_are_no_error(tmp_path: Path):
    """The preview says so."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/source.toml").write_text(TOML, "utf-8")
    done = init("notes", "--corpora", str(tmp_path), "--preview", "5")
    assert 0 == done.exit_code
    assert "claims/notes: 0 rows from no file that is there; status not_available" in done.stdout


def test_the_pages_command_shows_the_pages_corpus(tmp_path: Path):
    """As printed, in the folder that it is run with."""
    bridge_corpus(tmp_path)
    (line,) = [line for line in block("sh").splitlines() if "--preview" in line]
    words = shlex.split(line)
    assert ".venv/bin/decomposerl" == words[0]
    environment = {"DECOMPOSERL_CORPORA": str(tmp_path), "COLUMNS": "200"}
    done = CliRunner(env=environment).invoke(app, words[1:])
    assert 0 == done.exit_code, done.output
    assert "      22  Supported" in done.stdout
    assert "       1  dropped: no_verdict" in done.stdout
    assert "unknown labels: '?' (1)" in done.stdout
