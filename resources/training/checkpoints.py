"""Checkpoints that are complete or absent.

One is written into a folder aside, flushed to disk and renamed, so that a killed run leaves the
earlier ones whole and at most a folder aside, which the next start removes.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"step-(\d{6,})")
_ASIDE = ".partial"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete one. ``step`` is the number of optimizer steps done."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a run in one folder; the last ``kept`` stay."""

    folder: Path
    kept: int

    @property
    def aside(self) -> Path:
        """Where the next one is written."""
        return self.folder / _ASIDE

    def all(self) -> list[Checkpoint]:
        """Every complete one, oldest first."""
        found = [
            Checkpoint(int(match[1]), path)
            for path in self.folder.glob("step-*")
            if (match := _NAME.fullmatch(path.name))
        ]
        return sorted(found, key=lambda one: one.step)

    def latest(self) -> Checkpoint | None:
        """The one to go on from, None where there is none."""
        complete = self.all()
        return complete[-1] if complete else None

    def has(self, step: int) -> bool:
        """Whether a step has one."""
        return self._path(step).is_dir()

    def clean(self) -> None:
        """Remove what a killed run left unfinished."""
        shutil.rmtree(self.aside, ignore_errors=True)

    def publish(self, step: int, written: Path) -> None:
        """Make the folder ``written`` the checkpoint of ``step``; the oldest ones go."""
        publish_folder(written, self._path(step))
        self.clean()
        for old in self.all()[: -self.kept]:
            old.path.rename(self.aside)  # so that none is ever half there
            self.clean()

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"


def folder_aside(target: Path) -> Path:
    """Where a folder is written before it takes its place."""
    return target.with_name(f".{target.name}{_ASIDE}")


def empty_folder(path: Path) -> None:
    """Make the folder, without what may lie there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def publish_folder(written: Path, target: Path) -> None:
    """Flush every file of ``written`` to disk and rename it to ``target``.

    An earlier folder of that name makes room in the moment before.
    """
    for path in (*sorted(written.rglob("*")), written):
        _flush(path)
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        written.rename(target)
        shutil.rmtree(old)
    else:
        written.rename(target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
