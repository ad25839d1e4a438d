"""The evaluation's files in the data folder, and files of predictions of any project.

Writing the evaluation's tables is the IO manager's task.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import Any

import polars as pl

from decomposerl import schemas
from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.records import jsonl_records
from decomposerl.claims.source import FORMAT_OF_ENDING, NativeFile
from decomposerl.errors import ConfigError, EvaluationError, SchemaError
from decomposerl.evaluation.cells import format_errors
from decomposerl.evaluation.comparison import Predictions
from decomposerl.evaluation.leaderboard import EDITED, LIMITED, NOT_AVAILABLE, RunCoverage
from decomposerl.evaluation.scored_claims import (
    EvaluationSubset,
    classes_of,
    evaluation_subset,
    without_dropped,
)
from decomposerl.evaluation.systems import System
from decomposerl.reports.system_report import NOTES, WIDTH, leaderboard_page
from resources.corpora.bundled_sample import BUNDLED
from resources.corpora.folder import content_of, records_of
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder

PREDICTIONS, SCORES = "predictions", "scores"
NOTHING_TO_ASK = "nothing_to_ask"
_BUILD = "Build it with: decomposerl run leaderboard comparison"
_COMPARED = ["claim_id", "verdict", "engine"]
_MATERIALIZE = "dagster asset materialize -m dagster_project.definitions --select"


def read_required(folder: DataFolder, key: str) -> pl.DataFrame:
    """The frame of an asset.

    Raises:
        ConfigError: it was not materialized yet; the message names the command.
    """
    if folder.exists(key):
        return folder.read(key)
    table, *names = key.split("/")
    selection = f"'key:\"{key}\"'"
    if table in {PREDICTIONS, SCORES}:  # of these a file is a partition
        selection = f"'key:\"{table}/{names[0]}\"' --partition {names[1]}"
    why = f"{folder.path / key}.parquet is not there. Materialize it first"
    raise ConfigError(f"{why}: {_MATERIALIZE} {selection}")


def read_doubtful(folder: DataFolder, name: str) -> frozenset[str]:
    """The claims of a test set whose label its list doubts; empty where there is no list."""
    key = f"doubtful/{name}"
    if not folder.exists(key):
        return frozenset()
    return frozenset(folder.read(key).filter(state="doubtful")["claim_id"])


def board_page(
    folder: DataFolder,
    board: pl.DataFrame,
    titles: Mapping[str, str],
    **layout: Any,  # noqa: ANN401 - of the page
) -> str:
    """``leaderboard_page``, and below it what is not comparable with the paper.

    These are the test sets of the bundled sample with scores, and those with three labels.
    """
    notes: dict[str, list[str]] = {"sample": [], "three_labels": []}
    for name in board.drop_nulls("score")["benchmark"].unique(maintain_order=True):
        key, title = f"benchmark/{name}", titles.get(name, name)
        with suppress(FileNotFoundError):  # a mean has no record
            of_sample = json.loads(folder.run(key)["config"]).get("corpora") == BUNDLED
            notes["sample"] += [title] * of_sample
        if folder.exists(key):
            claims = folder.read(key, ["claim_id", "label", "evidence"])
            labels = evaluation_subset(claims).claims["label"]
            notes["three_labels"] += [title] * (classes_of(labels) > len(schemas.LABELS))
    said = [f"{NOTES[note]} {', '.join(names)}." for note, names in notes.items() if names]
    page = leaderboard_page(board, titles, **layout)
    return "\n\n".join([page, *(fill(note, WIDTH, break_on_hyphens=False) for note in said)])


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
    current = [f"{SCORES}/{name}/{system}" for (system, name), of in runs.items() if of != EDITED]
    return schemas.SCORES.conform(pl.concat([schemas.SCORES.empty(), *map(folder.read, current)]))


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


def read_result_rows(path: Path) -> list[Record]:
    """All rows of a file of predictions or labels, of this project or another.

    The suffix decides the format: ``.jsonl`` (or ``.ndjson``), ``.csv``, ``.tsv``, ``.parquet`` and
    ``.json``, each also with ``.gz``. A JSON file is a list of objects or values, an object from
    ids to objects or values, an object with one list of objects, which are the rows, or JSON lines.
    The key of an entry becomes the fields ``key`` and, unless the object has one, ``id``; a bare
    value becomes the field ``value``.

    Raises:
        EvaluationError: the file cannot be read, has a broken row (named by file and number), or
            has no row.
    """
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if ending not in FORMAT_OF_ENDING:
        known = ", ".join(sorted(FORMAT_OF_ENDING, key=".json".__eq__))
        raise EvaluationError(f"{path}: its ending is none of {known} (or those with .gz)")
    if not path.is_file():
        raise EvaluationError(f"{path}: unreadable file: there is no such file")
    file = NativeFile(str(path), FORMAT_OF_ENDING[ending], "")
    rows, broken = list[Record](), []
    for row in _json_rows(path) if ending == ".json" else records_of(path, file):
        if isinstance(row, Record):
            rows.append(row)
            continue
        where = f", row {row.row}" * bool(row.row) + f", field {row.field}" * bool(row.field)
        broken.append(f"{row.file}{where}: {row.reason.replace('_', ' ')}: {row.detail}")
    if broken or not rows:
        raise EvaluationError("\n".join(format_errors(broken)) or f"{path} has no row")
    return rows


def _json_rows(path: Path) -> Iterator[Record | Reject]:
    def unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
        """An object whose keys appear once: of a repeated one a value would be lost."""
        fields: dict[str, object] = {}
        for key, value in pairs:
            if key in fields:
                raise EvaluationError(f"{path}: the key {key!r} appears twice in one object")
            fields[key] = value
        return fields

    try:
        data = content_of(path)
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=unrepeated)
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        lines = data.splitlines(keepends=True)
        if len(lines) > 1 and lines[0].rstrip().endswith(b"}"):
            yield from jsonl_records(str(path), lines)
            return
        raise EvaluationError(f"{path}: not JSON in UTF-8: {error}") from error
    if isinstance(whole, dict):
        tables = [rows for rows in whole.values() if isinstance(rows, list) and rows]
        tables = [rows for rows in tables if all(isinstance(row, dict) for row in rows)]
        whole = tables[0] if len(tables) == 1 else whole
    elif not isinstance(whole, list):
        raise EvaluationError(f"{path}: neither a list nor an object")
    entries = whole.items() if isinstance(whole, dict) else ((None, value) for value in whole)
    for row, (key, value) in enumerate(entries, start=1):
        named = {} if key is None else {"key": key, "id": key}
        fields = value if isinstance(value, dict) else {"value": value}
        yield Record(str(path), row, named | fields)
