"""The dev split of a system, drawn in the data folder.

Takes the data folder and a system, gives claims of the silver-decomposed pool that are in no
training set and, for a policy, not among the held-out claims that its run was told by and that its
checkpoint may have been chosen by.

Left out deliberately: the draw (``evaluation.dev_split``).
"""

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.dev_split import DevSplit, dev_split
from decomposerl.evaluation.systems import System
from resources.tables import DataFolder

SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")


def dev_claims(data: DataFolder, system: System, count: int, seed: int) -> DevSplit:
    """At most ``count`` claims for the system.

    Raises:
        EvaluationError: the pool was not materialized, or no claim of it is unused.
    """
    if not data.exists(SILVER):
        raise EvaluationError(
            f"{data.path / SILVER}.parquet is not there: calibrations are fitted on claims of it. "
            "Materialize it first: dagster job execute -m dagster_project.definitions -j funnel"
        )
    held_out = f"policy_runs/{system.model.key}/held_out"
    names = [*_TRAINING, *([held_out] if system.model.port == "policy" else [])]
    used: list[pl.Series] = [
        data.read(name, ["claim_id"])["claim_id"] for name in names if data.exists(name)
    ]
    split = dev_split(data.read(SILVER), used, count, seed)
    if split.claims.is_empty():
        raise EvaluationError(
            f"none of the {split.pool:,} claims of {SILVER} is outside the training sets: "
            "there is nothing to calibrate on"
        )
    return split
