"""README and tutorials: every command runs in the order of the page, and prints what it shows."""

import re
import shutil
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.definitions import build_definitions
from dagster_project.job_runs import read_config
from dagster_project.profiles import Profile
from page_commands import Desk, blocks, project_in
from project import ROOT
from resources.store.parquet import DataFolder

PAGES = ("README.md", *(f"docs/tutorials/{one.name}" for one in ROOT.glob("docs/tutorials/*.md")))
CONFIG = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}} | read_config("demo.yaml")
EVALUATED = """```sh
.venv/bin/decomposerl evaluate self_ask-rules-faithful --benchmarks fever --limit 4
```"""
VIEW = re.compile(r"^(\.venv/bin/decomposerl view)$", re.MULTILINE)
SERVED = r"""\1 > view.log 2>&1 &
until grep http://127 view.log; do kill -0 $!; sleep 0.2; done
kill $!; wait $! || test $? -le 143"""
DOCTOR = re.compile(r"^(.*decomposerl doctor)( +#.*)?$", re.MULTILINE)
VERIFY = re.compile(r"^(\.venv/bin/decomposerl verify .*)$", re.MULTILINE)
MATERIALIZE = re.compile(r"^.*dagster asset materialize.*$", re.MULTILINE)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make demo`` has made before training, and some predictions."""
    profile = Profile("embedded", None, tmp_path_factory.mktemp("data"))
    with dg.instance_for_test() as instance:
        job = build_definitions(profile).resolve_job_def("funnel")
        job.execute_in_process(run_config=CONFIG, instance=instance, raise_on_error=True)
    desk = project_in(tmp_path_factory.mktemp("desk"), "")
    status, printed = desk.run(EVALUATED, blocks(EVALUATED), DECOMPOSERL_DATA=str(profile.data))
    assert 0 == status, printed
    assert "Scored on invented claims (the bundled sample)" in printed
    return profile.data


@pytest.fixture(params=PAGES)
def walked(request: pytest.FixtureRequest, data: Path, tmp_path: Path) -> tuple[str, str]:
    """A page, and what all of its commands printed."""
    page = (ROOT / request.param).read_text("utf-8")
    shutil.copytree(data, tmp_path / "data")
    found = blocks(page)
    assert not any(block.not_run for block in found)
    return page, run(project_in(tmp_path, page), page, data)


def run(desk: Desk, page: str, data: Path) -> str:
    """All blocks in one shell; lines of ``dagster`` are run by ``test_pipeline``."""
    dropped = DataFolder(base_dir=str(data)).read("drops/deduplicated")["claim_id"][0]
    commands = MATERIALIZE.sub("true", VIEW.sub(SERVED, page)).replace("CLAIM_ID", dropped)
    commands = VERIFY.sub(r"\1 || test $? -le 3", commands)  # 1 is Refuted, 3 no verdict
    commands = DOCTOR.sub(r"\1 || test $? -eq 1", commands)  # what a GPU machine has is missing
    typed = [block for block in blocks(commands) if not block.text.startswith("$ ")]
    status, printed = desk.run(page, typed)
    assert 0 == status, printed[-3_000:]
    return re.sub(r"\s+", " ", printed)


def test_every_command_runs_and_prints_what_the_page_shows(walked: tuple[str, str]):
    """Blocks of plain text are output; in a console block, it follows the command."""
    page, printed = walked
    shown = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown += re.findall(r"^```console\n\$ [^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for output in shown:
        for line in output.splitlines():
            assert re.sub(r"\s+", " ", line).strip() in printed


def test_the_first_run_counts_as_the_page_says(data: Path):
    """Rows read and claims kept on the bundled sample."""
    page = (ROOT / "docs/tutorials/first-run.md").read_text("utf-8")
    folder = DataFolder(base_dir=str(data))
    kept = folder.read("training_claims").height
    counted = folder.read("attrition").filter(stage="claims")["rows"].sum()
    assert f"of {counted:,} rows, {kept:,} claims reach the training set" in page
