"""docs/how-to/verify.md: its commands and its Python run as printed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from project import PYTHONPATH, ROOT

PAGE = (ROOT / "docs/how-to/verify.md").read_text("utf-8")


def session(folder: Path, program: list[str]) -> str:
    """The output of a program in an empty folder; it must end well."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    environment |= {"PYTHONPATH": PYTHONPATH, "DECOMPOSERL_DATA": str(folder / "data")}
    ran = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout


def test_every_command_of_the_page_runs(tmp_path: Path):
    """In order, in one folder; the search for evidence where its package is installed."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    run = [one for one in blocks if "--retrieve" not in one or find_spec("bm25s")]
    command = f"{sys.executable} -m dagster_project.cli"
    text = "".join(run).replace(".venv/bin/decomposerl", command)
    assert len(blocks) == len(re.findall("```sh", PAGE))
    printed = session(tmp_path, ["/bin/bash", "-ec", text])
    assert len(re.findall("^  Supported$", printed, re.MULTILINE)) == text.count(" verify ") - 1
    assert '{"claim_id": "a1", ' in printed
    (shown,) = re.findall(r"^```\n(Ada.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert printed.startswith(shown)


def test_the_python_of_the_page_runs(tmp_path: Path):
    """It prints a verdict and the sentence behind it."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    printed = session(tmp_path, [sys.executable, "-c", code])
    assert printed.startswith("Supported ('Ada Brown, a swimmer, was born in Odense.',)")
