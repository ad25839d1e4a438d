"""Commands of the pages that studies and benchmarks write."""

import re
from pathlib import Path

import pytest

from documents import shell_lines
from project import ROOT

PAGES = [
    ROOT / name
    for name in (
        "docs/results/benchmarks.md",
        "docs/explanation/embedded-engines.md",
        "CONTRIBUTING.md",
    )
]
INLINE = re.compile(r"`((?:make|python -m) [^`]+)`")


def commands(page: Path) -> list[str]:
    """Shell blocks and inline commands of a page."""
    return shell_lines(page) + INLINE.findall(page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_names_a_target_or_a_program_with_its_options(page: Path):
    """``make`` targets are in the Makefile; options, values of ``--only`` too, in the program."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert commands(page)
    for line in commands(page):
        words = line.replace('"', " ").split()
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line
            module = "perf.bench"
        else:
            module = [word for word in words if re.match(r"(perf|studies)\.", word)][-1]
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
        options = re.findall(r"--[a-z-]+", line)
        assert [] == [one for one in options if f'"{one}"' not in source], line
        named = re.findall(r"--only (\w+)", line)
        assert [] == [one for one in named if f'"{one}":' not in source], line
