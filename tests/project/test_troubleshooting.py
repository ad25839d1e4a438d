"""The page of likely errors quotes messages that the product has, and fixes that are commands."""

import ast
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.engine_choices import engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.named_graph import named_graph
from dagster_project.stages import groups_of
from decomposerl.claims.addresses import ACCESS
from decomposerl.errors import DecomposeRLError
from decomposerl.extras import EXTRA_OF, not_installed
from decomposerl.training.experiments import RECIPES
from documents import shell_lines
from project import ROOT
from resources.entities.spacy_models import SpacyModel
from stand_in_arguments import parsed

PAGE = ROOT / "docs/how-to/troubleshooting.md"
PACKAGES = ("dagster_project", "assets", "resources", "decomposerl")
TEXT = PAGE.read_text("utf-8")
MESSAGES = re.findall(r"```text\n(.*?)\n```\n", TEXT, re.DOTALL)
LINES = shell_lines(PAGE)
LEAST = 20


def template(node: ast.AST) -> str:
    """A string of the source, with ``…`` for each value that is filled in; empty for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or "…" for part in node.values)
    return ""


@pytest.fixture(scope="module")
def printed() -> str:
    """Every string of the product, and the Makefile's, which has its own variables."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    trees = [ast.parse(file.read_text("utf-8")) for file in files]
    strings = [template(node) for tree in trees for node in ast.walk(tree)]
    make = re.sub(r"\$\(\w+\)", "…", (ROOT / "Makefile").read_text("utf-8"))
    return "\n".join([*filter(None, strings), make])


def command(folder: Path, *words: str, **env: str) -> str:
    """What ``decomposerl`` prints where it refuses."""
    names = ("DECOMPOSERL_PROFILE", "DECOMPOSERL_CORPORA")
    bare: dict[str, str | None] = dict.fromkeys(names) | {"DECOMPOSERL_DATA": str(folder)}
    done = CliRunner(env=bare | env).invoke(app, list(words))
    assert done.exit_code, done.output
    return done.output


def refusal(action: Callable[[], object]) -> str:
    """The message of a refusal."""
    with pytest.raises(DecomposeRLError) as raised:
        action()
    return str(raised.value)


JUDGE = engine_resources(
    engine_choices("paper", {"DECOMPOSERL_JUDGE_URL": "https://api.openai.com/v1"}), ""
)["judge"]
PROVOKED: dict[str, Callable[[Path], str]] = {
    "trl is not": lambda _: not_installed("trl"),
    "spaCy model": lambda _: refusal(lambda: SpacyModel("en_core_sci_none").load()),
    "there is no variable": lambda at: command(at, "doctor", DECOMPOSERL_PROFIL="local"),
    "OPENAI_API_KEY is": lambda _: refusal(JUDGE.key),
    "deduplicated: not": lambda at: command(at, "run", "deduplicated"),
    "not on disk: …; first": lambda at: command(at, "evaluate", "cot-rules-faithful"),
}


@pytest.mark.parametrize("beginning", PROVOKED)
def test_a_message_that_is_cheap_to_provoke_is_quoted_as_printed(beginning: str, tmp_path: Path):
    """Word for word, but for what ``…`` stands for."""
    (message,) = [one for one in MESSAGES if one.startswith(beginning)]
    words = " ".join(PROVOKED[beginning](tmp_path).split())
    assert re.search(re.escape(message).replace("…", ".+"), words), words


def test_every_other_message_is_a_string_of_the_product(printed: str):
    """In one piece, and long enough to be found by it."""
    others = [one for one in MESSAGES if not one.startswith(tuple(PROVOKED))]
    assert [] == [one for one in others if one not in printed]
    assert min(len(one.replace("…", "").strip()) for one in others) >= LEAST


def test_there_are_twenty_messages_each_with_cause_and_fix():
    """Below a heading; before the next message a sentence, then a block of commands."""
    assert 20 == len(set(MESSAGES)) == len(MESSAGES)
    starts = [TEXT.index(f"```text\n{one}\n```") for one in MESSAGES]
    assert all(re.search(r"\n### .+\n\n\Z", TEXT[:start]) for start in starts)
    for start, end in pairwise([*starts, len(TEXT)]):
        _, cause, fix = re.split(r"```(?:text|sh)\n(?:.*\n)*?```\n", TEXT[start:end] + "\n")[:3]
        assert cause.strip().endswith((".", ":")), cause
        assert "```" not in cause + fix


def arguments() -> Iterator[tuple[str, list[str]]]:
    """Each ``decomposerl`` line of the page: subcommand and its words."""
    for line in LINES:
        words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
        if words[0] == ".venv/bin/decomposerl":
            yield words[1], words[2:]


def test_the_fixes_are_commands_that_exist():
    """Options parse; stages, recipes, systems, corpora, extras and vLLM's options are known."""
    graph, group = named_graph(None), typer.main.get_command(app)
    known = {
        "run": {*graph.stages, *groups_of(graph.stages)},
        "train": {one.name for one in RECIPES},
        "evaluate": set(graph.partitions("predictions/fever")),
        "fetch": set(ACCESS),
    }
    for name, words in arguments():
        _, found, rest = group.resolve_command(
            group.make_context("x", [name, *words]), [name, *words]
        )
        assert found is not None
        context = found.make_context(name, list(rest))
        given = words[:1] if name in known else []
        assert set(given) <= known.get(name, set()), context
    for line in LINES:
        for extra in re.findall(r"install .*\.\[(\w+)\]", line):
            assert extra in EXTRA_OF.values()
        if line.startswith("vllm "):
            parsed([*shlex.split(line)[1:], "--holds", ""])
    blocks = "\n".join(LINES)
    subprocess.run(["/bin/bash", "-n", "-c", blocks], check=True)
