"""Reads the last run of stage ``deduplicated`` back, for ``decomposerl.reports.rethreshold``."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.errors import DecomposeRLError, SchemaError
from decomposerl.reports.rethreshold import DedupRun, Thresholds, disagreements
from decomposerl.schemas import PAIRS

STAGE, BEFORE = "deduplicated", "difficulty_band"


def read_dedup_run(data: Path) -> tuple[DedupRun, dict[str, Any]]:
    """The run with its pairs, and its record (``schemas.STAGE_RUNS``).

    Raises:
        DecomposeRLError: the stage has not run, or kept no pairs.
        SchemaError: its files belong to different runs.
    """
    path = data / "stage_runs" / f"{STAGE}.json"
    if not path.is_file():
        raise DecomposeRLError(
            f"stage '{STAGE}' has not run in {data}. Run it with: "
            f"decomposerl run {STAGE} --upstream"
        )
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    settings = json.loads(record["config"])
    floor = settings.get("pairs_floor")
    if floor is None or not (data / f"pairs/{STAGE}.parquet").is_file():
        raise DecomposeRLError(
            f"no pairs are stored in {data}. Keep them, from a similarity of 0.6 up, by running "
            "the stage once with the setting 'pairs_floor: 0.6', as in configs/pairs.yaml: "
            f"decomposerl run {STAGE} --config configs/pairs.yaml"
        )
    drops = _read(data, f"drops/{STAGE}", ["claim_id"])
    pairs = PAIRS.conform(_read(data, f"pairs/{STAGE}"))
    ran = Thresholds(settings["jaccard"], settings["cosine"])
    searched = json.loads(record.get("step_engines") or "{}").get("lexical_duplicates", "")
    run = DedupRun(
        _rows(data, drops["claim_id"]), pairs, floor, ran, exact="minhash" not in searched.lower()
    )
    _check_one_run(run)
    return run, record


def _rows(data: Path, dropped: pl.Series) -> pl.DataFrame:
    """The rows that entered, in input order, with what the run kept."""
    rows = _read(data, BEFORE, ["claim_id", "source"])
    kept = _read(data, STAGE, ["claim_id"])["claim_id"]
    if set(rows["claim_id"]) != {*kept, *dropped}:
        raise SchemaError(_mixed(f"{BEFORE}.parquet is not what the stage was given"))
    rows = rows.with_columns(kept=pl.col("claim_id").is_in(kept.implode()))
    if not rows.filter("kept")["claim_id"].equals(kept):
        raise SchemaError(_mixed(f"{BEFORE}.parquet has another order than the stage was given"))
    return rows


def _check_one_run(run: DedupRun) -> None:
    ends = pl.concat([run.pairs["earlier_id"], run.pairs["later_id"]])
    if not ends.is_in(run.rows["claim_id"].implode()).all():
        raise SchemaError(_mixed("the pairs name claims that the stage was not given"))
    if run.exact and disagreements(run):
        raise SchemaError(_mixed("the pairs do not lead to what the stage decided"))


def _read(data: Path, key: str, columns: list[str] | None = None) -> pl.DataFrame:
    path = data / f"{key}.parquet"
    if not path.is_file():
        raise SchemaError(_mixed(f"{path} is missing"))
    return pl.read_parquet(path, columns=columns)


def _mixed(what: str) -> str:
    return f"the tables of stage '{STAGE}' are of different runs: {what}; materialize it again"
