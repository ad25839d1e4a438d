"""The commands of the page on Dagster exist, with the options and files that it names."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from click.testing import CliRunner
from dagster._cli import create_dagster_cli

from dagster_project.definitions import defs
from dagster_project.jobs import JOB_NAMES
from documents import option, shell_lines
from project import ROOT

PAGE = ROOT / "docs/how-to/dagster.md"
LINES = shell_lines(PAGE)
DAGSTER = [line for line in LINES if line.startswith("dagster ")]
SHELL = [line for line in LINES if not line.startswith(("dagster ", "make "))]
INSTANCE = [line for line in DAGSTER if "concurrency" in line]

NAMED = (("-m", "dagster_project.definitions"), ("-j", "rank"), ("-c", "configs/demo.yaml"))
"""Options, with what stands there where a line has none."""


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command that words name, and its options, as Dagster's own parser reads them."""
    command: Any = create_dagster_cli()
    path, context = "dagster", None
    while hasattr(command, "get_command"):
        name, *words = words
        context = Context(command, context, path)
        found = command.get_command(context, name)
        assert found is not None, f"{path} {name}"
        command, path = found, f"{path} {name}"
    return path, command.make_context(path, list(words), context).params


@pytest.mark.parametrize("line", DAGSTER)
def test_each_command_is_one_of_dagsters(line: str):
    """Its name and options parse; a module, a job and a file that it names exist."""
    words = shlex.split(line)
    path, _ = parsed(words[1:])
    assert path.startswith("dagster ")
    module, job, file = (option([*words, *pair], pair[0]) for pair in NAMED)
    assert "dagster_project.definitions" == module
    assert job in JOB_NAMES
    assert (ROOT / file).is_file()


def test_the_nightly_module_schedules_a_job_beside_the_whole_graph():
    """The page's Python as a code location: one schedule, its job, and every asset."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    module: dict[str, Any] = {}
    exec(code, module)  # noqa: S102 - a block of our own page
    repository = module["defs"].get_repository_def()
    assert ["funnel"] == [one.job_name for one in repository.schedule_defs]
    assert {"funnel"} <= set(JOB_NAMES) <= set(repository.job_names)
    graph = module["defs"].resolve_asset_graph()
    assert graph.get_all_asset_keys() == defs.resolve_asset_graph().get_all_asset_keys()


def test_a_wrong_option_would_be_noticed():
    """As of a command that a later Dagster lacks."""
    with pytest.raises(Exception, match="No such option"):
        parsed(["asset", "materialize", "--selection", "*"])


def test_the_other_lines_run(tmp_path: Path):
    """One after the other in a shell, where the project's file for the instance lies."""
    assert len(LINES) == len(DAGSTER) + len(SHELL) + sum(one.startswith("make ") for one in LINES)
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    script = "\n".join(["set -eu", *SHELL, 'test -s "$DAGSTER_HOME/dagster.yaml"'])
    words = [shutil.which("bash") or "bash", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
    assert (tmp_path / ".dagster_home/dagster.yaml").is_file()


def test_a_pool_is_widened_as_the_page_says(tmp_path: Path):
    """On the instance that ``DAGSTER_HOME`` names."""
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    said = ""
    for line in INSTANCE:
        done = CliRunner().invoke(
            create_dagster_cli(), shlex.split(line)[1:], env={"DAGSTER_HOME": str(tmp_path)}
        )
        assert 0 == done.exit_code, done.output
        said += done.output
    assert re.search(r"gpu.*2", said)


def test_the_page_names_the_graph_that_there_is():
    """Its groups, jobs, checks and code location; and it is short."""
    text = PAGE.read_text("utf-8")
    graph = defs.resolve_asset_graph()
    groups = {graph.get(key).group_name for key in graph.materializable_asset_keys}
    checks = {key.name for key in graph.asset_check_keys}
    for name in {*groups, *checks, *JOB_NAMES}:
        assert f"`{name}`" in text, name
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert yaml.safe_load((ROOT / "workspace.yaml").read_text("utf-8")) == yaml.safe_load(block)
    assert len(text.split()) <= 1_400
