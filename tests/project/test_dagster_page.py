"""The commands of the page on Dagster exist, with the options and files that it names."""

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from click import Context
from click.testing import CliRunner
from dagster._cli import create_dagster_cli

from dagster_project.definitions import defs
from dagster_project.jobs import JOB_NAMES
from documents import option, shell_lines, written
from project import ROOT

PAGE = ROOT / "docs/how-to/dagster.md"
LINES = shell_lines(PAGE)
DAGSTER = [line for line in LINES if line.startswith("dagster ")]
INSTALLS = [line for line in LINES if line.startswith("pip ")]
SHELL = [line for line in LINES if not line.startswith(("dagster ", "make ", "pip "))]
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
def test_each_command_is_one_of_dagsters(line: str, tmp_path: Path):
    """Its name and options parse; a module, a job and a file that it names exist."""
    words = shlex.split(line)
    here = {word: tmp_path / word for word in words if written(word)}
    for word, path in here.items():
        path.write_text(written(word))
    path, _ = parsed([str(here.get(word, word)) for word in words[1:]])
    assert path.startswith("dagster ")
    module, job, file = (option([*words, *pair], pair[0]) for pair in NAMED)
    assert "dagster_project.definitions" == module
    assert job in JOB_NAMES
    assert (ROOT / file).is_file() or written(file)


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
    made = sum(one.startswith("make ") for one in LINES)
    assert len(LINES) == len(DAGSTER) + len(SHELL) + len(INSTALLS) + made
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
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    workspace, instance = map(yaml.safe_load, blocks)
    assert yaml.safe_load((ROOT / "workspace.yaml").read_text("utf-8")) == workspace
    shipped = yaml.safe_load((ROOT / "dagster.yaml").read_text("utf-8"))
    assert shipped["concurrency"] == instance["concurrency"]
    assert instance["run_monitoring"].items() <= shipped["run_monitoring"].items()
    counted = {key: _partitions(key) for key in ("predictions/fever", "policy")}
    assert f"{counted['predictions/fever']} keys in the evaluation, {counted['policy']} " in text


def _partitions(key: str) -> int:
    partitions = defs.resolve_asset_graph().get(dg.AssetKey(key.split("/"))).partitions_def
    assert partitions is not None
    return len(partitions.get_partition_keys())


@pytest.mark.parametrize("line", INSTALLS)
def test_what_the_page_installs_exists(line: str):
    """Its extras and its constraints."""
    found = re.fullmatch(r"pip install -c (\S+) -e '\.\[([\w,]+)\]'", line)
    assert found
    assert (ROOT / found[1]).is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(found[2].split(",")) <= set(project["optional-dependencies"])


def test_the_configuration_of_one_asset_is_accepted():
    """By Dagster's own reading, for the job that has this asset."""
    assert dg.validate_run_config(
        defs.resolve_job_def("evaluate"), yaml.safe_load(written("one.yaml"))
    )


def test_the_page_is_short():
    """Readers are in a hurry."""
    assert len(PAGE.read_text("utf-8").split()) <= 1_400
