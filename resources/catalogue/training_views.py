"""The catalogue's views over trained policies: learning curves, rollouts, rewards, judge calls.

Where several attempts of a run sampled a step, only the rows of the attempt that counts are shown:
an attempt that resumed from step r replaces everything that earlier ones sampled from r on. A view
without a file gives no row, with the same columns and types.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.table import Column, Table
from resources.catalogue.sql import matching, quoted_names, rows_of
from resources.store.mirror import pull

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
    """A view over the files of a log; each file is a step of an attempt."""

    name: str
    folder: str
    table: Table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the files, after those read from their names."""
        own = {column.name for column in self.table.columns}
        placed = tuple(column for column in _PLACED if column.name not in own)
        return (*placed, *self.table.columns)


_LOGS = (
    _Log("rollouts", "rollouts", schemas.ROLLOUTS),
    _Log("training_rewards", "rewards", schemas.REWARDS),
    _Log("training_judge_calls", "judge_calls", schemas.JUDGE_CALLS),
)


def attempts(data: Path) -> pl.DataFrame:
    """Every start of every run in the folder, as ``ATTEMPTS``."""
    # Imported late: it loads Dagster, which browsing does not need.
    from resources.training.run_store import read_attempts

    rows = [
        (folder.parent.name, start.attempt, start.resumed_from)
        for folder in sorted(pull(data, "policy/*/run.json").glob("policy/*/run.json"))
        for start in read_attempts(folder.parent)
    ]
    return pl.DataFrame(rows, schema=ATTEMPTS.schema, orient="row")


def training_views(data: Path) -> list[str]:
    """The statements; the views read the table ``training_attempts``."""
    return [f"CREATE VIEW curves AS {_curves(data)}"] + [
        f"CREATE VIEW {log.name} AS {_steps(log, data)}" for log in _LOGS
    ]


def _curves(data: Path) -> str:
    return rows_of(matching(data, ["policy/*/curves.parquet"]), schemas.CURVES.columns)


def _steps(log: _Log, data: Path) -> str:
    """The rows that count. A held-out measure at step r stays valid when a run resumes from r."""
    folders = ("", *(f"{split}/" for split in _SPLITS))
    candidates = [f"policy/*/{folder}{log.folder}/step-*.parquet" for folder in folders]
    patterns = matching(data, candidates)
    from_names = {column.name for column in _PLACED}
    own = quoted_names(column for column in log.table.columns if column.name not in from_names)
    rows = rows_of(patterns, log.columns, _FROM_NAMES, own)
    if not patterns:
        return rows
    return (
        f"{rows} AS placed "  # noqa: S608 - constants of this package
        "WHERE NOT EXISTS (SELECT 1 FROM training_attempts AS later "
        "WHERE later.experiment = placed.experiment AND later.attempt > placed.attempt "
        "AND later.resumed_from < placed.step + (placed.split = 'train')::INTEGER) "
        "QUALIFY attempt = max(attempt) OVER (PARTITION BY experiment, split, step)"
    )


def _part(number: int) -> str:
    return f"regexp_extract(filename, '{_FILE}', {number})"


_FROM_NAMES = (
    f"{_part(1)} AS experiment, coalesce(nullif({_part(2)}, ''), 'train') AS split, "
    f"{_part(4)}::BIGINT AS step, {_part(5)}::BIGINT AS attempt, "
)
