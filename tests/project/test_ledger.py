"""The ledger notices each change of a value, and no row changes without a reason."""

import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

from ledger import DATA, Row, catalogue, differences, digest, table
from project import ROOT
from tables import value_beside

FILES = sorted(DATA.glob("*.json"))


def nothing(folder: Path) -> dict[str, object]:
    """The values of a row that is never made."""
    return {"folder": str(folder)}


@pytest.mark.parametrize(("old", "new", "count"), value_beside(__file__, "ledger_differences"))
def test_every_changed_value_is_a_difference(old: dict, new: dict, count: int):
    """A value that changed, went or came is one difference; a tolerance is that of its name."""
    row = Row("some", nothing, tolerances={"near.*": 0.1})
    assert count == len(differences(row, old, new))


@pytest.mark.parametrize(
    "changed",
    [
        {"claim": pl.Series(["b", "a"])},
        {"claim": pl.Series(["a", "c"])},
        {"score": pl.Series([0.5, 0.25])},
        {"new": pl.Series([1, 2])},
        {"claim": pl.Series(["a", "b"], dtype=pl.Categorical())},
    ],
)
def test_a_table_tells_order_value_type_and_column(changed: dict[str, pl.Series]):
    """Any change of a column but those of the run changes what the ledger holds of a table."""
    frame = pl.DataFrame({"claim": ["a", "b"], "score": [0.5, 0.75], "seconds": [1.0, 2.0]})
    held = table(frame, without=("seconds",))
    assert held == table(frame.with_columns(seconds=pl.lit(3.0)), without=("seconds",))
    assert held != table(frame.with_columns(**changed), without=("seconds",))


def test_each_row_has_a_file_and_each_file_a_row():
    """No row is checked against nothing, and no file is left behind."""
    assert sorted(catalogue()) == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_values_are_those_of_the_last_reason(file: Path):
    """A value that was changed by hand, without ``--write`` and its reason, is found."""
    stored = json.loads(file.read_text("utf-8"))
    assert all(change["reason"].strip() for change in stored["changes"])
    assert digest(stored["entries"]) == stored["changes"][-1]["entries"]


def test_a_commit_names_each_row_that_it_changes():
    """The message of each commit that changes or removes a row's file has its name."""
    git = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%x00%s %b%x01", "--name-only"]
    git.append("--diff-filter=MD")  # a new row changes none
    log = subprocess.run([*git, "--", "tests/ledger"], capture_output=True, text=True)
    if log.returncode:
        pytest.skip("no git history here")
    for commit in log.stdout.split("\0")[1:]:
        message, _, names = commit.partition("\1")
        changed = {Path(name).stem for name in names.split()}
        assert {name for name in changed if name not in message} == set(), message
