"""One stage of the funnel over HTTP, as a program that tests start and kill.

``python stage_child.py <stage> <data> <url> <model>`` materializes the stage from the tables
in ``data``: the verifier and the decomposer ask ``url``, the other engines are embedded.
"""

import sys
from pathlib import Path

import dagster as dg
import polars as pl

from assets.funnel import funnel_assets
from dagster_project.engine_resources import resources_for
from decomposerl.endpoint import Endpoint
from decomposerl.table import Table
from environment import settings_of
from resources.chat.endpoint import config_of
from resources.decomposer.resource import DecomposerResource
from resources.store.parquet import write_parquet
from resources.verifier.resource import VerifierResource
from strategies import example_row, frame_of

IN_FLIGHT = 16
WORDS = "ice melts in warm rain and snow falls on Paris while rivers rise".split()


def write_claims(data: Path, table: Table, rows: int) -> pl.DataFrame:
    """Write ``rows`` distinct claims as the input table of a stage."""
    frame = frame_of(
        table,
        [
            example_row(
                claim=f"{WORDS[row % 12]} {WORDS[row % 7]} {row}",
                evidence=" ".join(WORDS[row % 5 : row % 5 + 6]) + ".",
                label=("Supported", "Refuted")[row % 2],
            )
            for row in range(rows)
        ],
    )
    write_parquet(frame, data / f"{table.name}.parquet")
    return frame


def run_stage(stage: str, data: Path, url: str, model: str) -> dg.ExecuteInProcessResult:
    """Materialize one stage in this process."""
    results = str(data / "engine_results")
    endpoint = config_of(Endpoint(model=model, base_url=(url,), concurrency=IN_FLIGHT))
    hosted = {
        "verifier": VerifierResource(
            results_dir=results,
            engine="minicheck_hosted",
            endpoint=endpoint,
            allow_own_prompt=True,
        ),
        "decomposer": DecomposerResource(
            results_dir=results,
            engine="chat",
            endpoint=endpoint,
        ),
    }
    (asset,) = (one for one in funnel_assets(["hover"], []) if one.key == dg.AssetKey(stage))
    inputs = [dg.AssetSpec(key) for key in asset.dependency_keys]
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            [asset, *inputs],
            selection=[stage],
            instance=instance,
            resources=resources_for(settings_of(data)) | hosted,
            run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
        )


if __name__ == "__main__":
    run_stage(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
