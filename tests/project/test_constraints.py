"""The constraints files hold versions that ``pyproject.toml`` accepts."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {name_of(name): version for name, version in pairs}


CPU = ("web", "embed", "science", "trf")
GPU = (*CPU, "train", "hub", "gpu")


@pytest.mark.parametrize(("device", "extras"), [("cpu", CPU), ("gpu", GPU)])
def test_pinned_versions_are_in_the_ranges(device: str, extras: tuple[str, ...]):
    """Each requirement of the project and of these extras is pinned within its range."""
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    asked = [one for one in map(Requirement, wanted) if one.name != PROJECT["name"]]
    pinned = pins(f"constraints-{device}.txt")
    chosen = {one: pinned.get(name_of(one.name)) for one in asked}
    assert {} == {f"{one}": chosen[one] for one in asked if chosen[one] not in one.specifier}


@pytest.mark.parametrize(
    ("command", "extras"),
    {"demo": ("web", "embed", "science", "train"), "dev": (), "bench": ("bench",)}.items(),
)
def test_make_installs_the_pins_by_their_hashes(command: str, extras: tuple[str, ...]):
    """Of no named index; ``dev`` has all that is left of its requirements. PyTorch is apart."""
    texts = [(ROOT / f"requirements/{one}.txt").read_text("utf-8") for one in {"demo", command}]
    blocks = [block for text in texts for block in re.split(r"\n(?=\S)", text.rstrip())[1:]]
    hashed = dict(block.split(" ", 1)[0].split("==") for block in blocks)
    assert all(
        re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", one) for one in blocks
    )
    pinned = pins("constraints-cpu.txt")
    assert {} == {name: v for name, v in hashed.items() if pinned.get(name) != v}
    chosen = extras or ("dev", *re.findall(r"\w+", EXTRAS["dev"][0]))
    wanted = [*PROJECT["dependencies"], *(one for extra in chosen for one in EXTRAS.get(extra, ()))]
    names = {name_of(Requirement(one).name) for one in wanted}
    assert {"torch"} >= names - hashed.keys() - {PROJECT["name"]}
    assert "torch" not in hashed


@pytest.mark.skipif("DECOMPOSERL_RESOLVE" not in os.environ, reason="asks an index for minutes")
def test_pip_resolves_an_extra_to_its_pins(tmp_path: Path):
    """As a dry run, from nothing: all but the card's own libraries have their pinned versions."""
    report, file, extra = tmp_path / "report.json", "constraints-gpu.txt", "gpu"
    words = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
    pip = [sys.executable, "-m", "pip", "install", *words, "-c", file, f".[{extra}]"]
    subprocess.run(pip, cwd=ROOT, check=True)
    chosen = [one["metadata"] for one in json.loads(report.read_text("utf-8"))["install"]]
    found = {name_of(one["name"]): one["version"].partition("+")[0] for one in chosen}
    pinned = {name: version.partition("+")[0] for name, version in pins(file).items()}
    assert {"vllm", "torch", "trl"} < set(found)
    wrong = {name: version for name, version in found.items() if pinned.get(name) != version}
    own = ("nvidia-", "cuda-", "triton", name_of(PROJECT["name"]))
    assert [] == [name for name in wrong if not name.startswith(own)]
