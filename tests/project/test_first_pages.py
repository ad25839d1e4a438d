"""README and tutorials: every command runs in the order of the page, and prints what it shows."""

import re
from pathlib import Path

import pytest

from page_commands import Desk, blocks, project_in
from project import ROOT
from resources.store.parquet import DataFolder
from shared_runs import DemoRun

PAGES = ("README.md", *(f"docs/tutorials/{one.name}" for one in ROOT.glob("docs/tutorials/*.md")))
EVALUATED = """```sh
.venv/bin/decomposerl evaluate self_ask-rules-faithful --benchmarks fever --limit 4
```"""
CHANGED = {
    r"^(\.venv/bin/decomposerl view)$": r"""\1 > view.log 2>&1 &
until grep http://127 view.log; do kill -0 $!; sleep 0.2; done
kill $!; wait $! || test $? -le 143""",
    r"^(\.venv/bin/decomposerl verify .*)$": r"\1 || test $? -le 3",  # 1 Refuted, 3 no verdict
    r"^(.*decomposerl doctor)( +#.*)?$": r"\1 || test $? -eq 1",  # no GPU
}


@pytest.fixture(scope="module")
def data(demo: DemoRun, warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make demo`` has made before training, and some predictions."""
    folder = demo.copied(tmp_path_factory.mktemp("data") / "data")
    desk = project_in(tmp_path_factory.mktemp("desk"), "", warm)
    status, printed = desk.run(EVALUATED, blocks(EVALUATED), DECOMPOSERL_DATA=str(folder))
    assert 0 == status, printed
    assert "the bundled sample" in printed
    return folder


def run(desk: Desk, page: str, data: Path) -> str:
    """What all blocks print, in one shell."""
    dropped = DataFolder(base_dir=str(data)).read("drops/deduplicated")["claim_id"][0]
    commands = page.replace("CLAIM_ID", dropped)
    for typed, instead in CHANGED.items():
        commands = re.sub(typed, instead, commands, flags=re.MULTILINE)
    typed_blocks = [block for block in blocks(commands) if not block.text.startswith("$ ")]
    status, printed = desk.run(page, typed_blocks)
    assert 0 == status, printed[-3_000:]
    return re.sub(r"\s+", " ", printed)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_runs_and_prints_what_the_page_shows(
    name: str, data: Path, warm: Path, tmp_path: Path
):
    """Blocks of plain text are output; in a console block, it follows the command."""
    page = (ROOT / name).read_text("utf-8")
    assert not any(block.not_run for block in blocks(page))
    (tmp_path / "data").symlink_to(data)
    printed = run(project_in(tmp_path, page, warm), page, data)
    shown = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown += re.findall(r"^```console\n\$ [^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+", " ", line).strip() for part in shown for line in part.splitlines()]
    assert [] == [line for line in lines if line not in printed]


def test_the_first_run_counts_as_the_page_says(demo: DemoRun):
    """Rows read and claims kept on the bundled sample."""
    page = (ROOT / "docs/tutorials/first-run.md").read_text("utf-8")
    kept = demo.data.read("training_claims").height
    counted = demo.data.read("attrition").filter(stage="claims")["rows"].sum()
    assert f"of {counted:,} rows, {kept:,} claims reach the training set" in page
