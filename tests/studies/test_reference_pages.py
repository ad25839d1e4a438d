"""docs/reference: every page is what the code gives, and what the pages declare is whole."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import polars as pl
import pytest
import typer

from dagster_project.cli import app
from dagster_project.environment import known_variables, read_settings
from dagster_project.settings import FIELDS, ProfileName
from decomposerl import schemas
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, other_forms
from decomposerl.claims.claim import RejectReason
from decomposerl.claims.source import Corpus, NativeFile
from decomposerl.table import Table
from project import PYTHONPATH
from resources.catalogue.database import build_catalogue
from resources.store.parquet import write_parquet
from studies.reference import commands, python_page, variables
from studies.reference.files import FILES, paths_of
from studies.reference.tables import TABLES, VIEWS
from studies.reference_pages import FOLDER, PAGES
from studies.supply import LICENCES


def test_each_page_of_the_folder_is_what_the_code_gives():
    """``make reference`` would change nothing; only licences are written elsewhere."""
    licences = {LICENCES.name, LICENCES.with_suffix(".md").name}
    assert PAGES.keys() | licences == {path.name for path in FOLDER.iterdir()}
    stale = [name for name in PAGES if PAGES[name]() != (FOLDER / name).read_text("utf-8")]
    assert [] == stale, "write them again: make reference"


def test_the_example_is_written_from_the_settings_and_each_line_is_valid(tmp_path: Path):
    """At most thirty variables; every profile accepts each."""
    text = variables.EXAMPLE.read_text("utf-8")
    assert variables.example() == text, "write it again: make reference"
    shown = dict(re.findall(r"^# ([A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert len(shown) <= 30
    (tmp_path / "corpora").mkdir()
    given = {name: value.replace("/path/to", str(tmp_path)) for name, value in shown.items()}
    assert {"DAGSTER_HOME"} == given.keys() - known_variables()
    for profile in get_args(ProfileName):
        assert profile == read_settings(given | {"DECOMPOSERL_PROFILE": profile}).profile


def test_the_page_has_every_setting():
    """In its section, or among those of a model."""
    page = (FOLDER / "variables.md").read_text("utf-8")
    shared, *sections = reversed(re.split(r"^## ", page, flags=re.MULTILINE))
    for path in FIELDS:
        titles = {f"[{path[0]}]", "Top level"} if len(path) == 1 else {f"[{path[0]}]"}
        own = [text for text in sections if text.split("\n")[0] in titles]
        assert any(f"- `{path[-1]}`" in text for text in (*own, shared)), path


def test_every_table_has_its_section():
    """Each table of the schemas, with what a row is and where its files are."""
    every = {one for name in schemas.__all__ if isinstance(one := vars(schemas)[name], Table)}
    assert every == set(TABLES)
    assert [] == [one.name for one in every if not one.row]
    assert [] == [one.name for one in every - {schemas.STAGE_RUNS} if not paths_of(one.name)]
    named = {file.table for files in FILES.values() for file in files}
    assert named - {""} <= {one.name for one in every}


def test_the_page_of_tables_has_every_reason_and_no_view_that_is_gone():
    """A reader of ``rejects.reason`` finds its value on the page."""
    page = (FOLDER / "tables.md").read_text("utf-8")
    section = page.split("\n## rejects\n")[1].split("\n## ")[0]
    assert [] == [one for one in get_args(RejectReason) if f"`{one}`" not in section]
    shown = re.findall(r"^\| `(\w+)` \|", page.split("## Views")[1], re.MULTILINE)
    assert set(VIEWS) == set(shown)


def test_every_command_has_an_example_that_parses():
    """Its words are arguments and options of the command."""
    root = typer.main.get_command(app)
    names = {
        f"{name} {sub}".strip()
        for name, one in root.commands.items()  # type: ignore[attr-defined]
        for sub in getattr(one, "commands", {"": None})
    }
    assert names == commands.EXAMPLES.keys()
    for name, example in commands.EXAMPLES.items():
        one, words = root, shlex.split(example.words)
        for part in name.split():
            one = one.commands[part]  # type: ignore[attr-defined]
            words.remove(part)
        assert one.make_context(name, words).params


class EmptyFiles:
    """An empty corpora folder, which remembers what was looked for."""

    def __init__(self) -> None:
        self.read = set[str]()

    def exists(self, path: str) -> bool:
        """It is not, so that an adapter looks at every place that it knows."""
        self.read.add(path)
        return False

    def records(self, file: NativeFile) -> Iterator[object]:
        """No row."""
        self.read.add(file.path)
        return iter(())

    def pages(self, path: str) -> None:
        """No database."""
        self.read.add(path)


def test_a_corpus_declares_every_file_that_it_reads():
    """Page databases and abstracts are in ``beside``; second shards are only looked for."""
    corpora: list[Corpus] = [*SOURCES, *BENCHMARKS]
    for corpus in corpora:
        kinds = ("files", "extra", "shared", "claim_lists")
        own = [file for kind in kinds for file in getattr(corpus, kind, ())]
        files = EmptyFiles()
        for file in own:
            list(corpus.read(files, file))  # type: ignore[arg-type]
        named = {*corpus.beside, *(file.path for file in own)}
        named |= {form for path in named for form in other_forms(path)}
        shards = {path for path in files.read if re.search(r"-00001-of-|/0001\.parquet$", path)}
        assert files.read - shards <= named, corpus.name


PYTHON = (FOLDER / "python.md").read_text("utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a drop and an empty leaderboard, as ``data`` of the working folder."""
    folder = tmp_path_factory.mktemp("python") / "data"
    nothing = {name: [None] for name in schemas.DROPS.schema}
    row = nothing | {"claim_id": ["a"], "source": ["hover"], "stage": ["deduplicated"]}
    row |= {"step": ["lexical"], "reason": ["duplicate"]}
    frame = schemas.DROPS.conform(pl.DataFrame(row, schema=schemas.DROPS.schema))
    write_parquet(frame, folder / "drops/deduplicated.parquet")
    build_catalogue(folder)
    return folder


@pytest.mark.parametrize("subject", python_page.SUBJECTS, ids=lambda one: one.title)
def test_the_python_of_the_page_runs(subject: python_page.Subject, data: Path):
    """As printed, in an empty environment, and it prints what the page says."""
    assert f"```python\n{subject.example}```" in PYTHON
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    environment |= {"PYTHONPATH": PYTHONPATH, "DECOMPOSERL_DATA": str(data)}
    ran = subprocess.run(
        [sys.executable, "-c", subject.example],
        cwd=data.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    assert (subject.prints or ran.stdout) == ran.stdout
    assert ran.stdout
