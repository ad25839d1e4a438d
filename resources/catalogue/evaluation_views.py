"""The SQL of the catalogue for the evaluation: views over what was predicted and scored.

Takes the data folder and the current test sets, gives statements whose paths are relative to the
folder. A system is a file: ``predictions/<benchmark>/<system>.parquet``, with its calls and scores
under the same names in ``calls/`` and ``scores/``. A view without a file gives no row, with the
same columns and types.

Left out deliberately: the leaderboard and the comparison, which are small tables
(``duckdb_catalogue``).
"""

import glob
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.table import Column, Table
from resources.catalogue.types import listed, named, typed_nulls

_PLACE = r"/([^/]+)/([^/]+)\.parquet$"
_PLACED = (
    Column("benchmark", pl.String(), "test set, by the folder"),
    Column("system", pl.String(), "system, by the file"),
)


@dataclass(frozen=True, slots=True)
class _View:
    """A view over ``<name>/<benchmark>/<system>.parquet``.

    ``placed``: test set and system stand in the names alone, not in the files.
    """

    name: str
    table: Table
    placed: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*_PLACED, *self.table.columns) if self.placed else self.table.columns


_VIEWS = (
    _View("predictions", schemas.PREDICTIONS),
    _View("calls", schemas.CALLS, placed=True),
    _View("scores", schemas.SCORES),
)


def evaluation_views(data: Path, benchmarks: Collection[str] | None) -> list[str]:
    """The statements; ``benchmarks`` are the current test sets, None for every one on disk."""
    return [f"CREATE VIEW {view.name} AS {_select(view, data, benchmarks)}" for view in _VIEWS]


def patterns(data: Path, folder: str, benchmarks: Collection[str] | None) -> list[str]:
    """Glob patterns of the current test sets' files below ``folder``, each of which matches."""
    stems = ["*"] if benchmarks is None else [glob.escape(name) for name in sorted(benchmarks)]
    candidates = [f"{folder}/{stem}/*.parquet" for stem in stems]
    return [pattern for pattern in candidates if any(data.glob(pattern))]


def _select(view: _View, data: Path, benchmarks: Collection[str] | None) -> str:
    typed, columns = typed_nulls(view.columns), named(view.columns)
    found = patterns(data, view.name, benchmarks)
    if not found:
        return f"SELECT {typed} WHERE false"
    read = f"read_parquet([{listed(found)}], union_by_name = true, filename = true)"
    place = f"{_part(1)} AS benchmark, {_part(2)} AS system, " if view.placed else ""
    files = f"SELECT {place}* FROM {read}"  # noqa: S608 - constants of this module
    return f"SELECT {columns} FROM ({files} UNION ALL BY NAME SELECT {typed} WHERE false)"  # noqa: S608 - constants of this module


def _part(number: int) -> str:
    return f"regexp_extract(filename, '{_PLACE}', {number})"
