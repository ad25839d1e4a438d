"""The folder of a training run: its files, its attempts, its checkpoints and its end.

::

    run.json           the key, and each attempt with the step it resumed from
    config.json        recipe, trainer's arguments, versions, engines
    adapter_step_0/    the adapter before the first step, and of each step between that measured
                       held-out claims
    checkpoints/       step-000050/ and so on, each complete
    rollouts/ rewards/ judge_calls/ curves/      one file per step and attempt
    held_out_sampled/ held_out_greedy/           the same four of held-out claims
    curves.parquet     the learning curves of all attempts as one
    adapter/           the trained adapter with its tokenizer
    outcome.json       how the run ended, written last but for
    sha256.json        the digests of all of these; each checkpoint has one of its own
    inputs/<key>/      copies of what the run learns from (``training.run_inputs``)
    superseded/<key>/  all of these of an earlier run with another key

A start with another key moves everything into ``superseded/`` and begins at step 0.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resources.store.integrity import DIGESTS, record_folder, verified
from resources.store.temporary import publish_folder, replace_file
from resources.training.process import TrainingOutcome, TrainingRun

_RECORD, _SUPERSEDED, _INPUTS, _CHECKPOINTS = "run.json", "superseded", "inputs", "checkpoints"
_AGAIN = "Delete this checkpoint: the run then goes on from the one before it, or from step 0"
_RESTORE = "Restore the run's folder from a copy, or move it away and train again"
_ADAPTER = "adapter_step_"
_CHECKPOINT = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint. ``step`` is the number of optimizer steps done."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a run in one folder, of which the last ``kept`` stay.

    One is written into the folder ``aside``, flushed to disk and renamed, so that a killed run
    leaves only complete ones and at most ``aside``, which the next start removes.
    """

    folder: Path
    kept: int

    @property
    def aside(self) -> Path:
        """Where the next one is written."""
        return self.folder / ".partial"

    def all(self) -> list[Checkpoint]:
        """Every complete one, oldest first."""
        complete = [
            Checkpoint(int(match[1]), path)
            for path in self.folder.glob("step-*")
            if (match := _CHECKPOINT.fullmatch(path.name))
        ]
        return sorted(complete, key=lambda one: one.step)

    def latest(self) -> Checkpoint | None:
        """The one to resume from, None where there is none.

        Raises:
            SourceFileError: it is damaged.
        """
        for last in self.all()[-1:]:
            return Checkpoint(last.step, verified(last.path))
        return None

    def has(self, step: int) -> bool:
        """Whether a step has one."""
        return self._path(step).is_dir()

    def clean(self) -> None:
        """Remove what a killed run left unfinished."""
        shutil.rmtree(self.aside, ignore_errors=True)

    def publish(self, step: int, written: Path) -> None:
        """Make the folder ``written`` the checkpoint of ``step`` and remove the oldest ones."""
        record_folder(written, _AGAIN)
        publish_folder(written, self._path(step))
        self.clean()
        for old in self.all()[: -self.kept]:
            old.path.rename(self.aside)  # so that a kill leaves no incomplete checkpoint
            self.clean()

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """The run's resolved settings."""
        return self.path / "config.json"

    @property
    def curves(self) -> Path:
        """The learning curves."""
        return self.path / "curves.parquet"

    @property
    def adapter(self) -> Path:
        """The trained adapter."""
        return self.path / "adapter"

    def adapter_at(self, step: int) -> Path:
        """The adapter of step 0, or of a step between that measured held-out claims."""
        return self.path / f"{_ADAPTER}{step}"

    @property
    def outcome(self) -> Path:
        """How the run ended."""
        return self.path / "outcome.json"

    def inputs(self, key: str) -> Path:
        """The copies that the run with this key learns from."""
        return self.path / _INPUTS / key

    def checkpoints(self, kept: int) -> Checkpoints:
        """The checkpoints."""
        return Checkpoints(self.path / _CHECKPOINTS, kept)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One start of a run: its number from 1, and the optimizer steps done before it."""

    attempt: int
    resumed_from: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The current start, and the checkpoint to resume from."""

    folder: RunFolder
    number: int
    checkpoint: Checkpoint | None

    @property
    def resumed_from(self) -> int:
        """Optimizer steps done before this start."""
        return 0 if self.checkpoint is None else self.checkpoint.step


def stored_outcome(run: TrainingRun) -> TrainingOutcome | None:
    """The last outcome of a run with this key; None where none was written in this folder."""
    folder = RunFolder(run.folder)
    if read_key(folder) != run.key or not folder.outcome.is_file():
        return None
    return read_outcome(folder)


def finished_outcome(run: TrainingRun) -> TrainingOutcome | None:
    """The outcome of a run with this key that is done; None where it did not start or stopped."""
    outcome = stored_outcome(run)
    return None if outcome is None or outcome.stopped else outcome


def begin_attempt(run: TrainingRun) -> Attempt:
    """Open the folder for one more attempt, and record it."""
    folder = RunFolder(run.folder)
    key, records = _read_record(folder)
    if key and key != run.key:
        _supersede(folder, key)
        records = ()
    checkpoints = folder.checkpoints(run.limits.checkpoints_kept)
    checkpoints.clean()
    attempt = Attempt(folder, len(records) + 1, checkpoints.latest())
    records = (*records, AttemptRecord(attempt.number, attempt.resumed_from))
    (folder.path / DIGESTS).unlink(missing_ok=True)  # of files that this attempt replaces
    attempts = [asdict(record) for record in records]
    write_json(folder.path / _RECORD, {"key": run.key, "attempts": attempts})
    return attempt


def read_attempts(folder: Path) -> tuple[AttemptRecord, ...]:
    """Every start of the run in a folder, in order."""
    return _read_record(RunFolder(folder))[1]


def recorded_in_config(run: RunFolder, field: str) -> str:
    """A field of the run's settings, such as ``base``, and ``revision``: the hub's commit of it.

    Empty where none is recorded.
    """
    if not run.config.is_file():
        return ""
    return str(json.loads(verified(run.config).read_text("utf-8")).get(field, ""))


def read_key(folder: RunFolder) -> str:
    """The key of the run in a folder; empty where none began."""
    return _read_record(folder)[0]


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object atomically, keys sorted."""
    text = json.dumps(values, sort_keys=True, indent=2, default=str)
    replace_file(path, lambda aside: aside.write_text(text + "\n", "utf-8"))


def write_outcome(folder: RunFolder, outcome: TrainingOutcome) -> None:
    """Record how the run ended, with paths relative to its folder, which may be moved."""
    plain = asdict(outcome) | {
        name: str(getattr(outcome, name).relative_to(folder.path)) for name in ("adapter", "curves")
    }
    write_json(folder.outcome, plain)
    record_folder(folder.path, _RESTORE, without=(_CHECKPOINTS, _SUPERSEDED))


def read_outcome(folder: RunFolder) -> TrainingOutcome:
    """The outcome that ``write_outcome`` wrote."""
    plain = json.loads(verified(folder.outcome).read_text("utf-8"))
    paths = {name: folder.path / plain[name] for name in ("adapter", "curves")}
    return TrainingOutcome(**(plain | paths))


def _read_record(folder: RunFolder) -> tuple[str, tuple[AttemptRecord, ...]]:
    path = folder.path / _RECORD
    if not path.is_file():
        return "", ()
    record = json.loads(verified(path).read_text("utf-8"))
    return record["key"], tuple(AttemptRecord(**attempt) for attempt in record["attempts"])


def _supersede(folder: RunFolder, key: str) -> None:
    """Move the run aside, its record last, so that a killed move is continued.

    Inputs of other keys stay: among them are those of the run that begins.
    """
    target = folder.path / _SUPERSEDED / key
    target.mkdir(parents=True, exist_ok=True)
    stay = {_RECORD, _SUPERSEDED, _INPUTS}
    paths = [path for path in folder.path.iterdir() if path.name not in stay]
    inputs = [path for path in (folder.inputs(key),) if path.is_dir()]
    for path in (*sorted(paths), *inputs, folder.path / _RECORD):
        moved = target / path.relative_to(folder.path)
        moved.parent.mkdir(exist_ok=True)
        if moved.is_dir():
            shutil.rmtree(moved)
        path.replace(moved)
