"""Tables of the evaluation: predictions and their calls, scores, leaderboard, comparison.

Their columns are in ``evaluation.toml``.
"""

import tomllib
from importlib.resources import files
from typing import Literal, get_args

import polars as pl

from decomposerl.table import Column, Table

Basis = Literal["answered", "partly", "silent"]
"""What a verdict rests on: all of its questions have an answer that tells something, some, none."""
BASES: tuple[Basis, ...] = get_args(Basis)
_TEXT = pl.String()
TRACE = pl.Struct(
    {
        "opening": _TEXT,
        "cycles": pl.List(pl.Struct({"question": _TEXT, "answer": _TEXT, "thought": _TEXT})),
        "verdict": _TEXT,
    }
)
_TYPES = {"String": _TEXT, "Int64": pl.Int64(), "Float64": pl.Float64(), "Boolean": pl.Boolean()}


def _table(name: str) -> Table:
    """A table of the file; a type that ends with ``?`` may be null."""
    columns = [
        Column(column, (_TYPES | {"trace": TRACE})[kind.rstrip("?")], meaning, kind.endswith("?"))
        for column, kind, meaning in _FILE[name]["columns"]
    ]
    return Table(name, tuple(columns), tuple(_FILE[name]["unique"]), _FILE[name]["row"])


_FILE = tomllib.loads(files(__package__).joinpath("evaluation.toml").read_text("utf-8"))
PREDICTIONS, CALLS, CALIBRATIONS = map(_table, ("predictions", "calls", "calibrations"))
SCORES, LEADERBOARD, COMPARISON = map(_table, ("scores", "leaderboard", "comparison"))
