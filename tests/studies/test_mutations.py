"""Mutants: the seed decides them, each differs from its line, and each is found again."""

import ast
import json
from pathlib import Path

import pytest

from project import ROOT
from studies.mutations import Mutant, draw, mutants_of, place, reached, selection

LIST = ROOT / "studies/mutants.json"
SOURCE = '''"""A file."""

LIMIT = 3


def inside(number: int, *, open_end: bool = False) -> bool:
    """Whether the number is in the range."""
    if open_end and number >= 0:
        return True
    return 0 <= number and not number > LIMIT
'''


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Two areas of one file each."""
    (tmp_path / "tests/project").mkdir(parents=True)
    table = "".join(f'[areas.{name}]\nfiles = ["{name}.py"]\n' for name in ("small", "large"))
    (tmp_path / "tests/project/areas.toml").write_text(table, "utf-8")
    (tmp_path / "small.py").write_text(SOURCE, "utf-8")
    (tmp_path / "large.py").write_text(SOURCE.replace("3", "30") * 2, "utf-8")
    return tmp_path


def test_the_draw_is_that_of_the_seed_and_reaches_every_area(house: Path):
    """The same seed gives the same lines, one at least of each area, each line once."""
    drawn = draw(house, seed=1, count=6)
    assert drawn == draw(house, seed=1, count=6)
    assert drawn != draw(house, seed=2, count=6)
    assert {"small", "large"} == {mutant.area for mutant in drawn}
    assert len({(mutant.path, mutant.line) for mutant in drawn}) == len(drawn) == 6


def test_each_committed_mutant_is_found_and_is_a_program():
    """Each is one changed statement of today's code; one that is removed leaves the list."""
    for mutant in (Mutant(**values) for values in json.loads(LIST.read_text("utf-8"))):
        path, start, end = place(ROOT, mutant)
        source = path.read_text("utf-8")
        assert source[start:end] == mutant.statement != mutant.mutated, mutant
        ast.parse(source[:start] + mutant.mutated + source[end:])


def test_operators_constants_and_statements_are_changed(tmp_path: Path):
    """Every kind of change, in code alone: no docstring, no annotation, no name."""
    path = tmp_path / "file.py"
    path.write_text(SOURCE, "utf-8")
    changed = {(mutant.kind, mutant.mutated) for mutant in mutants_of(path, "area", tmp_path)}
    assert {
        ("constant", "LIMIT = 4"),
        ("dropped result", "return None"),
        ("operator", "return 0 < number and not number > LIMIT"),
        ("operator", "return 0 <= number or not number > LIMIT"),
        ("operator", "return 0 <= number and number > LIMIT"),
        ("operator", "return 0 <= number and not number >= LIMIT"),
    } <= changed
    assert all("A file" not in text and "Whether" not in text for _, text in changed)


def test_the_cheapest_files_run_first_and_a_fixture_takes_its_whole_file(tmp_path: Path):
    """A place that a fixture reaches is covered by all tests of the file."""
    record = tmp_path / "record"
    record.write_text("7\ta.py::test_a (call)\n7\tb.py::test_b (setup)\n", "utf-8")
    tests = reached(record)[7]
    assert {"a.py": {"test_a"}, "b.py": {""}} == {file: set(names) for file, names in tests.items()}
    seconds = {"a.py::test_a": 5.0, "a.py::test_x": 0.1, "b.py::test_b": 1.0, "b.py::test_c": 0.5}
    assert ["b.py::test_c", "b.py::test_b", "a.py::test_a"] == selection(tests, seconds, 60)
    assert ["b.py::test_c", "b.py::test_b"] == selection(tests, seconds, 3)
