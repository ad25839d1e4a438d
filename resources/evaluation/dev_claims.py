"""The dev split of a system, drawn in the data folder.

Takes the data folder and a system, gives claims of the silver-decomposed pool that are in no
training set and, for a policy, neither among the claims that its run copied for itself nor among
the held-out claims that it was evaluated on and that its checkpoint may have been chosen by.

Left out deliberately: the draw (``evaluation.dev_split``).
"""

from pathlib import Path

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.dev_split import DevSplit, dev_split
from decomposerl.evaluation.systems import System
from decomposerl.training.experiments import experiment
from resources.store.parquet import DataFolder
from resources.training.run_inputs import inputs_of, notes_folder

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
    files = [data.path / f"{name}.parquet" for name in _TRAINING]
    files += _of_policy(data, system) if system.model.port == "policy" else []
    used: list[pl.Series] = [
        pl.read_parquet(file, columns=["claim_id"])["claim_id"] for file in files if file.is_file()
    ]
    split = dev_split(data.read(SILVER), used, count, seed)
    if split.claims.is_empty():
        raise EvaluationError(
            f"none of the {split.pool:,} claims of {SILVER} is outside the training sets: "
            "there is nothing to calibrate on"
        )
    return split


def _of_policy(data: DataFolder, system: System) -> list[Path]:
    """What its run trained and was evaluated on; earlier versions noted the latter alone."""
    copies = inputs_of(data, experiment(system.model.key))
    if copies is None:
        return [notes_folder(data, system.model.key) / "held_out.parquet"]
    return [copies.claims, *([copies.held_out] if copies.held_out else [])]
