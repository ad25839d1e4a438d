"""What a training run learns from, copied once out of the data folder.

Takes a recipe and the data folder, gives copies of its claims, held-out claims, base policy and
prompt in ``<folder>/inputs/<key>/``, and the run's key, which is over the content of these very
copies. Trainer, resumed runs and evaluation read the copies alone, so that assets may be
materialized again, or edited, while a run goes on.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.prompts.policy import NAME as POLICY
from decomposerl.training.claim_draws import held_out_claims
from decomposerl.training.experiment import BASE_POLICY, Experiment
from resources.store.parquet import DataFolder, file_sha256, write_parquet
from resources.store.prompts import load_prompt
from resources.training.checkpoints import empty_folder, publish_folder
from resources.training.resource import Material
from resources.training.run_folder import RunFolder, read_key
from resources.training.run_key import base_version, run_key

_SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")
_CLAIMS, _HELD_OUT, _PROMPTS, _ASIDE = "claims.parquet", "held_out.parquet", "prompts", ".partial"
_TRIES = 3
_SEED = 42  # not the run's: runs of several seeds are evaluated on the same claims


class Inputs(NamedTuple):
    """The copies in one folder; ``base`` is a hub name or a folder elsewhere where it is no copy.

    ``held_out`` is None and ``prompts`` empty where the run has none of its own.
    """

    claims: Path
    held_out: Path | None
    base: str
    prompts: str


def gather(
    data: DataFolder,
    experiment: Experiment,
    engines: Sequence[str],
    prompts: str = "",
    folder: Path | None = None,
) -> Material:
    """The material of a recipe, copied; ``engines`` are the names of judge and question embedder.

    The copies lie in ``folder``, by default the run's own; those of a run that never began are
    removed.

    Raises:
        TrainingError: an asset that it needs was not materialized yet, or changes all the time.
        ConfigError: a prompt file is malformed.
    """
    own = policy_folder(data, experiment.name)
    place = RunFolder((own if folder is None else folder).resolve())
    sources = _sources(data, experiment)
    load_prompt(POLICY, prompts)  # a malformed folder of prompts is refused before a copy is made
    aside = place.inputs(_ASIDE)
    empty_folder(aside)
    try:
        _copy(data, experiment, sources, prompts, aside)
        key = _key(experiment, aside, engines)
        target = place.inputs(key)
        if not target.is_dir() or _key(experiment, target, engines) != key:
            publish_folder(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for path in target.parent.iterdir():
        if path.name not in {key, read_key(place)}:
            shutil.rmtree(path)
    notes = notes_folder(data, experiment.name)
    return Material(experiment, key, *_inputs(experiment, target), folder=own, notes=notes)


def policy_folder(data: DataFolder, experiment: str) -> Path:
    """Where a recipe's run and its adapter lie."""
    return data.path / "policy" / experiment


def notes_folder(data: DataFolder, experiment: str) -> Path:
    """Where what is written around a recipe's run lies."""
    return data.path / "policy_runs" / experiment


def look_folder(data: DataFolder, experiment: str) -> Path:
    """Where the copies for a look before the first step lie, which leaves no run behind."""
    return notes_folder(data, experiment) / "dry_run"


def inputs_of(data: DataFolder, experiment: Experiment) -> Inputs | None:
    """What the recipe's present run learned from; None where no copies of it are there."""
    place = RunFolder(policy_folder(data, experiment.name))
    key = read_key(place)
    copies = place.inputs(key)
    return _inputs(experiment, copies) if key and copies.is_dir() else None


def base_of(data: DataFolder, experiment: Experiment) -> str:
    """The base that the recipe's adapter was trained on; runs of earlier versions kept no copy."""
    copies = inputs_of(data, experiment)
    if copies is not None:
        return copies.base
    tiny = experiment.model == BASE_POLICY
    return str(data.path / BASE_POLICY) if tiny else experiment.model


def news(material: Material) -> str:
    """A sentence where the run begins anew in place of another one; empty where it does not."""
    place = RunFolder(material.folder)
    earlier = read_key(place)
    if earlier in {"", material.key}:
        return ""
    before, now = place.inputs(earlier), material.claims.parent
    what = [words for words, name in _WORDS if _digest(before / name) != _digest(now / name)]
    changed = ", ".join(what) if before.is_dir() else "inputs, recipe"
    return (
        f"{changed or 'recipe or engines'} changed since run {earlier}: it moves to "
        f"{place.path / 'superseded' / earlier}, and run {material.key} begins at step 0"
    )


_WORDS = (
    ("training claims", _CLAIMS),
    ("held-out claims", _HELD_OUT),
    ("base policy", BASE_POLICY),
    ("policy prompt", _PROMPTS),
)


def _digest(path: Path) -> str:
    return file_sha256(path) if path.is_file() else base_version(str(path)) * path.is_dir()


def _inputs(experiment: Experiment, folder: Path) -> Inputs:
    held_out, prompts = folder / _HELD_OUT, folder / _PROMPTS
    tiny = experiment.model == BASE_POLICY
    return Inputs(
        claims=folder / _CLAIMS,
        held_out=held_out if held_out.is_file() else None,
        base=str(folder / BASE_POLICY) if tiny else experiment.model,
        prompts=str(prompts) if prompts.is_dir() else "",
    )


def _key(experiment: Experiment, folder: Path, engines: Sequence[str]) -> str:
    found = _inputs(experiment, folder)
    return run_key(experiment, (found.claims, found.held_out), found.base, engines, found.prompts)


def _sources(data: DataFolder, experiment: Experiment) -> dict[str, Path]:
    """The live files and the folder that are copied, or that held-out claims are chosen from."""
    names = [experiment.claims, *([_SILVER] if experiment.held_out.claims else [])]
    found = {name: data.path / f"{name}.parquet" for name in names}
    if experiment.model == BASE_POLICY:
        found[BASE_POLICY] = data.path / BASE_POLICY
    for asset, path in found.items():
        if not path.exists():
            raise TrainingError(
                f"{path} is not there. Materialize it first: dagster asset materialize "
                f"-m dagster_project.definitions --select '{asset}'"
            )
    return found


def _copy(
    data: DataFolder, experiment: Experiment, sources: dict[str, Path], prompts: str, aside: Path
) -> None:
    shutil.copyfile(sources[experiment.claims], aside / _CLAIMS)
    if _SILVER in sources:
        others = [one for one in _TRAINING if one != experiment.claims and data.exists(one)]
        training = [pl.read_parquet(aside / _CLAIMS), *(data.read(name) for name in others)]
        count = experiment.held_out.claims
        chosen = held_out_claims(data.read(_SILVER), *training, count=count, seed=_SEED)
        write_parquet(chosen, aside / _HELD_OUT)
    if BASE_POLICY in sources:
        _copy_model(sources[BASE_POLICY], aside / BASE_POLICY)
    prompt = Path(prompts) / f"{POLICY}.md"
    if prompts and prompt.is_file():
        (aside / _PROMPTS).mkdir()
        shutil.copyfile(prompt, aside / _PROMPTS / prompt.name)


def _copy_model(live: Path, target: Path) -> None:
    """Copy a folder whole: one that is swapped in the middle is copied again."""
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            version = base_version(str(live))
            shutil.copytree(live, target)
        except OSError:  # a file went while it was read
            continue
        if base_version(str(target)) == version:
            return
    raise TrainingError(f"{live} changes while it is copied: start again when it is written")
