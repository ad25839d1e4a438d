"""What a training run learns from: copies of the data, the judge, and the key over all of it.

Claims, held-out claims, base policy and prompt are copied to ``<folder>/inputs/<key>/``, and the
key is over the content of these copies. Trainer, resumed runs and evaluation read only the
copies, so that assets may be materialized again while a run trains. A base that is a hub name or
your own folder is not copied.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from decomposerl.errors import TrainingError
from decomposerl.prompts.policy import NAME as POLICY
from decomposerl.prompts.template import QUESTION, PromptSettings, labels_of
from decomposerl.training.claim_draws import claims_of_labels, held_out_claims
from decomposerl.training.experiment import BASE_POLICY, Experiment
from resources.hub.locks import ModelLocks, at_commit, models_lock
from resources.judge.resource import JudgeResource
from resources.store.integrity import file_sha256, read_parquet
from resources.store.parquet import DataFolder, write_parquet
from resources.store.prompts import load_prompt
from resources.store.temporary import empty_folder, publish_folder
from resources.training.run_store import RunFolder, read_key, recorded_in_config

_SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")
_CLAIMS, _HELD_OUT, _PROMPTS, _ASIDE = "claims.parquet", "held_out.parquet", "prompts", ".partial"
_COPIED = (
    ("training claims", _CLAIMS),
    ("held-out claims", _HELD_OUT),
    ("base policy", BASE_POLICY),
    ("policy prompt", _PROMPTS),
)
_TRIES = 3
_SEED = 42  # not the run's: runs of several seeds are evaluated on the same claims
_READ_WHOLE = 64 * 1024 * 1024


class InputCopies(NamedTuple):
    """The copies in one folder; ``base`` may be a hub name or a folder elsewhere.

    ``held_out`` is None and ``prompts`` empty where the run has none of its own.
    """

    claims: Path
    held_out: Path | None
    base: str
    prompts: str


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run: files of claims, base weights, a folder of prompts, and its key.

    ``folder`` is the run's own; ``notes`` receives the logs of its processes. ``revision`` is the
    commit of a base that is a hub name, empty where it is not known.
    """

    experiment: Experiment
    key: str
    claims: Path
    held_out: Path | None
    base: str
    prompts: str
    folder: Path
    notes: Path
    revision: str = ""


def gather_inputs(
    data: DataFolder,
    experiment: Experiment,
    engines: Sequence[str],
    prompts: str = "",
    folder: Path | None = None,
) -> RunInputs:
    """Copy the inputs of a recipe; ``engines`` are the names of judge and question embedder.

    The copies are stored in ``folder``, by default the run's own; those of a run that never began
    are removed.

    Raises:
        TrainingError: an asset that it needs is not materialized yet, or keeps changing.
        ConfigError: a prompt file is malformed.
    """
    own = policy_folder(data, experiment.name)
    run_folder = RunFolder((own if folder is None else folder).resolve())
    sources = _sources(data, experiment)
    tiny = experiment.on_tiny_base
    revision = "" if tiny else ModelLocks(models_lock(data.path)).fetched(experiment.model)
    load_prompt(POLICY, prompts)  # refuse a malformed folder of prompts before copying
    aside = run_folder.inputs(_ASIDE)
    empty_folder(aside)
    try:
        _copy(data, experiment, sources, prompts, aside)
        key = _key(experiment, aside, engines, revision)
        target = run_folder.inputs(key)
        if not target.is_dir() or _key(experiment, target, engines, revision) != key:
            publish_folder(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for path in target.parent.iterdir():
        if path.name not in {key, read_key(run_folder)}:
            shutil.rmtree(path)
    notes = notes_folder(data, experiment.name)
    copies = _copies(experiment, target)
    return RunInputs(experiment, key, *copies, folder=own, notes=notes, revision=revision)


def policy_folder(data: DataFolder, experiment: str) -> Path:
    """The folder of a recipe's run and adapter."""
    return data.path / "policy" / experiment


def notes_folder(data: DataFolder, experiment: str) -> Path:
    """The folder of process logs and other notes on a recipe's run."""
    return data.path / "policy_runs" / experiment


def dry_run_folder(data: DataFolder, experiment: str) -> Path:
    """The folder of the copies for a dry run, which leaves no run behind."""
    return notes_folder(data, experiment) / "dry_run"


def inputs_of(data: DataFolder, experiment: Experiment) -> InputCopies | None:
    """What the recipe's present run learned from; None where there are no copies of it."""
    run_folder = RunFolder(policy_folder(data, experiment.name))
    key = read_key(run_folder)
    copies = run_folder.inputs(key)
    return _copies(experiment, copies) if key and copies.is_dir() else None


def base_of(data: DataFolder, experiment: Experiment) -> str:
    """The base that the recipe's adapter was trained on, which may be another than its own."""
    copies = inputs_of(data, experiment)
    if copies is not None and Path(copies.base).is_dir():
        return copies.base
    run = RunFolder(policy_folder(data, experiment.name))
    if known := recorded_in_config(run, "base") or (copies.base if copies else ""):
        return known
    return str(data.path / experiment.model) if experiment.on_tiny_base else experiment.model


def restart_notice(inputs: RunInputs) -> str:
    """Why the run replaces an earlier one and begins at step 0; empty where it does not."""
    run_folder = RunFolder(inputs.folder)
    earlier = read_key(run_folder)
    if earlier in {"", inputs.key}:
        return ""
    before, now = run_folder.inputs(earlier), inputs.claims.parent
    differing = [words for words, name in _COPIED if _digest(before / name) != _digest(now / name)]
    changed = ", ".join(differing) if before.is_dir() else "inputs, recipe"
    return (
        f"{changed or 'recipe or engines'} changed since run {earlier}: it moves to "
        f"{run_folder.path / 'superseded' / earlier}, and run {inputs.key} begins at step 0"
    )


def judge_for(judge: JudgeResource, experiment: Experiment) -> JudgeResource:
    """The profile's judge with the recipe's thinking, for graph and training process alike.

    A recipe for the tiny judge takes the one that was trained in the data folder.
    """
    if experiment.judge == "tiny":
        return judge.model_copy(update={"engine": "tiny"})
    if experiment.judge_thinking is None or judge.engine != "chat":
        return judge
    thinking = "on" if experiment.judge_thinking else "off"
    return judge.model_copy(update={"thinking": thinking})


def run_key(
    experiment: Experiment,
    files: Sequence[Path | None],
    base: str,
    engines: Sequence[str],
    prompts: str = "",
) -> str:
    """The key of a run, 16 hex digits: the same key resumes, another one starts over.

    ``files`` are claims and held-out claims, ``base`` as ``at_commit`` names it, ``engines`` judge
    and embedder. What changes only
    speed (device, generation engine, limits, paths) is not part of it.

    Raises:
        ConfigError: the policy's prompt file is missing or malformed.
        OSError: a file of claims or of the base cannot be read.
    """
    parts = [
        experiment.digest,
        [None if file is None else file_sha256(file) for file in files],
        base_version(base),
        list(engines),
        load_prompt(POLICY, prompts, PromptSettings(experiment.verdict_rule)).digest,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def base_version(base: str) -> str:
    """The identity of base weights: a hub name itself, or the hash of a folder's files.

    Files above 64 MiB, which would take minutes to read, count by name and size.
    """
    folder = Path(base)
    if not folder.is_dir():
        return base
    prints = [
        (str(path.relative_to(folder)), _fingerprint(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()


def _fingerprint(path: Path) -> str:
    size = path.stat().st_size
    return str(size) if size > _READ_WHOLE else file_sha256(path)


def _digest(path: Path) -> str:
    return file_sha256(path) if path.is_file() else base_version(str(path)) * path.is_dir()


def _copies(experiment: Experiment, folder: Path) -> InputCopies:
    held_out, prompts = folder / _HELD_OUT, folder / _PROMPTS
    return InputCopies(
        claims=folder / _CLAIMS,
        held_out=held_out if held_out.is_file() else None,
        base=str(folder / BASE_POLICY) if experiment.on_tiny_base else experiment.model,
        prompts=str(prompts) if prompts.is_dir() else "",
    )


def _key(experiment: Experiment, folder: Path, engines: Sequence[str], revision: str) -> str:
    copies = _copies(experiment, folder)
    files = (copies.claims, copies.held_out)
    base = at_commit(copies.base, revision)
    return run_key(experiment, files, base, engines, copies.prompts)


def _sources(data: DataFolder, experiment: Experiment) -> dict[str, Path]:
    """The live files and folder that are copied, or that held-out claims are chosen from."""
    names = [experiment.claims, *([_SILVER] if experiment.held_out.claims else [])]
    sources = {name: data.file(name) for name in names}
    if experiment.on_tiny_base:
        sources[experiment.model] = data.path / experiment.model
    for asset, path in sources.items():
        if not path.exists():
            raise TrainingError(
                f"{path} is not there. Make it first: decomposerl run {asset} --upstream"
            )
    return sources


def _copy(
    data: DataFolder, experiment: Experiment, sources: dict[str, Path], prompts: str, aside: Path
) -> None:
    live = read_parquet(sources[experiment.claims])
    kept = claims_of_labels(live, labels_of(experiment.verdict_rule))
    if kept.height == live.height:
        shutil.copyfile(sources[experiment.claims], aside / _CLAIMS)
    else:
        write_parquet(kept, aside / _CLAIMS)
    if _SILVER in sources:
        others = [one for one in _TRAINING if one != experiment.claims and data.exists(one)]
        training = [live, *(data.read(name) for name in others)]
        count = experiment.held_out.claims
        chosen = held_out_claims(data.read(_SILVER), *training, count=count, seed=_SEED)
        write_parquet(chosen, aside / _HELD_OUT)
    if experiment.on_tiny_base:
        _copy_model(sources[experiment.model], aside / BASE_POLICY)
    for prompt in (Path(prompts) / f"{name}.md" for name in (POLICY, QUESTION)):
        if prompts and prompt.is_file():
            (aside / _PROMPTS).mkdir(exist_ok=True)
            shutil.copyfile(prompt, aside / _PROMPTS / prompt.name)


def _copy_model(live: Path, target: Path) -> None:
    """Copy a folder whole: one that is replaced meanwhile is copied again."""
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            version = base_version(str(live))
            shutil.copytree(live, target)
        except OSError:  # a file vanished while it was read
            continue
        if base_version(str(target)) == version:
            return
    raise TrainingError(f"{live} changes while it is copied: start again when it is written")
