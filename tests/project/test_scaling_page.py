"""The page on several machines: its commands parse, and what it configures exists."""

import os
import re
import shlex
import subprocess

import pytest
import yaml

from dagster_project.profiles import known_variables
from dagster_project.scaling_variables import mapper
from page_commands import NOT_RUN, Block, blocks
from project import ROOT

PAGE = (ROOT / "docs/how-to/scaling.md").read_text("utf-8")
RAY = re.compile(r"\bray (?P<command>up|down|attach|start)(?P<words>(?: [^\s&]+)*)")
YAML = [yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("block", blocks(PAGE), ids=lambda one: f"line-{one.line}")
def test_every_block_is_a_script(block: Block):
    """Bash reads it; a block that needs other machines says that no test runs it."""
    bash = ["bash", "-n"]
    read = subprocess.run(bash, input=block.text, capture_output=True, text=True, check=False)
    assert (0, "") == (read.returncode, read.stderr)
    foreign = re.search(r"\b(ray|helm|kubectl|srun|pip) ", block.text)
    assert bool(foreign) == block.not_run


def test_ray_has_the_options_that_the_page_gives():
    """Ray's own parser takes each line; nothing is started."""
    scripts = pytest.importorskip("ray.scripts.scripts")
    seen = []
    for found in RAY.finditer("\n".join(block.text for block in blocks(PAGE))):
        words = shlex.split(found["words"].replace("cluster.yaml", os.devnull))
        scripts.cli.commands[found["command"]].make_context(found["command"], words)
        seen.append(found["command"])
    assert {"up", "down", "attach", "start"} == set(seen)


def test_variables_and_their_values_are_those_of_the_project():
    """Each is known, and each value of the mapper on the page is one."""
    named = set(re.findall(r"DECOMPOSERL_[A-Z_]+", PAGE))
    assert named <= known_variables()
    values = re.findall(r"DECOMPOSERL_MAPPER=[\"]?([\w:.$]+)", PAGE)
    assert len(values) == 5
    for value in values:
        mapper({"MAPPER": value.replace("$HEAD", "head")}, "MAPPER", "in_process")


def test_the_launcher_takes_its_configuration():
    """Dagster-ray's class has these fields; the cluster's groups have what KubeRay requires."""
    launchers = pytest.importorskip("dagster_ray")
    (launcher,) = (one["run_launcher"] for one in YAML if "run_launcher" in one)
    kind = getattr(launchers, launcher["class"])
    assert set(launcher["config"]["ray"]) <= set(kind.config_type()["ray"].config_type.fields)
    (cluster,) = (one for one in YAML if one.get("kind") == "RayCluster")
    groups = cluster["spec"]["workerGroupSpecs"]
    assert all({"groupName", "replicas", "rayStartParams", "template"} == set(g) for g in groups)


def test_a_sentence_about_blocks_that_are_not_run_has_a_reason():
    """One for each such block."""
    said = [line for line in PAGE.splitlines() if NOT_RUN.match(line)]
    assert len(said) == sum(block.not_run for block in blocks(PAGE))
