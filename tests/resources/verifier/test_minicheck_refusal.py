"""The profiles with MiniCheck in a process of their own: which form they find, and what they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minicheck_package import write_package
from project import ROOT

FILE = """<!-- section: system -->
Weigh.
<!-- section: user -->
{document} {claim}
<!-- section: pair -->
held: {document}{separator}{claim}
"""
FORM = """
import sys
from dagster_project.engine_choices import engine_choices
from dagster_project.engine_resources import engine_resources
from decomposerl.errors import EngineError, EngineMissing
profile, results, folder, *changed = sys.argv[1:]
choices = engine_choices(profile, dict(one.split("=", 1) for one in changed))
verifier = engine_resources(choices, results)["verifier"]
changes = {"model_path": folder, "revision": "0123456789abcdef" * 2 + "01234567"}
port = verifier.model_copy(update=changes).open()
try:
    print(port.engine)
except EngineMissing as error:
    print("refused:", error)
if profile == "paper":
    try:
        port.support_probability([("e", "c")])
    except EngineError as error:
        print(type(error).__name__)
"""


def note_of(words: list[str], path: str, *changed: str) -> str:
    """What the program prints with ``path`` on the Python path."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    done = subprocess.run(
        [sys.executable, "-c", FORM, *words, *changed],
        cwd=ROOT,
        env=clean | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("profile", ["local", "paper"])
def test_minicheck_runs_in_the_form_it_was_trained_on_or_is_refused(profile: str, tmp_path: Path):
    """The installed package's, a file's, or ours where allowed; each is a name of its own.

    A refusal comes before a server is started; the others start it.
    """
    started, model = tmp_path / "started", tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    start = tmp_path / "vllm"
    start.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    start.chmod(0o755)
    other, prompts = tmp_path / "other", tmp_path / "prompts"
    (other / "minicheck").mkdir(parents=True)  # hides an installed one
    prompts.mkdir()
    (prompts / "minicheck.md").write_text(FILE, "utf-8")
    published = write_package(tmp_path / "published")
    words = [profile, str(tmp_path), str(model), f"DECOMPOSERL_VLLM={start}"]
    refused = note_of(words, str(other))
    assert refused.startswith("refused: the input form that MiniCheck was trained on is missing")
    assert not started.exists()
    assert ["EngineMissing"] * (profile == "paper") == refused.splitlines()[1:]
    found = {
        "own": note_of(words, str(other), "DECOMPOSERL_ALLOW_OWN_PROMPT=yes"),
        "file": note_of(words, str(other), f"DECOMPOSERL_PROMPTS={prompts}"),
        "published": note_of(words, published),
    }
    for origin, engine in found.items():
        assert f"prompt={origin}@" in engine.splitlines()[0]
    assert (profile == "paper") == started.exists()
