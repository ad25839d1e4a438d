"""Which files of a version ``make`` may install, and the licence that a package names."""

import pytest

from studies.supply import licence_rows, suits


@pytest.mark.parametrize(
    ("file", "expected"),
    {
        "a_b-1.0-py312-none-any.whl": True,
        "a_b-1.0-cp312-cp312-manylinux_2_28_aarch64.whl": True,
        "a_b-1.0-cp39-abi3-macosx_11_0_arm64.whl": True,
        "a-b-1.0.tar.gz": True,
        "a_b-1.0.1-py3-none-any.whl": False,
        "a_b-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl": False,
        "a_b-1.0-cp310-cp310-manylinux_2_28_x86_64.whl": False,
        "a_b-1.0-cp312-cp312-win_amd64.whl": False,
        "a_b-1.0-py36+-none-any.whl": False,
        "a_b-1.0.exe": False,
    }.items(),
)
def test_files_for_linux_and_macos_of_one_version(file: str, *, expected: bool):
    """Source, and wheels for Python 3.11 to 3.13."""
    assert expected == suits(file, "a-b", "1.0")


def test_licences_are_grouped():
    """By the expression that a package names, or by its classifier."""
    rows = [*licence_rows(["polars", "duckdb", "pydantic", "numba", "no-such-package"])]
    assert [("MIT", "polars, duckdb, pydantic"), ("BSD", "numba")] == rows
