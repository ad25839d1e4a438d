"""The evaluation's files in the data folder; writing them is the IO manager's task."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import polars as pl

from decomposerl import schemas
from decomposerl.claims.doubtful import doubted_ids
from decomposerl.errors import ConfigError, SchemaError
from decomposerl.evaluation.comparison import Predictions
from decomposerl.evaluation.derived import DERIVED, derived_ids
from decomposerl.evaluation.leaderboard import RunCoverage
from decomposerl.evaluation.scored_claims import without_dropped
from decomposerl.evaluation.subset import EvaluationSubset, classes_of, evaluation_subset
from resources.corpora.bundled_sample import BUNDLED
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder

PREDICTIONS, SCORES, CALLS, LEADERBOARD = "predictions", "scores", "calls", "leaderboard"
LIMITED, NOT_AVAILABLE, NOTHING_TO_ASK = "limited", "not_available", "nothing_to_ask"
DOUBTFUL = "doubtful"
_WIDTH = 100
_SAMPLE = "Scored on invented claims (the bundled sample), so not comparable with the paper:"
_THREE = "Scored over three labels (keep_middle), so not comparable with the paper:"
_BUILD = "Build it with: decomposerl run leaderboard comparison"
_COMPARED = ["claim_id", "verdict", "engine"]


def read_required(folder: DataFolder, key: str) -> pl.DataFrame:
    """The frame of an asset.

    Raises:
        ConfigError: it was not materialized yet; the message names the command.
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
        ConfigError: it was not materialized yet.
    """
    for one in DERIVED:
        if one.name == name and not folder.exists(f"benchmark/{name}"):
            return one.claims(read_required(folder, f"benchmark/{one.base}"))
    return read_required(folder, f"benchmark/{name}")


def read_doubtful(folder: DataFolder, name: str) -> frozenset[str]:
    """The claims of a test set whose label its list doubts; empty where there is no list.

    A derived test set has the list of its base.
    """
    for one in DERIVED:
        if one.name == name and not folder.exists(f"benchmark/{name}"):
            doubted = read_doubtful(folder, one.base)
            base = f"benchmark/{one.base}"
            return derived_ids(one, folder.read(base), doubted) if doubted else doubted
    key = f"{DOUBTFUL}/{name}"
    if not folder.exists(key):
        return frozenset()
    return doubted_ids(schemas.DOUBTFUL.conform(folder.read(key)))


def with_sample_note(
    page: str, folder: DataFolder, board: pl.DataFrame, titles: Mapping[str, str]
) -> str:
    """A page of a ``LEADERBOARD``, and below it what is not comparable with the paper.

    These are the test sets of the bundled sample with scores, and those with three labels.
    """
    scored = board.filter(pl.col("score").is_not_null())["benchmark"].unique(maintain_order=True)
    bases = {one.name: one.base for one in DERIVED}
    for why, holds in ((_SAMPLE, _of_the_sample), (_THREE, _has_three_labels)):
        names = [name for name in scored if holds(folder, bases.get(name, name))]
        listed = ", ".join(titles.get(name, name) for name in names)
        page += f"\n\n{fill(f'{why} {listed}.', _WIDTH)}" if names else ""
    return page


def _of_the_sample(folder: DataFolder, name: str) -> bool:
    try:
        record = folder.run(f"benchmark/{name}")
    except FileNotFoundError:  # a mean
        return False
    return bool(json.loads(record["config"]).get("corpora") == BUNDLED)


def _has_three_labels(folder: DataFolder, name: str) -> bool:
    key = f"benchmark/{name}"
    if not folder.exists(key):  # a mean
        return False
    usable = evaluation_subset(folder.read(key, ["claim_id", "label", "evidence"])).claims
    return classes_of(usable["label"]) > len(schemas.LABELS)


def subset_status(subset: EvaluationSubset) -> str:
    """The status recorded with predictions of these claims."""
    if not subset.usable:
        return NOTHING_TO_ASK if subset.left_out else NOT_AVAILABLE
    return LIMITED if subset.limited else "ok"


def _selection(key: str) -> str:
    """The selection of an asset by its file; predictions and scores are partitions of one asset."""
    parts = key.split("/")
    if parts[0] in {PREDICTIONS, SCORES}:
        return f"'key:\"{parts[0]}/{parts[1]}\"' --partition {parts[2]}"
    return f"'key:\"{key}\"'"


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """The files of the evaluation, whichever run wrote them; restricted to current names.

    Systems may thus be run on different days and machines. ``systems`` have the digest of their
    entry, empty for those of the catalogue: files of an entry that was edited since do not count.
    """

    folder: DataFolder
    benchmarks: Sequence[str]
    systems: Mapping[str, str]

    def claims(self) -> dict[str, pl.DataFrame]:
        """The materialized test sets by name."""
        keys = {name: f"benchmark/{name}" for name in self.benchmarks}
        return {
            name: self.folder.read(key) for name, key in keys.items() if self.folder.exists(key)
        }

    def doubtful(self) -> dict[str, frozenset[str]]:
        """The claims with a doubtful label by test set."""
        return {name: read_doubtful(self.folder, name) for name in self.benchmarks}

    def scores(self) -> pl.DataFrame:
        """All scores of current systems and test sets, as ``SCORES``."""
        frames = [self.folder.read(key) for key, _, _ in self._files(SCORES)]
        return schemas.SCORES.conform(pl.concat([schemas.SCORES.empty(), *frames]))

    def predictions(self) -> Predictions:
        """Claim, verdict and engine of all predictions that count, by test set and system."""
        frames: dict[str, dict[str, pl.DataFrame]] = {}
        for key, benchmark, system in self._files(PREDICTIONS):
            read = without_dropped(self.folder.read(key, [*_COMPARED, "notes"]))
            frames.setdefault(benchmark, {})[system] = read.select(_COMPARED)
        return frames

    def runs(self) -> RunCoverage:
        """The limited runs, those without a claim to predict, and those of an earlier entry."""
        return RunCoverage(
            self._with_status(SCORES, LIMITED),
            self._with_status(SCORES, NOT_AVAILABLE, NOTHING_TO_ASK),
            self.edited(SCORES),
        )

    def edited(self, kind: str) -> frozenset[tuple[str, str]]:
        """The scores or predictions of an earlier form of an entry, as (system, test set)."""
        return frozenset(
            (system, benchmark)
            for key, benchmark, system in self._written(kind)
            if not self._current(key, system)
        )

    def limited(self) -> frozenset[tuple[str, str]]:
        """The predictions of limited runs, as (system, test set)."""
        return self._with_status(PREDICTIONS, LIMITED)

    def _with_status(self, kind: str, *statuses: str) -> frozenset[tuple[str, str]]:
        return frozenset(
            (system, benchmark)
            for key, benchmark, system in self._files(kind)
            if self.folder.run(key)["status"] in statuses
        )

    def _files(self, kind: str) -> Iterator[tuple[str, str, str]]:
        """Key, test set and system of each file that counts, in the order of the lists."""
        return (one for one in self._written(kind) if self._current(one[0], one[2]))

    def _current(self, key: str, system: str) -> bool:
        """Whether a file is of the present entry; every one is where the system has none."""
        digest = self.systems[system]
        return not digest or self.folder.run(key).get("entry") == digest

    def _written(self, kind: str) -> Iterator[tuple[str, str, str]]:
        for benchmark in self.benchmarks:
            for system in self.systems:
                key = f"{kind}/{benchmark}/{system}"
                if self.folder.exists(key):
                    yield key, benchmark, system


def read_leaderboard(data: Path) -> pl.DataFrame:
    """The leaderboard, ``LEADERBOARD``.

    Raises:
        ConfigError: it is missing or damaged; the message names the command that builds it.
    """
    path = data / f"{LEADERBOARD}.parquet"
    if not path.is_file():
        raise ConfigError(f"there is no leaderboard in {data}. {_BUILD}")
    try:
        return schemas.LEADERBOARD.conform(read_parquet(path))
    except (pl.exceptions.PolarsError, SchemaError, OSError) as error:
        raise ConfigError(f"{path} is not a leaderboard: {error}. {_BUILD}") from error
