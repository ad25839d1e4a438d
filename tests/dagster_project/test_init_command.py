"""``decomposerl init corpus``: a source.toml that loads, from the user's file."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

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


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    line = ["init", "corpus", name, "--from", str(file), "--corpora", str(corpora), *words]
    return CliRunner().invoke(app, line)


def written(folder: Path, ending: str) -> Path:
    """The rows in a file of this format; a CSV has no nested objects."""
    file = folder / f"notes{ending}"
    flat = [{**row, "report": row["report"]["text"]} for row in ROWS]  # type: ignore[index]
    lines = "\n".join(map(json.dumps, ROWS))
    if ending == ".jsonl":
        file.write_text(lines, "utf-8")
    elif ending == ".jsonl.gz":
        file.write_bytes(gzip.compress(lines.encode()))
    elif ending == ".csv":
        pl.DataFrame(flat).write_csv(file)
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


def test_labels_far_down_the_file_are_counted(tmp_path: Path):
    """Those that the first rows do not have."""
    file = tmp_path / "rows.jsonl"
    many = [{**ROWS[0], "note_id": n} for n in range(700)] + [ROWS[1]]
    file.write_text("\n".join(map(json.dumps, many)), "utf-8")
    assert 0 == init("own", file, tmp_path / "corpora").exit_code
    text = (tmp_path / "corpora/own/source.toml").read_text("utf-8")
    assert 'refuted = ["fails"]  # rows: 1' in text


def test_nothing_is_overwritten(tmp_path: Path):
    """Neither a source.toml nor rows of the same name."""
    file, corpora = written(tmp_path, ".jsonl"), tmp_path / "corpora"
    assert 0 == init("own", file, corpora).exit_code
    before = (corpora / "own/source.toml").read_bytes()
    again = init("own", file, corpora)
    assert (2, 1) == (again.exit_code, len(again.stderr.splitlines()))
    assert "source.toml is there already" in again.stderr
    (corpora / "own/source.toml").unlink()
    file.write_text("{}", "utf-8")
    kept = init("own", file, corpora)
    assert 2 == kept.exit_code
    assert "notes.jsonl is there already; name it with --from" in kept.stderr
    assert before != b"{}" != (corpora / "own/notes.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        ("hover", None, (), "the corpus name 'hover' is taken"),
        ("Own", None, (), "source.name"),
        ("../own", None, (), "must be below the corpora folder"),
        ("own", "", (), "has no row that can be read"),
        ("own", "[1]\n", (), "no row that can be read: malformed_line, not an object"),
        ("own", '{"a": 1}', (), "no column looks like the label: name it with --label"),
        ("own", None, ("--claim", "x"), "--claim: there is no column 'x'"),
        ("own", None, ("--refuted", "x"), "no row has the label 'x'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    name: str, content: str | None, words: tuple[str, ...], said: str, tmp_path: Path
):
    """A name that is taken or wrong, a file without rows, columns or labels that are not there."""
    file, corpora = written(tmp_path, ".jsonl"), tmp_path / "corpora"
    if content is not None:
        file.write_text(content, "utf-8")
    done = init(name, file, corpora, *words)
    assert (2, "", 1) == (done.exit_code, done.stdout, len(done.stderr.splitlines())), done.output
    assert said in done.stderr
    assert [] == [path for path in corpora.rglob("*") if path.is_file()]


def test_a_corpora_folder_is_needed(tmp_path: Path):
    """As for fetch."""
    line = ["init", "corpus", "own", "--from", str(written(tmp_path, ".jsonl"))]
    done = CliRunner(env={"DECOMPOSERL_CORPORA": ""}).invoke(app, line)
    assert 2 == done.exit_code
    assert "give --corpora FOLDER or set DECOMPOSERL_CORPORA" in done.stderr
