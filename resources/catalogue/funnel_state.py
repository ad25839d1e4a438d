"""Reads which claims each stage of a data folder kept, and with which settings."""

import json
from pathlib import Path

from decomposerl.errors import DecomposeRLError, SchemaError
from decomposerl.reports.attrition import STAGES
from decomposerl.reports.attrition_changes import FunnelState
from resources.store.integrity import read_record, scan_parquet


def funnel_state(data: Path) -> FunnelState:
    """The stages of ``data`` that have run.

    Raises:
        DecomposeRLError: the folder has none.
        SchemaError: a run record is damaged.
    """
    kept, settings = {}, {}
    for stage in STAGES:
        files = sorted(
            data.glob(f"{stage}/*.parquet" if stage == STAGES[0] else f"{stage}.parquet")
        )
        if files:
            kept[stage] = scan_parquet(*files).select("claim_id", "source").collect()
        record = data / "stage_runs" / f"{stage}.json"
        if record.is_file():
            try:
                settings[stage] = json.loads(read_record(record)["config"])
            except (ValueError, KeyError) as error:
                raise SchemaError(f"{record} is not a run record: {error}") from error
    if not kept:
        raise DecomposeRLError(
            f"no stage has run in {data}; give `paper`, `published` or a data folder, which "
            "`decomposerl run catalog --upstream` makes"
        )
    return FunnelState(kept, settings)
