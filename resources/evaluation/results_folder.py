"""The evaluation's files in the data folder; writing its tables is the IO manager's task."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from textwrap import fill

import polars as pl

from decomposerl import schemas
from decomposerl.errors import ConfigError, SchemaError
from decomposerl.evaluation.comparison import Predictions
from decomposerl.evaluation.leaderboard import EDITED, LIMITED, NOT_AVAILABLE, RunCoverage
from decomposerl.evaluation.scored_claims import (
    EvaluationSubset,
    classes_of,
    evaluation_subset,
    without_dropped,
)
from decomposerl.evaluation.systems import System
from resources.corpora.bundled_sample import BUNDLED
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder

PREDICTIONS, SCORES = "predictions", "scores"
NOTHING_TO_ASK = "nothing_to_ask"
_WIDTH = 100
_SAMPLE = "Scored on invented claims (the bundled sample), so not comparable with the paper:"
_THREE = "Scored over three labels (keep_middle), so not comparable with the paper:"
_BUILD = "Build it with: decomposerl run leaderboard comparison"
_COMPARED = ["claim_id", "verdict", "engine"]
_MATERIALIZE = "dagster asset materialize -m dagster_project.definitions --select"


def read_required(folder: DataFolder, key: str) -> pl.DataFrame:
    """The frame of an asset.

    Raises:
        ConfigError: it was not materialized yet; the message names the command.
    """
    if not folder.exists(key):
        selection = f"'key:\"{key}\"'"
        table, *names = key.split("/")
        if table in {PREDICTIONS, SCORES}:  # of these a file is a partition
            selection = f"'key:\"{table}/{names[0]}\"' --partition {names[1]}"
        raise ConfigError(
            f"{folder.path / key}.parquet is not there. Materialize it first: "
            f"{_MATERIALIZE} {selection}"
        )
    return folder.read(key)


def read_doubtful(folder: DataFolder, name: str) -> frozenset[str]:
    """The claims of a test set whose label its list doubts; empty where there is no list."""
    key = f"doubtful/{name}"
    if not folder.exists(key):
        return frozenset()
    return frozenset(folder.read(key).filter(state="doubtful")["claim_id"])


def with_sample_note(
    page: str, folder: DataFolder, board: pl.DataFrame, titles: Mapping[str, str]
) -> str:
    """A page of a ``LEADERBOARD``, and below it what is not comparable with the paper.

    These are the test sets of the bundled sample with scores, and those with three labels.
    """
    scored = board.filter(pl.col("score").is_not_null())["benchmark"].unique(maintain_order=True)
    of_sample, of_three = [], []
    for name in scored:
        key, title = f"benchmark/{name}", titles.get(name, name)
        with suppress(FileNotFoundError):  # a mean has no record
            if json.loads(folder.run(key)["config"]).get("corpora") == BUNDLED:
                of_sample.append(title)
        if folder.exists(key):
            claims = folder.read(key, ["claim_id", "label", "evidence"])
            if classes_of(evaluation_subset(claims).claims["label"]) > len(schemas.LABELS):
                of_three.append(title)
    for why, names in ((_SAMPLE, of_sample), (_THREE, of_three)):
        if names:
            note = f"{why} {', '.join(names)}."
            page += "\n\n" + fill(note, _WIDTH, break_on_hyphens=False)
    return page


def subset_status(subset: EvaluationSubset) -> str:
    """The status recorded with predictions of these claims."""
    if not subset.usable:
        return NOTHING_TO_ASK if subset.left_out else NOT_AVAILABLE
    return LIMITED if subset.limited else "ok"


def run_statuses(
    folder: DataFolder, kind: str, benchmarks: Iterable[str], systems: Iterable[System]
) -> RunCoverage:
    """The status of each file of predictions or scores that exists, in the order of the lists.

    Whichever run wrote it: systems may be run on different days and machines. Files of an entry of
    ``systems.toml`` that was edited since are ``EDITED``, and do not count.
    """
    statuses: dict[tuple[str, str], str] = {}
    for name, system in product(benchmarks, systems):
        key = f"{kind}/{name}/{system.key}"
        if folder.exists(key):
            run = folder.run(key)
            status = NOT_AVAILABLE if run["status"] == NOTHING_TO_ASK else run["status"]
            edited = system.entry_digest and run.get("entry") != system.entry_digest
            statuses[system.key, name] = EDITED if edited else status
    return statuses


def current_scores(folder: DataFolder, runs: RunCoverage) -> pl.DataFrame:
    """All ``SCORES`` of these runs that count."""
    current = (cell for cell, status in runs.items() if status != EDITED)
    frames = [folder.read(f"{SCORES}/{name}/{system}") for system, name in current]
    return schemas.SCORES.conform(pl.concat([schemas.SCORES.empty(), *frames]))


def current_predictions(folder: DataFolder, runs: RunCoverage) -> Predictions:
    """Claim, verdict and engine of all predictions that count, by test set and system."""
    frames: dict[str, dict[str, pl.DataFrame]] = {}
    for (system, name), status in runs.items():
        if status != EDITED:
            read = folder.read(f"{PREDICTIONS}/{name}/{system}", [*_COMPARED, "notes"])
            frames.setdefault(name, {})[system] = without_dropped(read).select(_COMPARED)
    return frames


def read_leaderboard(data: Path) -> pl.DataFrame:
    """The leaderboard, ``LEADERBOARD``.

    Raises:
        ConfigError: it is missing or damaged; the message names the command that builds it.
    """
    path = data / "leaderboard.parquet"
    if not path.is_file():
        raise ConfigError(f"there is no leaderboard in {data}. {_BUILD}")
    try:
        return schemas.LEADERBOARD.conform(read_parquet(path))
    except (pl.exceptions.PolarsError, SchemaError, OSError) as error:
        raise ConfigError(f"{path} is not a leaderboard: {error}. {_BUILD}") from error
