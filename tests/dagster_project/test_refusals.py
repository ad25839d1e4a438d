"""What each command refuses: one line that names what is wrong, and nothing is written."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from fixture_data import build
from metrics_parts import sample, write
from planted_traces.planting import planted_traces
from project import ROOT
from resources.catalogue.database import build_catalogue
from tables import cases_beside
from toy_corpus import corpus
from trace_runs import write_traces

ROWS = cases_beside(__file__, "refusals")
NOTE = {"note_id": 1, "statement": "It is blue.", "report": "It is blue.", "verdict": "holds"}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Traces, predictions with labels, rows, corpora, and an instance that never gets a run."""
    folder = tmp_path_factory.mktemp("given")
    write_traces(folder / "traces")
    build_catalogue(build(folder / "world").data)
    corpus(folder / "corpora", claims=3)
    (folder / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", folder / "home")
    lines = "".join(f"{trace.line()}\n" for trace in planted_traces(claims=1))
    (folder / "traces.jsonl").write_text(lines, "utf-8")
    for name, rows in zip(("said.csv", "gold.csv"), sample(), strict=True):
        write(folder / name, rows)
    write(folder / "notes.jsonl", [NOTE, NOTE | {"note_id": 2, "verdict": "fails"}])
    yield folder
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        assert 0 == instance.get_runs_count()


def everything(*folders: Path) -> dict[Path, bytes]:
    """The files below folders, without those of Dagster's instance."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if "home" not in path.parts}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["run"])
def test_a_refusal_is_one_line_and_writes_nothing(row: dict[str, Any], given: Path, tmp_path: Path):
    """Exit code 2; the message has the names; no traceback, no output, no file, no secret."""
    for name, text in row.get("files", {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    def filled(text: str) -> str:
        return text.replace("{f}", str(given)).replace("{t}", str(tmp_path))

    env = {"DATA": given / "data", "CORPORA": given / "corpora", "SYSTEMS": None, "PROFILE": None}
    named = {f"DECOMPOSERL_{name}": value and str(value) for name, value in env.items()}
    home = {"DAGSTER_HOME": str(given / "home"), "COLUMNS": "400", "NO_COLOR": "1"}
    before = everything(given, tmp_path)
    more = {name: filled(value) for name, value in row.get("env", {}).items()}
    words = shlex.split(filled(row["run"]))
    done = CliRunner(env=named | home | more).invoke(app, words, input=row.get("input"))
    said = " ".join(done.stderr.replace("│", " ").split())
    assert (2, "") == (done.exit_code, done.stdout), done.output
    assert [] == [name for name in map(filled, row["says"]) if name not in said], said
    lines = len(done.stderr.splitlines())
    assert row.get("list", 1) in {True, lines} or "Usage: " in said, done.stderr
    assert "Traceback" not in said
    assert "hidden7391" not in said
    assert before == everything(given, tmp_path)
