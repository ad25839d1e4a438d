"""The SQL of the catalogue for trained policies: views over ``policy/*/``, and the attempts.

Takes the data folder and gives statements whose paths are relative to it, and the small table
of attempts that the views read. Of a step that several attempts sampled, the rows of the one
that counts are shown: an attempt that went on from step r replaces all that earlier ones
sampled from r on. A view without a file gives no row, with the same columns and types.

Left out deliberately: reading the files in Python (``resources.training.rollout_log``).
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.table import Column, Table
from resources.catalogue.types import listed, named, typed_nulls

ATTEMPTS = Table(
    "training_attempts",
    (
        Column("experiment", pl.String(), "name of the recipe"),
        Column("attempt", pl.Int64(), "which start of the run, from 1"),
        Column("resumed_from", pl.Int64(), "optimizer steps done before it"),
    ),
    unique=("experiment", "attempt"),
)
_PLACED = (
    Column("experiment", pl.String(), "name of the recipe"),
    Column("split", pl.String(), "train, held_out_sampled or held_out_greedy"),
    Column("step", pl.Int64(), "optimizer steps done"),
    Column("attempt", pl.Int64(), "which start of the run sampled it"),
)
_SPLITS = ("held_out_sampled", "held_out_greedy")
_FILE = r"policy/([^/]+)/(?:(held_out_[a-z]+)/)?([a-z_]+)/step-(\d+)\.attempt-(\d+)\.parquet$"


@dataclass(frozen=True, slots=True)
class _Log:
    """A view over the files of a log, one a step and attempt."""

    name: str
    folder: str
    table: Table

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the files, and those that their names say."""
        own = {column.name for column in self.table.columns}
        placed = tuple(column for column in _PLACED if column.name not in own)
        return (*placed, *self.table.columns)


_LOGS = (
    _Log("rollouts", "rollouts", schemas.ROLLOUTS),
    _Log("training_rewards", "rewards", schemas.REWARDS),
    _Log("training_judge_calls", "judge_calls", schemas.JUDGE_CALLS),
)


def attempts(data: Path) -> pl.DataFrame:
    """Every start of every run that lies in the folder, as ``ATTEMPTS``."""
    from resources.training.run_store import read_attempts  # loaded only when needed

    rows = [
        (folder.parent.name, start.attempt, start.resumed_from)
        for folder in sorted(data.glob("policy/*/run.json"))
        for start in read_attempts(folder.parent)
    ]
    return pl.DataFrame(rows, schema=ATTEMPTS.schema, orient="row")


def training_views(data: Path) -> list[str]:
    """The statements; the table ``training_attempts`` must be there before they are read."""
    return [f"CREATE VIEW curves AS {_curves(data)}"] + [
        f"CREATE VIEW {log.name} AS {_steps(log, data)}" for log in _LOGS
    ]


def _curves(data: Path) -> str:
    typed = typed_nulls(schemas.CURVES.columns)
    pattern = "policy/*/curves.parquet"
    if not any(data.glob(pattern)):
        return f"SELECT {typed} WHERE false"
    columns = named(schemas.CURVES.columns)
    read = f"FROM read_parquet([{listed([pattern])}], union_by_name = true)"
    return f"SELECT {columns} FROM ({read} UNION ALL BY NAME SELECT {typed} WHERE false)"  # noqa: S608 - constants of this module


def _steps(log: _Log, data: Path) -> str:
    """The rows that count. A held-out measure at step r holds for a run that goes on from r."""
    typed, columns = typed_nulls(log.columns), named(log.columns)
    candidates = [f"policy/*/{log.folder}/step-*.parquet"]
    candidates += [f"policy/*/{split}/{log.folder}/step-*.parquet" for split in _SPLITS]
    patterns = [pattern for pattern in candidates if any(data.glob(pattern))]
    if not patterns:
        return f"SELECT {typed} WHERE false"
    own = named(column for column in log.table.columns if column.name not in _TOLD)
    read = f"read_parquet([{listed(patterns)}], union_by_name = true, filename = true)"
    files = f"SELECT {own}, {_TOLD_BY_NAME} FROM {read}"  # noqa: S608 - constants of this module
    return (
        f"SELECT {columns} FROM ({files} UNION ALL BY NAME SELECT {typed} WHERE false) AS placed "  # noqa: S608 - constants of this module
        "WHERE NOT EXISTS (SELECT 1 FROM training_attempts AS later "
        "WHERE later.experiment = placed.experiment AND later.attempt > placed.attempt "
        "AND later.resumed_from < placed.step + (placed.split = 'train')::INTEGER) "
        "QUALIFY attempt = max(attempt) OVER (PARTITION BY experiment, split, step)"
    )


def _part(number: int) -> str:
    return f"regexp_extract(filename, '{_FILE}', {number})"


_TOLD = {column.name for column in _PLACED}
_TOLD_BY_NAME = (
    f"{_part(1)} AS experiment, coalesce(nullif({_part(2)}, ''), 'train') AS split, "
    f"{_part(4)}::BIGINT AS step, {_part(5)}::BIGINT AS attempt"
)
