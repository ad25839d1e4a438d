"""The Dockerfile names what the project has, and its start script prepares the instance."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from documents import shell_lines
from project import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
TARGETS = re.findall(r"^FROM base AS (\w+)$", DOCKERFILE, re.MULTILINE)


def test_the_image_holds_every_package_and_file_that_it_uses():
    """``.dockerignore`` lets in what ``pip`` and the commands read; each of its names exists."""
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert [] == [name for name in allowed if not (ROOT / name).exists()]
    found = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {name.rstrip("*") for name in found}
    used = set(re.findall(r"-c (\S+)|--workspace\", \"(\S+?)\"", DOCKERFILE))
    files = {PYPROJECT["project"]["readme"], "pyproject.toml", *(a or b for a, b in used)}
    assert packages | files | {"configs", "docker/start", "dagster.yaml"} <= allowed


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_installs_extras_that_exist(target: str):
    """A target has its constraints, and runs as a user that is not root."""
    stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
    (extras,) = re.findall(r'-e "\.\[([\w,]+)\]"', stage)
    assert set(extras.split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])
    assert f"-c constraints-{target}.txt" in stage
    assert ["1000"] == re.findall(r"^USER (\w+)$", stage, re.MULTILINE)


def test_the_start_script_prepares_the_instance_and_runs_the_command(tmp_path: Path):
    """A settings file that is there stays; the container's command keeps its words and status."""
    home = tmp_path / "new/home"
    start = [str(ROOT / "docker/start"), "sh", "-c", 'echo "$1"; exit 7', "-", "two words"]
    for settings in (None, "telemetry: {}\n"):
        if settings:
            (home / "dagster.yaml").write_text(settings, "utf-8")
        ran = subprocess.run(
            start,
            cwd=ROOT,
            env=os.environ | {"DAGSTER_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (7, "two words\n") == (ran.returncode, ran.stdout)
        shipped = (ROOT / "dagster.yaml").read_text("utf-8")
        assert (settings or shipped) == (home / "dagster.yaml").read_text("utf-8")


def test_the_page_builds_the_targets_that_exist_and_shows_the_ui_to_this_machine_only():
    """No printed command publishes the UI to a network."""
    lines = shell_lines(ROOT / "docs/how-to/docker.md")
    assert set(re.findall(r"--target (\w+)", " ".join(lines))) <= set(TARGETS)
    ports = re.findall(r"-p (\S+)", " ".join(lines))
    assert ports
    assert all(one.startswith("127.0.0.1:") for one in ports)


def test_the_workflow_builds_the_image():
    """Continuous integration builds the target for processors, with every check of Docker's."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    steps = " ".join(step.get("run", "") for step in jobs["image"]["steps"])
    assert "docker build" in steps
