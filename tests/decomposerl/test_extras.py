"""Each optional package has an extra, and every error that misses one names it."""

import ast
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from decomposerl.errors import EngineMissing
from decomposerl.extras import EXTRA_OF, explained, install_command, not_installed, require
from project import ROOT

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
    "faiss": "faiss-cpu",
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


@pytest.mark.parametrize(("package", "extra"), sorted(EXTRA_OF.items()))
def test_the_extra_that_is_named_installs_the_package(package: str, extra: str):
    """``pyproject.toml`` lists it there, and not in the base installation."""
    assert package in {name_of(one) for one in PROJECT["optional-dependencies"][extra]}
    assert package not in BASE
    assert f"pip install 'decomposerl[{extra}]'" == install_command(package.replace("-", "_"))


def test_everything_that_is_imported_is_installed_or_has_an_extra():
    """A package that the base installation lacks is in the table."""
    assert set() == imported() - BASE - set(EXTRA_OF) - OF_DEPENDENCIES


def test_a_missing_module_is_refused_with_its_extra():
    """The first missing one is named; one without an extra is named as itself."""
    require("json", "polars")
    assert "apricot-select is not installed: pip install 'decomposerl[selectors]'" == not_installed(
        "apricot"
    )
    with pytest.raises(EngineMissing, match=r"^no-such-one is not installed: pip install no-such"):
        require("json", "no_such_one")


def test_an_import_error_is_explained_only_where_an_extra_helps():
    """Of a submodule too; an error of the project's own modules keeps its message."""
    assert "trl is not installed: pip install 'decomposerl[train]'" == explained(
        "ModuleNotFoundError: No module named 'trl.trainer'"
    )
    own = "No module named 'resources.nowhere'"
    assert own == explained(own)


def test_the_readme_names_every_extra_of_the_table():
    """Its table has each extra that an error may name."""
    table = re.findall(r"^\| (`.*?`) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    assert set() == set(EXTRA_OF.values()) - named
