"""The corpus that docs/how-to/add-a-corpus.md describes, and the commands of the page."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from project import ROOT

PAGE = (ROOT / "docs/how-to/add-a-corpus.md").read_text(encoding="utf-8")
Rows = list[dict[str, object]]


def block(language: str, place: int = 0) -> str:
    """One of the page's code blocks in one language."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found[place]


def write_jsonl(path: Path, rows: Rows) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows))


def page_lines() -> list[str]:
    """The runs that the page gives for a new corpus."""
    return [line for line in block("sh").splitlines() if "decomposerl run" in line]


def bridge_corpus(folder: Path) -> None:
    """The page's corpus with enough rows for the funnel to have something to drop."""
    (folder / "bridge_notes").mkdir(parents=True)
    (folder / "bridge_notes/source.toml").write_text(block("toml"), "utf-8")
    row = json.loads(block("json"))
    rows = [{**row, "note_id": i, "statement": f"Bridge {i} was repainted."} for i in range(22)]
    rows += [{**row, "note_id": 30, "verdict": "duplicate"}, {**row, "note_id": 31, "verdict": "?"}]
    write_jsonl(folder / "bridge_notes/train.jsonl", rows)


def run_line(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one line of the page on the folder's corpora and data."""
    return _run(["dagster_project.cli", *shlex.split(line)[1:]], folder)


def materialize(folder: Path) -> subprocess.CompletedProcess[str]:
    """Read the corpus with Dagster's own command."""
    words = ["asset", "materialize", "-m", "dagster_project.definitions"]
    return _run(["dagster", *words, "--select", 'key:"claims/bridge_notes"'], folder)


def _run(module: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    history = folder / "history"
    history.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "DAGSTER_HOME": str(history),
            "DECOMPOSERL_CORPORA": str(folder / "corpora"),
            "DECOMPOSERL_DATA": str(folder / "data"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
