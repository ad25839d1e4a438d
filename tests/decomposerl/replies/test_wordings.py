"""Tables of wordings: every pattern can be used, though it is compiled only when it is needed."""

import tomllib
from pathlib import Path

import pytest

from decomposerl.replies import wordings
from decomposerl.replies.wordings import Wordings

TABLES = sorted(Path(wordings.__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_pattern_of_a_table_compiles(path: Path):
    """Its words are filled in, and it is made once."""
    table = Wordings(path.stem, QUESTION="frage", ANSWER="antwort")
    names = tomllib.loads(path.read_text("utf-8"))
    used = "".join(table[name].pattern for name in names if name.islower())
    assert [] == [name for name in names if name.isupper() and name in used]
    assert all(table[name] is table[name] for name in names if name.islower())


def test_a_blank_is_any_white_space_and_a_bracket_only_groups():
    """So that a pattern reads as what it stands for."""
    blanks = Wordings("passages")["blanks"]
    assert blanks.fullmatch("2\t5\n7")
    assert 0 == blanks.groups
