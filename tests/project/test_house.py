"""The files around the code agree with the code: commands, instance, documents."""

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import dagster as dg
import pytest
import yaml
from pydantic import BaseModel

from dagster_project.definitions import defs
from dagster_project.environment import known_variables
from decomposerl.claims.load import LoadSettings
from decomposerl.funnel import settings as funnel_settings
from documents import DOCUMENTS, materialize_lines, option, shell_lines, written
from ledger_rows import FAST
from project import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKE = shutil.which("make") or "make"
TARGETS = set(
    re.findall(r"^(?!gate-|fast-)([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def settings_models() -> dict[str, type[BaseModel]]:
    models = {
        name: value
        for name, value in vars(funnel_settings).items()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.model_fields
    }
    return {"LoadSettings": LoadSettings} | models


def test_the_page_lists_every_threshold_with_its_default():
    """``curate.md`` has the numbers that decide, by stage, as the settings give them."""
    technical = {"candidate_budget", "num_perm", "pairs_floor", "seed", "threads"}
    technical |= {"task_memory_mb", "exact_cell"}
    stages = {
        match[1]: model
        for model in settings_models().values()
        if (match := re.match(r"Stage ``(\w+)``", model.__doc__ or ""))
    }
    rows = [
        f"| `{stage}` | `{name}` | {field.default:,} | {field.description} |"
        for stage, model in stages.items()
        for name, field in model.model_fields.items()
        if type(field.default) in {int, float} and name not in technical
    ]
    assert "| `difficulty_band` | `high` | 0.8 | most label-aligned confidence, inclusive |" in rows
    table = read("docs/how-to/curate.md").split("| Stage | Setting | Default | Meaning |\n")[1]
    assert rows == table.split("\n\n")[0].splitlines()[1:]


def test_the_shipped_instance_sends_nothing_and_frees_its_pools(tmp_path: Path):
    """Telemetry is off; a dead run gives its slots back; all commands load one code location."""
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.telemetry_enabled is False
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] > 0
        assert instance.global_op_concurrency_default_limit == 1
    (entry,) = yaml.safe_load(read("workspace.yaml"))["load_from"]
    project = PYPROJECT["tool"]["dg"]["project"]
    assert entry["python_module"]["module_name"] == project["code_location_target_module"]


def test_make_targets_of_documents_and_help_exist():
    """``make help`` names each target a person may call; documents name no other."""
    lines = " ".join(line for document in DOCUMENTS for line in shell_lines(document))
    named = set(re.findall(r"\bmake ([a-z-]+)\b(?!\])", lines))
    assert {"demo", "test", "ui"} <= named <= TARGETS
    shown = subprocess.run([MAKE, "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert TARGETS - {"help"} <= set(re.findall(r"make ([a-z-]+)", shown.stdout))


def recipe(target: str) -> list[str]:
    """The commands of a target, as ``make`` would run them where everything is installed."""
    command = [MAKE, "--no-print-directory", "--dry-run", "--always-make", target]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = shown.stdout.splitlines()
    installed = [line.startswith("touch .venv/stamps/demo") for line in lines].index(True)
    return [line for line in lines[installed + 1 :] if ".dagster_home" not in line]


def pytest_words(target: str) -> list[str]:
    """The words of a target's one call of pytest."""
    (line,) = [line for line in recipe(target) if " pytest " in line]
    return shlex.split(line)


def test_the_fast_checks_are_a_subset_of_all():
    """``make check`` runs the checks of ``make test``, some of its tests, and the ledger."""
    (check,), (test,) = (
        [line.split() for line in recipe(target) if "gate-" in line] for target in ("check", "test")
    )
    assert {"fast-ledger", "fast-ledger-stores", "fast-tests"} == set(check) - set(test)
    words, whole = pytest_words("fast-tests"), pytest_words("test")
    assert (named := [word for word in words if word.startswith("tests/")])
    assert all((ROOT / name).exists() for name in named)
    apart = [word for word in whole if word.startswith(("--ignore=", "--deselect="))]
    assert [word for word in words if word not in named] == [
        word for word in whole if word not in {"tests", *apart}
    ]
    assert not any(name.startswith(word.partition("=")[2]) for name in named for word in apart)
    shown = " ".join([*recipe("fast-ledger"), *recipe("fast-ledger-stores")])
    assert {row.name for row in FAST} <= set(shown.split())


def test_every_test_is_in_one_of_two_runs():
    """What ``make test`` leaves out is what ``make workshop-test`` runs."""
    words, left_out = pytest_words("test"), ("--ignore=", "--deselect=")
    apart = {word.partition("=")[2] for word in words if word.startswith(left_out)}
    workshop = {word for word in pytest_words("workshop-test") if word.startswith("tests/")}
    assert apart == workshop
    assert "make test workshop-test" in read(".github/workflows/nightly.yml")


def test_the_commit_hooks_are_those_of_make_format():
    """Same tools, same options, the versions of ``.venv``."""
    hooks = [
        hook
        for repo in yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
        for hook in repo["hooks"]
    ]
    assert recipe("format") == [hook["entry"] for hook in hooks]
    assert {("system", False)} == {(hook["language"], hook["pass_filenames"]) for hook in hooks}


def test_make_says_which_python_it_needs(tmp_path: Path):
    """Without a new enough interpreter ``make`` stops with one clear sentence and makes nothing."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    words = [MAKE, "demo", "PYTHON=no-such-python"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Python 3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_ci_runs_make_test():
    """``.ci/run`` is executable, stops at the first fault, and the workflow calls it."""
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text("utf-8")
    assert "make test" in script.read_text("utf-8")
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    runs = [step.get("run", "") for step in workflow["jobs"]["check"]["steps"]]
    assert ".ci/run" in runs
    assert any("dagster asset materialize" in run for run in runs)


@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # Dagster's own parser warns
def test_documented_selections_select_something():
    """Each documented ``dagster asset materialize`` line names this module, assets and files."""
    assert materialize_lines()
    for line in materialize_lines():
        words = shlex.split(line)
        chosen = dg.AssetSelection.from_string(option(words, "--select"))
        keys = {key.to_python_identifier() for key in chosen.resolve(defs.resolve_asset_graph())}
        assert option(words, "-m") == "dagster_project.definitions", line
        assert keys, line
        if "-c" in words:
            file = option(words, "-c")
            config = yaml.safe_load(written(file) or read(file))
            assert set(config.get("ops", {})) <= keys, line


def test_documents_link_to_files_that_exist():
    """No relative link in a document is dead."""
    dead = [
        f"{document.name}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text("utf-8"))
        if not (document.parent / target).exists()
    ]
    assert [] == dead


def test_every_environment_variable_is_known():
    """The README names no other."""
    named = set(re.findall(r"\b(?:DECOMPOSERL|OPENAI)_[A-Z_]+\b", read("README.md")))
    assert named
    assert set() == named - known_variables()


def test_every_setting_has_its_reading_and_says_what_it_is():
    """On the page on readings, which names no other; the launchpad shows the description alone."""
    page, models = read("docs/explanation/paper-readings.md"), settings_models()
    cited = re.findall(r"\b(\w+Settings)\.(\w+)", page)
    assert cited
    assert [] == [(n, f) for n, f in cited if f not in models[n].model_fields]
    fields = {name: info for model in models.values() for name, info in model.model_fields.items()}
    assert set() == fields.keys() - set(re.findall(r"\w+", page))
    assert [] == [name for name, info in fields.items() if not info.description]


def test_licence_and_citation_agree_with_the_package():
    """The licence is Apache-2.0 in all three places and the citation names the paper."""
    citation = yaml.safe_load(read("CITATION.cff"))
    assert "Apache License" in read("LICENSE")
    assert PYPROJECT["project"]["license"] == citation["license"] == "Apache-2.0"
    assert PYPROJECT["project"]["version"] == citation["version"]
    assert citation["preferred-citation"]["title"].startswith("DecomposeRL: Learning to Ask")
