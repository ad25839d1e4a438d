"""The size of the house: ``areas.toml`` names each product file once and bounds each area."""

import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from project import ROOT

AREAS = "tests/project/areas.toml"
TABLE = tomllib.loads((ROOT / AREAS).read_text("utf-8"))
PRODUCT = ("dagster_project", "assets", "resources", "decomposerl")


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def files_of(area: str) -> list[Path]:
    """The Python files that an area's paths and globs match."""
    patterns = TABLE["areas"][area]["files"]
    return [path for glob in patterns for path in ROOT.glob(glob) if path.suffix == ".py"]


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def numbers(table: dict) -> dict[str, int]:
    """Each number that only falls, by its name."""
    whole = {name: value for name, value in table["whole"].items() if "bound" not in name}
    return whole | {f"areas.{name}": area["lines"] for name, area in table["areas"].items()}


def test_every_product_file_is_in_exactly_one_area():
    """A new file names its area; no file is counted twice."""
    listed = Counter(path for area in TABLE["areas"] for path in files_of(area))
    assert dict.fromkeys(python_files(*PRODUCT), 1) == dict(listed)


@pytest.mark.parametrize("area", TABLE["areas"])
def test_every_line_of_an_area_matches_a_file(area: str):
    """A path or glob that matches nothing is a leftover."""
    assert [] == [glob for glob in TABLE["areas"][area]["files"] if not [*ROOT.glob(glob)]]


def test_no_area_is_above_its_number():
    """Lines by area, of the whole product and of the tests, and words of ``docs``."""
    above = {
        name: (counted, area["lines"])
        for name, area in TABLE["areas"].items()
        if (counted := lines(files_of(name))) > area["lines"]
    }
    assert {} == above
    whole = TABLE["whole"]
    assert whole["product"] >= lines(python_files(*PRODUCT))
    assert whole["tests"] >= lines(python_files("tests"))
    pages = (ROOT / "docs").rglob("*.md")
    assert whole["docs_words"] >= sum(len(page.read_text("utf-8").split()) for page in pages)


def test_the_numbers_only_fall():
    """No number is higher than in any committed version; skipped where git or history lacks."""
    git = ["git", "-C", str(ROOT)]
    log = subprocess.run([*git, "log", "--format=%H", "--", AREAS], capture_output=True, text=True)
    if log.returncode:
        pytest.skip("no git history here")
    now = numbers(TABLE)
    for commit in log.stdout.split():
        shown = subprocess.run([*git, "show", f"{commit}:{AREAS}"], capture_output=True, text=True)
        before = numbers(tomllib.loads(shown.stdout))
        risen = {
            name: (before[name], now[name]) for name in before if now.get(name, 0) > before[name]
        }
        assert {} == risen, commit
