"""The constraints files hold versions that ``pyproject.toml`` accepts."""

import re
import tomllib

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


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("constraints-cpu.txt", ("web", "embed", "science", "trf")),
        ("constraints-gpu.txt", ("web", "embed", "science", "trf", "train", "hub", "gpu")),
    ],
)
def test_pinned_versions_are_in_the_ranges(file: str, extras: tuple[str, ...]):
    """Each requirement of the project and of these extras is pinned within its range."""
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    asked = [one for one in map(Requirement, wanted) if one.name != PROJECT["name"]]
    pinned = pins(file)
    assert [] == [
        f"{one}: {pinned.get(name_of(one.name))}"
        for one in asked
        if pinned.get(name_of(one.name)) not in one.specifier
    ]
