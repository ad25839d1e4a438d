"""What pages and files around the code name is there: commands, options, files, fields."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import typer
import yaml
from click import Context
from click.testing import CliRunner
from dagster._cli import create_dagster_cli

from assets.evaluation import evaluation_checks
from dagster_project.cli import app
from dagster_project.definitions import defs
from dagster_project.environment import known_variables
from dagster_project.jobs import JOB_NAMES
from dagster_project.named_graph import named_graph
from dagster_project.stages import groups_of
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.claims.downloads import ACCESS
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.systems import CHAT_MODELS, VERIFIERS
from decomposerl.extras import EXTRA_OF
from decomposerl.schemas import COMPARISON, PREDICTIONS
from decomposerl.training.experiments import RECIPES
from documents import option, shell_lines, written
from page_commands import blocks
from project import ROOT
from resources.mapper import parse_mapper
from stand_in_arguments import parsed as vllm_parsed


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def yaml_blocks(text: str) -> list[Any]:
    return [yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]

# docs/how-to/dagster.md
DAGSTER_PAGE = ROOT / "docs/how-to/dagster.md"
LINES = shell_lines(DAGSTER_PAGE)
DAGSTER = [line for line in LINES if line.startswith("dagster ")]
SHELL = [line for line in LINES if not line.startswith(("dagster ", "make ", "pip "))]
NAMED = (("-m", "dagster_project.definitions"), ("-j", "rank"), ("-c", "configs/demo.yaml"))
"""Options, with what stands there where a line has none."""


def dagster_parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
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
    command, _ = dagster_parsed([str(here.get(word, word)) for word in words[1:]])
    assert command.startswith("dagster ")
    module, job, file = (option([*words, *pair], pair[0]) for pair in NAMED)
    assert "dagster_project.definitions" == module
    assert job in JOB_NAMES
    assert (ROOT / file).is_file() or written(file)
    with pytest.raises(Exception, match="--selection"):
        dagster_parsed(["asset", "materialize", "--selection", "*"])


def test_the_nightly_module_schedules_a_job_beside_the_whole_graph():
    """The page's Python as a code location: one schedule, its job, and every asset."""
    (code,) = re.findall(r"```python\n(.*?)```", DAGSTER_PAGE.read_text("utf-8"), re.DOTALL)
    module: dict[str, Any] = {}
    exec(code, module)  # noqa: S102 - a block of our own page
    repository = module["defs"].get_repository_def()
    assert ["funnel"] == [one.job_name for one in repository.schedule_defs]
    assert {"funnel"} <= set(JOB_NAMES) <= set(repository.job_names)
    graph = module["defs"].resolve_asset_graph()
    assert graph.get_all_asset_keys() == defs.resolve_asset_graph().get_all_asset_keys()


def test_the_other_lines_of_the_page_run(tmp_path: Path):
    """In a shell beside the project's file for the instance, whose pool is widened as it says."""
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    script = "\n".join(["set -eu", *SHELL, 'test -s "$DAGSTER_HOME/dagster.yaml"'])
    words = [shutil.which("bash") or "bash", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
    home, said = tmp_path / ".dagster_home", ""
    assert (home / "dagster.yaml").is_file()
    for line in (line for line in DAGSTER if "concurrency" in line):
        variables = {"DAGSTER_HOME": str(home)}
        ran = CliRunner().invoke(create_dagster_cli(), shlex.split(line)[1:], env=variables)
        assert 0 == ran.exit_code, ran.output
        said += ran.output
    assert re.search(r"gpu.*2", said)


def test_the_page_names_the_graph_that_there_is():
    """Its groups, jobs, checks, partitions and code location; its configuration is accepted."""
    text, graph = DAGSTER_PAGE.read_text("utf-8"), defs.resolve_asset_graph()
    groups = {graph.get(key).group_name for key in graph.materializable_asset_keys}
    checks = {key.name for key in graph.asset_check_keys}
    assert [] == [name for name in {*groups, *checks, *JOB_NAMES} if f"`{name}`" not in text]
    workspace, instance = yaml_blocks(text)
    assert yaml.safe_load((ROOT / "workspace.yaml").read_text("utf-8")) == workspace
    shipped = yaml.safe_load((ROOT / "dagster.yaml").read_text("utf-8"))
    assert shipped["concurrency"] == instance["concurrency"]
    assert instance["run_monitoring"].items() <= shipped["run_monitoring"].items()
    counts = []
    for key in ("predictions/fever", "policy"):
        partitions = graph.get(dg.AssetKey(key.split("/"))).partitions_def
        assert partitions is not None
        counts.append(len(partitions.get_partition_keys()))
    assert f"{counts[0]} keys in the evaluation, {counts[1]} " in text
    one = yaml.safe_load(written("one.yaml"))
    assert dg.validate_run_config(defs.resolve_job_def("evaluate"), one)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("pip ")])
def test_what_the_page_installs_exists(line: str):
    """Its extras and its constraints."""
    found = re.fullmatch(r"pip install -c (\S+) -e '\.\[([\w,]+)\]'", line)
    assert found
    assert (ROOT / found[1]).is_file()
    assert set(found[2].split(",")) <= set(EXTRAS)


# docs/how-to/scaling.md
SCALING = page("how-to/scaling.md")
RAY = re.compile(r"\bray (?P<command>up|down|attach|start)(?P<words>(?: [^\s&]+)*)")


def test_every_block_of_the_page_on_scaling_is_a_script():
    """Bash reads it; a block that needs other machines says that no test runs it."""
    assert blocks(SCALING)
    for block in blocks(SCALING):
        read = subprocess.run(
            ["/bin/bash", "-n"], input=block.text, capture_output=True, text=True, check=False
        )
        assert (0, "") == (read.returncode, read.stderr), block.line
        foreign = re.search(r"\b(ray|pip) ", block.text)
        assert bool(foreign) == block.not_run, block.line


def test_ray_has_the_options_that_the_page_gives():
    """Ray's own parser takes each line; nothing is started."""
    scripts = pytest.importorskip("ray.scripts.scripts")
    seen = set()
    for found in RAY.finditer("\n".join(block.text for block in blocks(SCALING))):
        words = shlex.split(found["words"].replace("cluster.yaml", os.devnull))
        scripts.cli.commands[found["command"]].make_context(found["command"], words)
        seen.add(found["command"])
    assert {"up", "down", "attach", "start"} == seen


def test_what_the_page_on_scaling_configures_exists():
    """Variables and values of the mapper."""
    assert set(re.findall(r"DECOMPOSERL_[A-Z_]+", SCALING)) <= known_variables()
    values = re.findall(r"DECOMPOSERL_MACHINE__MAPPER=([\w:.]+)", SCALING)
    assert len(values) == 3
    for value in values:
        parse_mapper(value, "MAPPER")


# docs/how-to/evaluate.md, docs/explanation/evaluation.md
EVALUATE, EXPLAINED = page("how-to/evaluate.md"), page("explanation/evaluation.md")


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def first_cells(text: str) -> set[str]:
    """Code in the first cell of each table row."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_pages_on_evaluation_name_what_the_code_has():
    """Configurations are accepted; fields of an entry, models, checks and columns are those."""
    job, configurations = defs.resolve_job_def("evaluate"), yaml_blocks(EVALUATE)
    assert 1 == len(configurations)
    assert all(dg.validate_run_config(job, one) for one in configurations)
    named = re.findall(r"`([^`\n]+)`", section(EVALUATE, "Your own systems"))
    assert set() == set(SystemEntry.model_fields) - {"name", *named}
    models = first_cells(section(EVALUATE, "Name a system"))
    family = "qwen2.5"  # a suffix for sizes of one model
    known = {one.key for one in (*CHAT_MODELS, *VERIFIERS)}
    assert known <= {f"{family}{name}" if name[0] == "-" else name for name in models}
    checks = evaluation_checks([one.name for one in BENCHMARKS], [])
    names = {key.name for check in checks for key in check.check_keys}
    assert names == first_cells(section(EXPLAINED, "Guards"))
    confidences = {one.name for one in PREDICTIONS.columns if one.name.startswith("confidence_")}
    assert confidences <= set(re.findall(r"`([^`\n]+)`", section(EXPLAINED, "Confidence")))
    explained = set(re.findall(r"`(p|p_\w+|no_p|difference)`", EXPLAINED))
    assert {"p", "p_holm", "no_p", "difference"} == explained
    assert explained <= {one.name for one in COMPARISON.columns}


# docs/how-to/troubleshooting.md
TROUBLES = ROOT / "docs/how-to/troubleshooting.md"
LEAST = 15
"""Letters by which a message can be found."""
MESSAGES = re.findall(r"```text\n(.*?)\n```\n", TROUBLES.read_text("utf-8"), re.DOTALL)


def template(node: ast.AST) -> str:
    """A string of the source, with ``…`` for each value that is filled in; empty for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or "…" for part in node.values)
    return ""


def test_each_quoted_message_is_one_of_the_product():
    """In one piece, ``…`` for what differs, so that a reader finds it; one is the Makefile's."""
    packages = ("dagster_project", "assets", "resources", "decomposerl")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    trees = [ast.parse(file.read_text("utf-8")) for file in files]
    strings = [template(node) for tree in trees for node in ast.walk(tree)]
    strings.append(re.sub(r"\$\(\w+\)", "…", (ROOT / "Makefile").read_text("utf-8")))
    known = [one for one in strings if len(one.replace("…", "").strip()) >= LEAST]
    forms = [re.compile(re.escape(one).replace("…", ".+"), re.DOTALL) for one in known]
    assert len(MESSAGES) > 15
    for message in MESSAGES:
        quoted = any(message in one for one in known)
        assert quoted or any(form.fullmatch(message) for form in forms), message


def test_the_fixes_are_commands_that_exist():
    """Options parse; stages, recipes, systems, corpora, extras and vLLM's options are known."""
    graph, group = named_graph(None), typer.main.get_command(app)
    known = {
        "run": {*graph.stages, *groups_of(graph.stages)},
        "train": {one.name for one in RECIPES},
        "evaluate": set(graph.partitions("predictions/fever")),
        "fetch": set(ACCESS),
    }
    lines = shell_lines(TROUBLES)
    for line in lines:
        program, *words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
        if program == ".venv/bin/decomposerl":
            name = words[0]
            _, found, rest = group.resolve_command(group.make_context("x", list(words)), words)
            assert found is not None
            assert found.make_context(name, list(rest))
            given = words[1:2] if name in known else []
            assert set(given) <= known.get(name, set()), line
        for extra in re.findall(r"install .*\.\[(\w+)\]", line):
            assert extra in EXTRA_OF.values()
        if program == "vllm":
            vllm_parsed([*words, "--holds", ""])
    subprocess.run(["/bin/bash", "-n", "-c", "\n".join(lines)], check=True)


# Dockerfile, docs/how-to/docker.md
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
TARGETS = re.findall(r"^FROM base AS (\w+)$", DOCKERFILE, re.MULTILINE)


def test_the_image_holds_every_package_and_file_that_it_uses():
    """``.dockerignore`` lets in what ``pip`` and the commands read; each of its names exists."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert [] == [name for name in allowed if not (ROOT / name).exists()]
    found = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {name.rstrip("*") for name in found}
    used = set(re.findall(r"-c (\S+)|--workspace\", \"(\S+?)\"", DOCKERFILE))
    files = {PROJECT["project"]["readme"], "pyproject.toml", *(a or b for a, b in used)}
    assert packages | files | {"configs", "docker/start", "dagster.yaml"} <= allowed


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_installs_extras_that_exist(target: str):
    """A target has its constraints, and runs as a user that is not root."""
    stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
    (extras,) = re.findall(r'-e "\.\[([\w,]+)\]"', stage)
    assert set(extras.split(",")) <= set(EXTRAS)
    assert f"-c constraints-{target}.txt" in stage
    assert ["1000"] == re.findall(r"^USER (\w+)$", stage, re.MULTILINE)


def test_the_start_script_prepares_the_instance_and_runs_the_command(tmp_path: Path):
    """A settings file that is there stays; the container's command keeps its words and status."""
    home = tmp_path / "new/home"
    start = [str(ROOT / "docker/start"), "sh", "-c", 'echo "$1"; exit 7', "-", "two words"]
    variables = os.environ | {"DAGSTER_HOME": str(home)}
    for settings in (None, "telemetry: {}\n"):
        if settings:
            (home / "dagster.yaml").write_text(settings, "utf-8")
        ran = subprocess.run(
            start, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
        )
        assert (7, "two words\n") == (ran.returncode, ran.stdout)
        shipped = (ROOT / "dagster.yaml").read_text("utf-8")
        assert (settings or shipped) == (home / "dagster.yaml").read_text("utf-8")


def test_the_page_on_docker_builds_targets_that_exist_and_shows_the_ui_to_this_machine_only():
    """No printed command publishes the UI to a network; continuous integration builds the image."""
    lines = " ".join(shell_lines(ROOT / "docs/how-to/docker.md"))
    assert set(re.findall(r"--target (\w+)", lines)) <= set(TARGETS)
    ports = re.findall(r"-p (\S+)", lines)
    assert ports
    assert all(one.startswith("127.0.0.1:") for one in ports)
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    assert any("docker build" in step.get("run", "") for step in jobs["image"]["steps"])
