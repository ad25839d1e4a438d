"""What was evaluated, as it lies in the data folder; and the accepted leaderboard.

Takes the data folder and the names of the test sets, gives predictions, scores and their status by
system. The leaderboard reads what is there, whichever run left it, so that systems may be run on
different days and machines.

Left out deliberately: writing (the IO manager's), except ``accepted.json``, which is a person's.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.errors import ConfigError, SchemaError
from decomposerl.evaluation.comparison import Predictions
from decomposerl.evaluation.derived import DERIVED
from decomposerl.evaluation.leaderboard import RunCoverage
from decomposerl.evaluation.regression import REMEDY, AcceptedScore, accepted_from, accepted_json
from decomposerl.evaluation.subset import EvaluationSubset
from resources.store.parquet import DataFolder
from resources.store.temporary import replace_file

PREDICTIONS, SCORES, CALLS, LEADERBOARD = "predictions", "scores", "calls", "leaderboard"
LIMITED, NOT_AVAILABLE, NOTHING_TO_ASK = "limited", "not_available", "nothing_to_ask"
ACCEPTED = "accepted.json"
_RANK = "Build it with: dagster job execute -m dagster_project.definitions -j rank"
_COMPARED = ["claim_id", "verdict", "engine"]


def read_required(folder: DataFolder, key: str) -> pl.DataFrame:
    """The frame of an asset.

    Raises:
        ConfigError: it was not materialized yet; the message says the command.
    """
    if not folder.exists(key):
        raise ConfigError(
            f"{folder.path / key}.parquet is not there. Materialize it first: dagster asset "
            f"materialize -m dagster_project.definitions --select {_selection(key)}"
        )
    return folder.read(key)


def read_test_claims(folder: DataFolder, name: str) -> pl.DataFrame:
    """The claims of a test set, or of one that is derived from it.

    Raises:
        ConfigError: the test set was not materialized yet.
    """
    for one in DERIVED:
        if one.name == name and not folder.exists(f"benchmark/{name}"):
            return one.claims(read_required(folder, f"benchmark/{one.base}"))
    return read_required(folder, f"benchmark/{name}")


def subset_status(exam: EvaluationSubset) -> str:
    """How predicting these claims is recorded; a short run is no measure."""
    if not exam.usable:
        return NOTHING_TO_ASK if exam.left_out else NOT_AVAILABLE
    return LIMITED if exam.limited else "ok"


def _selection(key: str) -> str:
    """The words that select an asset by file; below predictions and scores the file is a part."""
    parts = key.split("/")
    if parts[0] in {PREDICTIONS, SCORES}:
        return f"'key:\"{parts[0]}/{parts[1]}\"' --partition {parts[2]}"
    return f"'key:\"{key}\"'"


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """The evaluation's files; ``benchmarks`` and ``systems`` are the current ones."""

    folder: DataFolder
    benchmarks: Sequence[str]
    systems: Sequence[str]

    def claims(self) -> dict[str, pl.DataFrame]:
        """The test sets that were read, by name."""
        keys = {name: f"benchmark/{name}" for name in self.benchmarks}
        return {
            name: self.folder.read(key) for name, key in keys.items() if self.folder.exists(key)
        }

    def scores(self) -> pl.DataFrame:
        """Every score of a current system and test set, as ``SCORES``."""
        frames = [self.folder.read(key) for key, _, _ in self._files(SCORES)]
        return schemas.SCORES.conform(pl.concat([schemas.SCORES.empty(), *frames]))

    def predictions(self) -> Predictions:
        """Who said what of which claim, by test set and system."""
        found: dict[str, dict[str, pl.DataFrame]] = {}
        for key, benchmark, system in self._files(PREDICTIONS):
            found.setdefault(benchmark, {})[system] = self.folder.read(key, _COMPARED)
        return found

    def runs(self) -> RunCoverage:
        """Which were predicted in part, and which had no claim to predict."""
        return RunCoverage(
            self._having(SCORES, LIMITED), self._having(SCORES, NOT_AVAILABLE, NOTHING_TO_ASK)
        )

    def limited(self) -> frozenset[tuple[str, str]]:
        """Which predictions, as (system, test set), are of some of the claims only."""
        return self._having(PREDICTIONS, LIMITED)

    def _having(self, kind: str, *wanted: str) -> frozenset[tuple[str, str]]:
        return frozenset(
            (system, benchmark)
            for key, benchmark, system in self._files(kind)
            if self.folder.run(key)["status"] in wanted
        )

    def _files(self, kind: str) -> Iterator[tuple[str, str, str]]:
        """Key, test set and system of each file of a kind, in the order of the lists."""
        for benchmark in self.benchmarks:
            for system in self.systems:
                key = f"{kind}/{benchmark}/{system}"
                if self.folder.exists(key):
                    yield key, benchmark, system


def read_accepted(data: Path) -> list[AcceptedScore] | None:
    """The cells of ``accepted.json``; None where no leaderboard was accepted yet.

    Raises:
        ConfigError: the file is not what ``decomposerl accept`` writes.
    """
    path = data / ACCEPTED
    if not path.is_file():
        return None
    try:
        return accepted_from(json.loads(path.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON ({error}); {REMEDY}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def read_leaderboard(data: Path) -> pl.DataFrame:
    """The leaderboard, ``LEADERBOARD``.

    Raises:
        ConfigError: there is none, or the file is damaged; the message says how to build it.
    """
    path = data / f"{LEADERBOARD}.parquet"
    if not path.is_file():
        raise ConfigError(f"there is no leaderboard in {data}. {_RANK}")
    try:
        return schemas.LEADERBOARD.conform(pl.read_parquet(path))
    except (pl.exceptions.PolarsError, SchemaError, OSError) as error:
        raise ConfigError(f"{path} is no leaderboard: {error}. {_RANK}") from error


def write_accepted(data: Path, accepted: Sequence[AcceptedScore], at: str, note: str) -> Path:
    """Write ``accepted.json``, whole or not at all; its path."""
    text = json.dumps(accepted_json(accepted, at, note), indent=2) + "\n"
    path = data / ACCEPTED
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path
