"""The asset ``policy`` over stand-ins for training, in this process or as a program.

``python training_graph.py PARTITION DATA [DASHBOARD]`` materializes one partition in a process that
tests interrupt and kill; training is a job of the Ray cluster with that dashboard.
"""

import sys
from pathlib import Path

import dagster as dg
import polars as pl

from assets.training import policy_asset, training_health_check
from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.table import Table
from decomposerl.training.experiment import Experiment, HeldOut
from decomposerl.training.experiments import with_seed
from project import PYTHONPATH
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.store.parquet import DataFolder, write_parquet
from resources.training.ray_jobs import TrainingJobs
from resources.training.resource import PolicyTrainerResource
from strategies import example_row, frame_of

PARTS = ("good", "stopped", "killed", "broken", "silent", "unread", "slow")
RECIPES = tuple(
    Experiment(name=part, title=f"plays {part}", model="hub/name", held_out=HeldOut(claims=2))
    for part in PARTS
)
RECIPES += (with_seed(RECIPES[0], 1),)


def write_claims(data: Path) -> None:
    """Six silver claims, the first three of them for training."""
    for table, rows in ((SILVER_DECOMPOSED, 6), (TRAINING_CLAIMS, 3)):
        write_parquet(claims(table, rows), data / f"{table.name}.parquet")


def claims(table: Table, rows: int) -> pl.DataFrame:
    return frame_of(
        table,
        [
            example_row(claim=f"claim {row}", label=("Supported", "Refuted")[row % 2])
            for row in range(rows)
        ],
    )


def resources(data: Path, dashboard: str = "") -> dict[str, object]:
    """Embedded engines, and a trainer that starts the stand-in."""
    results = str(data / "engine_results")
    paths = f"PYTHONPATH={PYTHONPATH}"
    return {
        "data_folder": DataFolder(base_dir=str(data)),
        "judge": JudgeResource(results_dir=results),
        "question_embedder": EmbedderResource(results_dir=results),
        "policy_trainer": PolicyTrainerResource(
            module="training_stand_in",
            python="env",
            launch=[paths, sys.executable],
            grace_s=10,
            jobs=TrainingJobs(address=dashboard, cpus=0.5),
        ),
    }


def materialize(
    part: str,
    data: Path,
    instance: dg.DagsterInstance | None = None,
    dashboard: str = "",
    **config: object,
) -> dg.ExecuteInProcessResult:
    """Materialize one partition with its check; ``config`` is the asset's."""
    return dg.materialize(
        [policy_asset(RECIPES, None), training_health_check(RECIPES)],
        partition_key=part,
        resources=resources(data, dashboard),
        instance=instance,
        run_config={"ops": {"policy": {"config": config}}},
        raise_on_error=False,
    )


if __name__ == "__main__":
    part, folder, *ray = sys.argv[1:]
    sys.exit(not materialize(part, Path(folder), dashboard=ray[0] if ray else "").success)
