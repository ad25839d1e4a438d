"""The folder of a training run: what lies where, which attempt this is, how it ended.

::

    run.json           the key, and each attempt with the step it went on from
    config.json        recipe, trainer's arguments, versions, engines
    adapter_step_0/    the adapter before the first step
    checkpoints/       step-000050/ and so on, complete ones alone
    rollouts/ rewards/ judge_calls/ curves/      one file a step and attempt
    held_out_sampled/ held_out_greedy/           the same four of held-out claims
    curves.parquet     the learning curves without seams
    adapter/           the trained adapter with its tokenizer
    outcome.json       how the run ended, written last
    inputs/<key>/      copies of what the run learns from (``training.material``)
    superseded/<key>/  all of these of an earlier run with another key

Takes a ``TrainingRun``, gives an ``Attempt`` or the outcome of a run that is done. A start with
another key moves everything into ``superseded/`` and begins anew.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resources.store.temporary import replace_file
from resources.training.checkpoints import Checkpoint, Checkpoints
from resources.training.run import TrainingOutcome, TrainingRun

_RECORD, _SUPERSEDED, _INPUTS = "run.json", "superseded", "inputs"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a run: its number from 1, and the optimizer steps done before it."""

    attempt: int
    resumed_from: int


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """What the run was told, resolved."""
        return self.path / "config.json"

    @property
    def curves(self) -> Path:
        """The learning curves."""
        return self.path / "curves.parquet"

    @property
    def adapter(self) -> Path:
        """The trained adapter."""
        return self.path / "adapter"

    @property
    def first_adapter(self) -> Path:
        """The adapter before the first step."""
        return self.path / "adapter_step_0"

    @property
    def outcome(self) -> Path:
        """How the run ended."""
        return self.path / "outcome.json"

    def inputs(self, key: str) -> Path:
        """The copies that the run with this key learns from."""
        return self.path / _INPUTS / key

    def checkpoints(self, kept: int) -> Checkpoints:
        """The checkpoints."""
        return Checkpoints(self.path / "checkpoints", kept)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The present start, those before it, and the checkpoint to go on from."""

    folder: RunFolder
    starts: tuple[Start, ...]
    checkpoint: Checkpoint | None

    @property
    def number(self) -> int:
        """From 1."""
        return self.starts[-1].attempt

    @property
    def resumed_from(self) -> int:
        """Optimizer steps done before this start."""
        return self.starts[-1].resumed_from


def finished(run: TrainingRun) -> TrainingOutcome | None:
    """The outcome of a run with this key that came to its end; one that stopped goes on."""
    folder = RunFolder(run.folder)
    key, _ = _read_record(folder)
    if key != run.key or not folder.outcome.is_file():
        return None
    outcome = read_outcome(folder)
    return None if outcome.stopped else outcome


def begin(run: TrainingRun) -> Attempt:
    """Open the folder for one more attempt, and note it."""
    folder = RunFolder(run.folder)
    key, starts = _read_record(folder)
    if key and key != run.key:
        _supersede(folder, key)
        starts = ()
    checkpoints = folder.checkpoints(run.limits.checkpoints_kept)
    checkpoints.clean()
    latest = checkpoints.latest()
    now = Start(len(starts) + 1, 0 if latest is None else latest.step)
    starts = (*starts, now)
    record = {"key": run.key, "attempts": [asdict(start) for start in starts]}
    write_json(folder.path / _RECORD, record)
    return Attempt(folder, starts, latest)


def read_starts(folder: Path) -> tuple[Start, ...]:
    """Every start of the run in a folder, in order."""
    return _read_record(RunFolder(folder))[1]


def read_key(folder: RunFolder) -> str:
    """The key of the run that lies in a folder; empty where none began."""
    return _read_record(folder)[0]


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object atomically, keys sorted."""
    text = json.dumps(values, sort_keys=True, indent=2, default=str)
    replace_file(path, lambda aside: aside.write_text(text + "\n", "utf-8"))


def write_outcome(folder: RunFolder, outcome: TrainingOutcome) -> None:
    """Note how the run ended, paths relative to its folder, which may be moved."""
    plain = asdict(outcome) | {
        name: str(getattr(outcome, name).relative_to(folder.path)) for name in ("adapter", "curves")
    }
    write_json(folder.outcome, plain)


def read_outcome(folder: RunFolder) -> TrainingOutcome:
    """The outcome that ``write_outcome`` wrote."""
    plain = json.loads(folder.outcome.read_text("utf-8"))
    paths = {name: folder.path / plain[name] for name in ("adapter", "curves")}
    return TrainingOutcome(**(plain | paths))


def _read_record(folder: RunFolder) -> tuple[str, tuple[Start, ...]]:
    path = folder.path / _RECORD
    if not path.is_file():
        return "", ()
    record = json.loads(path.read_text("utf-8"))
    return record["key"], tuple(Start(**start) for start in record["attempts"])


def _supersede(folder: RunFolder, key: str) -> None:
    """Move what lies here aside; the record last, so that a killed move is taken up again.

    Inputs of other keys stay: among them are those of the run that begins.
    """
    target = folder.path / _SUPERSEDED / key
    target.mkdir(parents=True, exist_ok=True)
    stay = {_RECORD, _SUPERSEDED, _INPUTS}
    paths = [path for path in folder.path.iterdir() if path.name not in stay]
    inputs = [path for path in (folder.inputs(key),) if path.is_dir()]
    for path in (*sorted(paths), *inputs, folder.path / _RECORD):
        place = target / path.relative_to(folder.path)
        place.parent.mkdir(exist_ok=True)
        if place.is_dir():
            shutil.rmtree(place)
        path.replace(place)
