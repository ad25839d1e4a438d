"""Reads what the report shows from the data folder; what is not there is left out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import SchemaError, SourceFileError
from decomposerl.evaluation.scored_claims import without_dropped
from decomposerl.evaluation.systems import System
from decomposerl.reports.report_data import TEST_SETS, TEST_SETS_CALIBRATED
from decomposerl.reports.report_parts import ReportData, TrainedRun
from decomposerl.reports.shown_confidence import stored_confidence
from decomposerl.reports.study_tables import STUDY_TABLES, study_key
from decomposerl.schemas import CURVES, SELECTION_CELLS, STAGE_RUNS
from decomposerl.table import Table
from resources.evaluation.results_folder import read_required
from resources.report.studies import read_studies
from resources.store.parquet import DataFolder, table_of
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

_VERDICTS = {"system": pl.String(), "engine": pl.String(), "reading": pl.String(),
             "confidence": pl.Float64(), "right": pl.Boolean()}  # fmt: skip
_CALLS = {
    "system": pl.String(),
    "engine": pl.String(),
    **dict.fromkeys(("claims", "calls", "prompt_tokens", "completion_tokens"), pl.Int64()),
    **dict.fromkeys(("dollars", "seconds"), pl.Float64()),
}


@dataclass(frozen=True, slots=True)
class ReportNames:
    """What may be in the folder: corpora, test sets, systems, and names of training runs."""

    sources: Sequence[Source]
    benchmarks: Sequence[Benchmark]
    systems: Sequence[System]
    runs: Sequence[str]


def read_report_data(folder: DataFolder, names: ReportNames) -> ReportData:
    """The tables of the report.

    Raises:
        SourceFileError: a table cannot be read, or is another one; the message names the file.
    """
    calibrations = [_table(folder, f"calibrations/{one.key}") for one in names.systems]
    fitted = [one for one in calibrations if one is not None]
    return ReportData(
        attrition=_table(folder, "attrition"),
        selected=_table(folder, "diversity_selected"),
        cells=_table(folder, "selection_cells/diversity_selected", SELECTION_CELLS),
        leaderboard=_table(folder, "leaderboard"),
        comparison=_table(folder, "comparison"),
        calibrations=pl.concat(fitted) if fitted else None,
        verdicts=pl.DataFrame(list(_verdicts(folder, names)), schema=_VERDICTS, orient="row"),
        calls=pl.DataFrame(list(_calls(folder, names)), schema=_CALLS, orient="row"),
        replies=_table(folder, "chat_replies"),
        runs=_runs(folder.path),
        trained=tuple(_trained(folder, names.runs)),
        studies=tuple(read_studies(folder.path)),
        study_tables=dict(_study_tables(folder)),
        source_titles={one.name: one.title for one in names.sources},
        benchmark_titles={one.name: one.title for one in names.benchmarks},
        system_titles={one.key: one.reader_title for one in names.systems},
        paper_raw={s.name: s.paper_raw for s in names.sources if s.paper_raw is not None},
    )


def _table(folder: DataFolder, key: str, table: Table | None = None) -> pl.DataFrame | None:
    """The table of a key; None where it is not there."""
    if not folder.exists(key):
        return None
    known = table or table_of(key)
    try:
        return known.conform(folder.read(key))
    except (OSError, pl.exceptions.PolarsError, SchemaError) as error:
        path = folder.path / f"{key}.parquet"
        raise SourceFileError(f"{path} cannot be read ({error}); make '{key}' again") from error


def _study_tables(folder: DataFolder) -> Iterator[tuple[str, pl.DataFrame]]:
    for name in STUDY_TABLES:
        table = _table(folder, study_key(name))
        if table is not None:
            yield name, table


def _files(folder: DataFolder, names: ReportNames) -> Iterator[tuple[str, str]]:
    """Test set and system of each file of predictions."""
    for benchmark in names.benchmarks:
        for system in names.systems:
            if folder.exists(f"predictions/{benchmark.name}/{system.key}"):
                yield benchmark.name, system.key


def _verdicts(folder: DataFolder, names: ReportNames) -> Iterator[tuple[Any, ...]]:
    """System, engine, reading, confidence and whether it was right, of each labelled claim."""
    columns = ["claim_id", "engine", "verdict", "support_score", "notes"]
    columns += [f"confidence_{kind}" for kind in ("raw", "normalised", "bound", "calibrated")]
    labels: dict[str, pl.DataFrame] = {}
    for benchmark, system in _files(folder, names):
        if benchmark not in labels:
            claims = read_required(folder, f"benchmark/{benchmark}").drop_nulls("label")
            labels[benchmark] = claims.select("claim_id", "label")
        read = without_dropped(folder.read(f"predictions/{benchmark}/{system}", columns))
        rows = read.join(labels[benchmark], on="claim_id").drop_nulls("verdict")
        for row in rows.iter_rows(named=True):
            sure, right = stored_confidence(row), row["verdict"] == row["label"]
            if sure is not None:
                yield system, row["engine"], TEST_SETS, sure.normalised, right
            if sure is not None and sure.calibrated is not None:
                yield system, row["engine"], TEST_SETS_CALIBRATED, sure.calibrated, right


def _calls(folder: DataFolder, names: ReportNames) -> Iterator[tuple[Any, ...]]:
    """System, engine, claims, calls, tokens, dollars and seconds of each file of predictions."""
    for benchmark, system in _files(folder, names):
        run = folder.run(f"predictions/{benchmark}/{system}")
        sums = (0, 0, 0, None)
        if folder.exists(f"calls/{benchmark}/{system}"):
            dollars = pl.when(pl.col("dollars").count() > 0).then(pl.col("dollars").sum())
            calls = folder.read(f"calls/{benchmark}/{system}")
            sums = calls.select(
                pl.len(), pl.col("prompt_tokens", "completion_tokens").sum(), dollars
            ).row(0)
        yield system, run["engine"], run["rows_kept"], *sums, run["seconds"]


def _runs(data: Path) -> pl.DataFrame:
    """The record of every stage, ``STAGE_RUNS``."""
    paths = sorted((data / STAGE_RUNS.name).glob("*.json"))
    records = [json.loads(path.read_text("utf-8")) for path in paths]
    rows = [{name: one.get(name) for name in STAGE_RUNS.schema} for one in records]
    return pl.DataFrame(rows, schema=STAGE_RUNS.schema)


def _trained(folder: DataFolder, names: Sequence[str]) -> Iterator[TrainedRun]:
    for name in names:
        run = RunFolder(policy_folder(folder, name))
        if not run.curves.is_file():
            continue
        curves = _table(folder, f"policy/{name}/curves", CURVES)
        if curves is None:
            continue
        if not run.outcome.is_file():
            yield TrainedRun(name, curves)
            continue
        outcome = read_outcome(run)
        judge = f"judge {outcome.judge.get('engine', '–')}"
        engine = f"{judge}; trl {outcome.versions.get('trl', '–')}"
        ends = (outcome.before, outcome.after)
        yield TrainedRun(name, curves, engine, outcome.steps, *ends, outcome.seconds)
