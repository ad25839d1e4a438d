"""Which claims of the data folder training has used: the leak check, and the unused dev split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import DevSplit, dev_split
from decomposerl.evaluation.systems import System
from decomposerl.funnel.catalogue import COMPARED, decontaminate
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.ports import Embedder
from decomposerl.training.experiments import EXPERIMENTS, experiment
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder
from resources.training.run_inputs import inputs_of, notes_folder

SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")


@dataclass(frozen=True, slots=True)
class Leaks:
    """Training claims that match a test claim (``DROPS``), and how many test claims there are."""

    drops: pl.DataFrame
    tests: int

    @property
    def reasons(self) -> dict[str, int]:
        """Matches by reason."""
        return dict(self.drops["reason"].value_counts(sort=True).rows())


def leaks(data: DataFolder, training: str, benchmarks: Sequence[str], embedder: Embedder) -> Leaks:
    """What the three prongs of decontamination (paper, section 2) still find in a training set.

    ``training`` is its key. The thresholds are those of the funnel's last run.
    """
    claims = data.read(training, list(COMPARED))
    tests = pl.concat([data.read(f"benchmark/{name}", list(COMPARED)) for name in benchmarks])
    config = data.run("decontaminated")["config"]
    thresholds = DecontaminationSettings.model_validate_json(config)
    return Leaks(decontaminate(claims, tests, thresholds, embedder).drops, tests.height)


def dev_claims(data: DataFolder, system: System, count: int, seed: int) -> DevSplit:
    """At most ``count`` claims of the silver-decomposed pool that the system has not trained on.

    They are in no training set. For a policy, also as the adapter of an entry, they are neither
    among the claims that its run copied nor among the held-out claims that its checkpoint may have
    been chosen by.

    Raises:
        EvaluationError: the pool was not materialized, or every claim of it is used.
    """
    if not data.exists(SILVER):
        raise EvaluationError(
            f"{data.path / SILVER}.parquet is not there: calibrations are fitted on claims of it. "
            f"Make it first: decomposerl run {SILVER} --upstream"
        )
    files = [data.file(name) for name in _TRAINING]
    run = _run_of(data, system)
    files += _policy_files(data, run) if run else []
    used: list[pl.Series] = [
        read_parquet(file, ["claim_id"])["claim_id"] for file in files if file.is_file()
    ]
    silver = data.read(SILVER)
    split = dev_split(silver, used, count, seed)
    if split.claims.is_empty():
        raise EvaluationError(
            f"none of the {silver.height:,} claims of {SILVER} is outside the training sets: "
            "there is nothing to calibrate on"
        )
    return split


def _run_of(data: DataFolder, system: System) -> str:
    """The training run behind a policy, or behind an entry's adapter; empty where there is none."""
    if system.model.port == "policy":
        return system.model.key
    adapter = system.entry.adapter if system.entry is not None else ""
    trained, policies = Path(adapter).resolve(), (data.path / "policy").resolve()
    if not adapter or policies not in trained.parents:
        return ""
    name = trained.relative_to(policies).parts[0]
    return name if name in {one.name for one in EXPERIMENTS} else ""


def _policy_files(data: DataFolder, run: str) -> list[Path]:
    """Claims that the policy's run trained and was evaluated on."""
    copies = inputs_of(data, experiment(run))
    if copies is None:  # runs of earlier versions recorded their held-out claims only
        return [notes_folder(data, run) / "held_out.parquet"]
    return [copies.claims, *([copies.held_out] if copies.held_out else [])]
