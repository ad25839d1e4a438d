"""What a training run learns from, gathered in the data folder.

Takes a recipe and the data folder, gives the files of its claims and held-out claims, its base
weights and its key. Held-out claims are written beside the run's own folder.

Left out deliberately: which claims are held out (``training.held_out_claims``).
"""

from collections.abc import Sequence
from pathlib import Path

from decomposerl.errors import TrainingError
from decomposerl.training.experiment import BASE_POLICY, Experiment
from decomposerl.training.held_out_claims import held_out_claims
from resources.tables import DataFolder, write_parquet
from resources.training.launcher import Material
from resources.training.run_key import run_key

_SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")


def gather(
    data: DataFolder, experiment: Experiment, engines: Sequence[str], prompts: str = ""
) -> Material:
    """The material of a recipe; ``engines`` are the names of judge and question embedder.

    Raises:
        TrainingError: an asset that it needs was not materialized yet.
        ConfigError: a prompt file is malformed.
    """
    notes = data.path / "policy_runs" / experiment.name
    claims = _file(data, experiment.claims)
    held_out = _held_out(data, experiment, notes)
    base = experiment.model
    if base == BASE_POLICY:
        base = str(data.path / BASE_POLICY)
        if not Path(base).is_dir():
            raise _missing(BASE_POLICY, Path(base))
    return Material(
        experiment=experiment,
        key=run_key(experiment, (claims, held_out), base, engines, prompts),
        claims=claims,
        held_out=held_out,
        base=base,
        folder=policy_folder(data, experiment.name),
        notes=notes,
    )


def policy_folder(data: DataFolder, experiment: str) -> Path:
    """Where a recipe's run and its adapter lie."""
    return data.path / "policy" / experiment


def _held_out(data: DataFolder, experiment: Experiment, notes: Path) -> Path | None:
    wanted = experiment.held_out.claims
    if not wanted:
        return None
    _file(data, _SILVER)
    training = [data.read(name) for name in _TRAINING if data.exists(name)]
    # Not the run's seed: runs of several seeds are told by the same claims.
    chosen = held_out_claims(data.read(_SILVER), *training, count=wanted, seed=_SEED)
    path = notes / "held_out.parquet"
    write_parquet(chosen, path)
    return path


_SEED = 42


def _file(data: DataFolder, name: str) -> Path:
    path = data.path / f"{name}.parquet"
    if not path.is_file():
        raise _missing(name, path)
    return path.resolve()


def _missing(asset: str, path: Path) -> TrainingError:
    return TrainingError(
        f"{path} is not there. Materialize it first: dagster asset materialize "
        f"-m dagster_project.definitions --select '{asset}'"
    )
