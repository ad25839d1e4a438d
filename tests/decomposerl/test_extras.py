"""Each optional package has an extra, and every error that misses one names it."""

import ast
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from decomposerl.errors import EngineMissing
from decomposerl.extras import EXTRA_OF, explained, install_command, not_installed, require
from project import ROOT
from resources.entities.spacy_engine import install_hint
from resources.preflight.servers import vllm_check

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGES = ("decomposerl", "resources", "assets", "dagster_project", "sample")
OF_DEPENDENCIES = {"dagster-pipes", "dagster-shared", "sqlalchemy", "upath"} | {"PIL"}
"""Of dagster, and of matplotlib."""


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(text).name).lower()


BASE = {name_of(one) for one in PROJECT["dependencies"]}
NAMED = {
    "sklearn": "scikit-learn",
    "apricot": "apricot-select",
    "yaml": "pyyaml",
    "dotenv": "python-dotenv",
    "markdown_it": "markdown-it-py",
}


def imported() -> set[str]:
    """The packages that the code imports anywhere, by their names on the index."""
    found = set()
    for file in (path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    foreign = found - set(sys.stdlib_module_names) - set(PACKAGES)
    return {NAMED.get(name, name).replace("_", "-") for name in foreign}


def test_the_extra_that_is_named_installs_the_package():
    """``pyproject.toml`` lists it there, and not in the base installation.

    A package that is imported and that the base installation lacks is in the table.
    """
    for package, extra in EXTRA_OF.items():
        assert package in {name_of(one) for one in PROJECT["optional-dependencies"][extra]}
        assert package not in BASE
        assert f" -e '.[{extra}]' " in install_command(package.replace("-", "_"))
    assert set() == imported() - BASE - set(EXTRA_OF) - OF_DEPENDENCIES


def test_a_missing_module_is_refused_with_its_extra():
    """The first missing one is named; one without an extra is named as itself.

    An import error is explained only where an extra helps; a submodule's too.
    """
    require("json", "polars")
    assert re.match(r"apricot-select .*pip install -e '\.\[selectors\]'", not_installed("apricot"))
    with pytest.raises(EngineMissing, match=r"^no-such-one .*pip install no-such-one"):
        require("json", "no_such_one")
    said = explained("ModuleNotFoundError: No module named 'trl.trainer'")
    assert re.match(r"trl .*pip install -e '\.\[train\]'", said)
    own = "No module named 'resources.nowhere'"
    assert own == explained(own)


def test_the_readme_names_every_extra_of_the_table():
    """Its table has each extra that an error may name."""
    table = re.findall(r"^\| (`.*?`) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    assert set() == set(EXTRA_OF.values()) - named


EXTRAS = PROJECT["optional-dependencies"]
OUTSIDE = {"cupy-cuda12x", "liger-kernel", "minicheck", "datatrove", "pyspark"}
"""Packages of the index that messages and pages name, and that no extra has."""


def printed_commands() -> Iterator[str]:
    """What stands behind each ``pip install`` that the product prints or a page shows."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text("utf-8") for page in pages if "_build" not in page.parts]
    for file in (path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            texts += [node.value] if isinstance(getattr(node, "value", None), str) else []
    texts += [install_command(package) for package in EXTRA_OF]
    texts += [install_hint("en_core_web_trf"), vllm_check(None).fix]
    for text in texts:
        yield from re.findall(r"pip install ([^`\n]*)", text)


def test_every_printed_command_installs_something_from_a_checkout():
    """The project is on no index, so it is ``-e .`` with extras and files that there are."""
    commands = set(printed_commands())
    assert any("-e '.[gpu]' -c constraints-gpu.txt" in one for one in commands)
    for command in commands:
        words = iter(shlex.split(re.split(r" && | \(|, (?!\w)", command)[0]))
        for word in words:
            if word in {"-c", "-r"}:
                assert (ROOT / next(words)).is_file(), command
            elif word == "-e":
                extras = re.fullmatch(r"\.\[([\w,]+)\]", next(words))
                assert extras, command
                assert set(extras[1].split(",")) <= EXTRAS.keys(), command
            elif not word.startswith(("-", "https://")):
                assert name_of(word.rstrip(",.")) in BASE | EXTRA_OF.keys() | OUTSIDE, command
