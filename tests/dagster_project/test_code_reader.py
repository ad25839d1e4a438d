"""What counts as the code of a function, and what does not."""

import os
from pathlib import Path

import pytest

from dagster_project.code_reader import CodeReader

STEP = '''"""A step."""

import math
from decomposerl import words
from decomposerl.limits import (
    LOW,  # a comment
    HIGH as most,
)

TABLE = {}
for name in ("a", "b"):
    TABLE[name] = 1
UNUSED = 7


def step(rows, other: int = 0):
    """Keep rows; ``unrelated`` is named in words only."""
    # a comment
    text = (
        """select 1
        from rows"""
    )
    return [row for row in rows if LOW < words.count(row) < most and "unrelated" and other]


@decorated(
    UNUSED
)
def unrelated():
    return 1


def other():
    return 2
'''
FILES = {
    "step": STEP,
    "words": "from decomposerl.deep import split\ndef count(text):\n    return len(split(text))\n",
    "deep": "def split(text):\n    return text.split()\n",
    "limits": "LOW, HIGH = 1, 2\nTHIRD = 3\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "decomposerl").mkdir()
    for name, text in FILES.items():
        (tmp_path / f"decomposerl/{name}.py").write_text(text, "utf-8")
    return tmp_path


CHANGES = [
    ("step", "if LOW <", "if LOW <=", True),
    ("step", "select 1", "select 2", True),
    ("step", "TABLE[name] = 1", "TABLE[name] = 2", True),
    ("limits", "1, 2", "1, 9", True),
    ("words", "len(", "sum(", True),
    ("deep", ".split()", ".split(',')", True),
    ("step", "Keep rows", "Keep some", False),
    ("step", "    # a comment", "    # another", False),
    ("step", '"""A step."""', '"""One step."""', False),
    ("step", "UNUSED = 7", "UNUSED = 8", False),
    ("step", "return 1", "return 9", False),
    ("step", "return 2", "return 9", False),
    ("limits", "THIRD = 3", "THIRD = 4", False),
    ("step", "\n\n\ndef other", "\n\n\n\ndef other", False),
]


def test_what_a_function_uses_counts_and_nothing_else(project: Path):
    """Also through modules and constants; not words, comments, neighbours or an argument's name.

    A decorator is part of what it decorates, and its arguments are followed.
    """

    def digest(name: str = "step") -> str:
        return CodeReader(project).digest([("decomposerl.step", name)])

    before, decorated = digest(), digest("unrelated")
    for file, old, new, counts in CHANGES:
        path, text = project / f"decomposerl/{file}.py", FILES[file]
        assert 1 == text.count(old)
        path.write_text(text.replace(old, new), "utf-8")
        assert counts == (before != digest()), (file, new)
        if "UNUSED" in old:
            assert decorated != digest("unrelated")
        path.write_text(text, "utf-8")


def test_digests_are_kept_until_a_file_changes(project: Path):
    """The next process reads them in place of the files; damaged ones are computed again."""
    kept, symbol = project / "kept.json", [("decomposerl.step", "step")]
    first = CodeReader(project, kept)
    before = first.digest(symbol)
    first.keep()
    path = project / "decomposerl/limits.py"
    written = path.stat()
    path.write_text(FILES["limits"].replace("1", "7"), "utf-8")
    now = CodeReader(project).digest(symbol)
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))  # as if it had not changed
    assert before == CodeReader(project, kept).digest(symbol)
    os.utime(path)
    assert now == CodeReader(project, kept).digest(symbol) != before
    kept.write_text('{"state": ', "utf-8")
    assert now == CodeReader(project, kept).digest(symbol)
    missing = (CodeReader(project).digest([(f"decomposerl.{one}", "SOURCE")]) for one in "ab")
    assert 1 == len({*missing}), "a corpus of the user's has no module of its own"
