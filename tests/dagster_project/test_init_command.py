"""``decomposerl init corpus``: a source.toml that loads, from the user's file, and its preview."""

import gzip
import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from bridge_corpus import block, bridge_corpus
from dagster_project.cli import app
from dagster_project.profiles import Profile, benchmarks_for, sources_for
from decomposerl.claims.load import LoadSettings, load_source
from resources.corpora.folder import FolderCorpora

ROWS: list[dict[str, object]] = [
    {
        "note_id": n,
        "statement": f"Bridge {n} was painted in 2011.",
        "report": {"text": f"Bridge {n} was painted in 2011. It took a month. It is blue."},
        "verdict": ("holds", "fails", "unclear", "odd")[n % 4],
    }
    for n in range(12)
]
FLAT = [
    {**row, "report": row["statement"] + " It took a month." + " It is blue." * (1 + 8 * (n == 0))}
    for n, row in enumerate(ROWS)
]
"""The same in one level, the first with long evidence."""


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    line = ["init", "corpus", name, "--from", str(file), "--corpora", str(corpora), *words]
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, line)


def written(folder: Path, ending: str) -> Path:
    """The rows in a file of this format; a CSV has no nested objects."""
    file = folder / f"notes{ending}"
    lines = "\n".join(map(json.dumps, ROWS))
    if ending == ".jsonl":
        file.write_text(lines, "utf-8")
    elif ending == ".jsonl.gz":
        file.write_bytes(gzip.compress(lines.encode()))
    elif ending == ".csv":
        pl.DataFrame(FLAT).write_csv(file)
    else:
        pl.DataFrame(ROWS).write_parquet(file)
    return file


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".csv", ".parquet"])
def test_the_corpus_is_read_as_it_was_written(ending: str, tmp_path: Path):
    """The file is copied; every row becomes a claim or a drop, none a reject."""
    file, corpora = written(tmp_path, ending), tmp_path / "corpora"
    done = init("bridge_notes", file, corpora)
    assert 0 == done.exit_code, done.output
    assert "were not recognised: move each to its side" in done.stdout
    assert f"DECOMPOSERL_CORPORA={corpora} decomposerl run claims/bridge_notes" in done.stdout
    assert file.read_bytes() == (corpora / "bridge_notes" / file.name).read_bytes()
    source = sources_for(Profile("embedded", corpora, tmp_path))[-1]
    loaded = load_source(source, None, FolderCorpora(corpora), LoadSettings())
    assert ("bridge_notes", 12, 0) == (source.name, loaded.rows_read, loaded.rejects.height)
    assert {"Supported": 3, "Refuted": 3} == dict(loaded.claims["label"].value_counts().rows())
    assert {"middle_class": 3, "no_verdict": 3} == dict(
        loaded.drops["reason"].value_counts().rows()
    )
    text = (corpora / "bridge_notes/source.toml").read_text("utf-8")
    assert 'refuted = ["fails"]  # rows: 3' in text
    assert 'supported = ["holds"]  # rows: 3' in text
    assert 'claim = "statement"  # Bridge 0 was painted in 2011.' in text


def test_a_file_in_the_corpora_folder_is_named_where_it_is(tmp_path: Path):
    """No copy; a test file becomes a test set."""
    (tmp_path / "raw").mkdir()
    file = tmp_path / "raw/notes_test.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    done = init("bridge_notes", file, tmp_path, "--supported", "odd", "--supported", "holds")
    assert 0 == done.exit_code, done.output
    assert ["source.toml"] == [path.name for path in (tmp_path / "bridge_notes").iterdir()]
    own = benchmarks_for(Profile("embedded", tmp_path, tmp_path))[-1]
    assert ["raw/notes_test.jsonl"] == [each.path for each in own.files]
    assert {"odd", "holds"} == own.labels.supported
    assert "decomposerl run benchmark/bridge_notes" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path):
    """Neither a source.toml nor rows of the same name; labels far down the file are counted."""
    file, corpora = tmp_path / "notes.jsonl", tmp_path / "corpora"
    many = [{**ROWS[0], "note_id": n} for n in range(700)] + [ROWS[1]]
    file.write_text("\n".join(map(json.dumps, many)), "utf-8")
    assert 0 == init("own", file, corpora).exit_code
    text = (corpora / "own/source.toml").read_text("utf-8")
    assert 'refuted = ["fails"]  # rows: 1' in text
    again = init("own", file, corpora)
    assert (2, 1) == (again.exit_code, len(again.stderr.splitlines()))
    assert "source.toml" in again.stderr
    assert text == (corpora / "own/source.toml").read_text("utf-8")
    (corpora / "own/source.toml").unlink()
    file.write_text("{}", "utf-8")
    kept = init("own", file, corpora)
    assert (2, True) == (kept.exit_code, "notes.jsonl" in kept.stderr)
    assert b"{}" != (corpora / "own/notes.jsonl").read_bytes()


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


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_guess_is_shown_without_a_trace(tmp_path: Path):
    """The first claims with label and passages, the rows by label and drop; no folder is made."""
    corpora = tmp_path / "corpora"
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, FLAT)), "utf-8")
    before = everything(tmp_path)
    done = init("notes", file, corpora, "--preview", "2")
    assert 0 == done.exit_code, done.output
    assert before == everything(tmp_path)
    assert not corpora.exists()
    text = done.stdout
    assert "claims/notes: 12 rows from notes/notes.jsonl; status ok" in text
    assert "1. Supported (native 'holds'), id '0'" in text
    first = FLAT[0]["statement"]
    assert f"   claim: {first}\n   [0] {first}\n   [1] It took a month.\n   [2] It is" in text
    assert "   and 3 more\n" in text
    assert "2. Refuted (native 'fails'), id '1'" in text
    assert "3. " not in text
    assert {"Supported": 3, "Refuted": 3, "dropped: middle_class": 3}.items() <= counts(
        text
    ).items()


def counts(text: str) -> dict[str, int]:
    """The numbers of rows that a preview shows."""
    lines = re.findall(r"^ {2,}(\d+)  (.+)$", text, re.MULTILINE)
    return {what: int(count) for count, what in lines}


def test_a_source_toml_that_is_there_is_shown_with_its_rejects(tmp_path: Path):
    """Training and test files; the labels that no list has; how many rejects are too many."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "source.toml").write_text(TOML, "utf-8")
    words = ["init", "corpus", "notes", "--corpora", str(tmp_path), "--preview", "5"]
    empty = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert 0 == empty.exit_code
    assert "claims/notes: 0 rows from no file that is there; status not_available" in empty.stdout
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, FLAT)), "utf-8")
    bare = {**FLAT[0], "report": None}
    (folder / "test.jsonl").write_text(json.dumps(bare) + "\n" + json.dumps(FLAT[2]), "utf-8")
    before = everything(tmp_path)
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert 0 == done.exit_code, done.output
    assert before == everything(tmp_path)
    trained, tested = done.stdout.split("benchmark/notes: ")
    assert list("12345") == re.findall(r"^(\d)\. ", trained, re.MULTILINE)
    rejected = "rejected: unknown_label label, first notes/a.jsonl:4: odd"
    assert (3, True) == (counts(trained)[rejected], "'odd' (3)" in trained)
    assert "25.0%" in trained
    assert "5.0%" in trained
    assert "2 rows from notes/test.jsonl" in tested
    assert "1. no label (native 'unclear')" in tested
    assert "rejected: missing_field report, first notes/test.jsonl:1" in tested


def test_the_pages_command_shows_the_pages_corpus(tmp_path: Path):
    """As printed, in the folder that it is run with."""
    bridge_corpus(tmp_path)
    (line,) = [line for line in block("sh").splitlines() if "--preview" in line]
    words = shlex.split(line)
    assert ".venv/bin/decomposerl" == words[0]
    environment = {"DECOMPOSERL_CORPORA": str(tmp_path), "COLUMNS": "200"}
    done = CliRunner(env=environment).invoke(app, words[1:])
    assert 0 == done.exit_code, done.output
    shown = counts(done.stdout)
    assert (22, 1) == (shown["Supported"], shown["dropped: no_verdict"])
    assert "'?' (1)" in done.stdout
