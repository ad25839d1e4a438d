"""``decomposerl`` itself: its version, its help, what a shell completes and the documents print."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version

import click
import dagster as dg
import pytest
import typer
import yaml
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.definitions import defs
from dagster_project.stages import stages_named, stages_of
from documents import configurations, decomposerl_lines

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_version_is_that_of_the_package():
    """One line, without a command."""
    done = CliRunner().invoke(app, ["--version"])
    assert (0, f"decomposerl {version('decomposerl')}\n") == (done.exit_code, done.stdout)


def test_the_help_groups_every_command():
    """Each stands below look, run or check, and none in a group of its own."""
    shown = ANSI.sub("", CliRunner(env={"COLUMNS": "100"}).invoke(app, ["--help"]).stdout)
    assert ["Options", "Look", "Run", "Check"] == re.findall(r"╭─ (\w+) ─*╮", shown)
    listed = re.findall(r"^│ (\w[\w-]*) ", shown, re.MULTILINE)
    assert set(typer.main.get_command(app).commands) == set(listed)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("decomposerl ev", ["evaluate"]),
        ("decomposerl train tiny_sh", ["tiny_shuffled"]),
        ("decomposerl train supervision", [f"supervision_{s}" for s in (10, 30, 50, 70)]),
        ("decomposerl evaluate cot-rules-f", ["cot-rules-faithful"]),
    ],
)
def test_a_shell_completes_commands_recipes_and_systems(words: str, offered: list[str]):
    """By the protocol of the script that ``--install-completion`` installs."""
    done = subprocess.run(
        [sys.executable, "-c", "from dagster_project.cli import app; app(prog_name='decomposerl')"],
        env=os.environ
        | {
            "_DECOMPOSERL_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered == done.stdout.split()


@pytest.mark.parametrize(("document", "line"), decomposerl_lines())
def test_every_documented_command_exists(document: str, line: str):
    """With its options and as many arguments; stages to run are in the graph, or the reader's."""
    command, words = typer.main.get_command(app), shlex.split(line)
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    assert not hasattr(command, "commands"), document
    given, left, _ = command.make_parser(click.Context(command)).parse_args(words)
    assert [] == left, document
    named = (words.split() for other, words in decomposerl_lines() if other == document)
    own = {f"claims/{words[2]}" for words in named if words[:2] == ["init", "corpus"]}
    stages = {"funnel"}.union(given.get("stages") or ()) - own
    assert stages_named(sorted(stages), stages_of(defs))


@pytest.mark.parametrize(("document", "text"), configurations())
def test_every_documented_configuration_is_valid(document: str, text: str):
    """Its assets and their settings exist."""
    job = defs.resolve_implicit_global_asset_job_def()
    assert dg.validate_run_config(job, yaml.safe_load(text)), document
