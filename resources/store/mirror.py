"""A data folder in a bucket: a folder on this machine that mirrors the objects below its URL.

Objects are the truth. A reader calls ``pull`` first, which downloads what is new or changed; what
``replace_file`` writes is stored as an object just before it is renamed into place. So all other
code reads and writes files, and outside a mirror both do nothing. A folder that is useful only as a
whole, such as an adapter, is one object: ``<folder>.tar``.

``.objects/<key>`` has the tag of the object that a file is the copy of, with the file's size and
time, so a file that a killed process left is downloaded again.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape, has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any

from decomposerl.errors import ConfigError
from resources.store import temporary
from resources.store.bucket import Bucket
from resources.store.temporary import aside, publish_folder

SCRATCH = "DECOMPOSERL_SCRATCH"
_TAGS = ".objects"
_TAR = ".tar"
_LOCAL_FOLDERS = frozenset({"policy_runs", "tiny_judge_runs", "rehearsal", "sample", "logs"})
_LOCAL = _LOCAL_FOLDERS | {"marks.jsonl", "systems.toml", "demo.json"}
"""First parts of paths that stay on this machine, as everything does with a dot before it."""
_BASES = ("base_policy", "base_policy_clean", "base_policy_small")
_WHOLE: Mapping[str, int] = {"policy": 2, "tiny_judge": 1, **dict.fromkeys(_BASES, 1)}
"""Folders that are one object each, with the number of parts of their paths."""
_NOT_SENT = frozenset({"checkpoints", "superseded"})
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Mirror:
    """A folder and its bucket."""

    folder: Path
    bucket: Bucket

    def key(self, path: Path) -> str | None:
        """The key of a file's object, or of the folder's that holds it; a pattern's likewise.

        None for what stays on this machine.
        """
        parts = path.relative_to(self.folder).parts
        if not parts or parts[0] in _LOCAL or any(part.startswith(".") for part in parts):
            return None
        depth = _WHOLE.get(parts[0])
        if depth is None:
            return "/".join(parts)
        return "/".join(parts[:depth]) + _TAR if len(parts) >= depth else None

    def pull(self, pattern: str) -> None:
        """Make the files that match a glob pattern (``*`` within a part) equal to their objects."""
        key = self.key(self.folder / pattern)
        if key is None or not has_magic(key):
            if key is not None:
                self._fetch(key)
            return
        prefix = "/".join(takewhile(lambda part: not has_magic(part), key.split("/")))
        found = {one: tag for one, tag in self.bucket.tags(prefix).items() if _matches(one, key)}
        stale = [one for one, tag in found.items() if self._tag(one) != tag]
        if stale:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(_PARALLEL) as threads:
                list(threads.map(self._fetch, stale))
        for copy in (self.folder / _TAGS).glob(key):
            known = copy.relative_to(self.folder / _TAGS).as_posix()
            if known not in found and copy.is_file() and not copy.name.startswith("."):
                self._forget(known)

    def note(self, key: str, tag: str, state: Sequence[int]) -> None:
        """Remember that the file in this state is the copy of the object with this tag.

        The state is that from before the file was renamed into place: another process may replace
        it just afterwards.
        """
        file = self.folder / _TAGS / key
        file.parent.mkdir(parents=True, exist_ok=True)
        with _aside(file) as written:
            written.write_text(json.dumps([tag, *state]), "utf-8")
            written.replace(file)

    def send_folder(self, folder: Path) -> None:
        """Store a folder as one object, without its checkpoints."""
        key = self.key(folder)
        if key is None:
            return
        import tarfile

        with _aside(folder) as packed:
            with tarfile.open(packed, "w") as tar:
                for path in sorted(folder.iterdir()):
                    if path.name not in _NOT_SENT and not path.name.startswith("."):
                        tar.add(path, path.name)
            tag = self.bucket.put(key, packed)
        self.note(key, tag, self._state(key))

    def _fetch(self, key: str) -> None:
        target = self.folder / key
        if key.endswith(_TAR) and self._state(key) and not (self.folder / _TAGS / key).exists():
            return  # made here and not sent, as by a training that is not finished
        target.parent.mkdir(parents=True, exist_ok=True)
        with _aside(target) as fetched:
            try:
                tag = self.bucket.fetch(key, fetched, self._tag(key))
            except FileNotFoundError:
                self._forget(key)
                return
            if tag is not None and key.endswith(_TAR):
                self._unpack(fetched, key, tag)
            elif tag is not None:
                state = _state_of(fetched)
                fetched.replace(target)
                self.note(key, tag, state)

    def _unpack(self, packed: Path, key: str, tag: str) -> None:
        import tarfile

        folder = self.folder / key.removesuffix(_TAR)
        with _aside(folder, "writing") as written, tarfile.open(packed) as tar:
            tar.extractall(written, filter="data")
            # Before the folder is in place, as one without a note was made here.
            self.note(key, tag, _state_of(written)[-1:])
            publish_folder(written, folder)

    def _forget(self, key: str) -> None:
        """Remove the copy of an object that is gone; other files, and whole folders, stay."""
        note = self.folder / _TAGS / key
        if note.exists() and not key.endswith(_TAR):
            (self.folder / key).unlink(missing_ok=True)
        note.unlink(missing_ok=True)

    def _tag(self, key: str) -> str:
        """The tag of the object that the file of a key is the copy of; empty: of none."""
        try:
            tag, *state = json.loads((self.folder / _TAGS / key).read_text("utf-8"))
            return str(tag) if state == self._state(key) else ""
        except (OSError, ValueError):
            return ""

    def _state(self, key: str) -> list[int]:
        """Of a folder only which one it is: its files may grow, as at the next training."""
        if not key.endswith(_TAR):
            return _state_of(self.folder / key)
        folder = self.folder / key.removesuffix(_TAR)
        return _state_of(folder)[-1:] if folder.is_dir() else []


_mirrors: list[Mirror] = []


def attach(url: str, scratch: Path, options: Mapping[str, Any] | None = None) -> Path:
    """Let a folder below ``scratch`` mirror the bucket's URL in this process; returns the folder.

    Nothing is downloaded. ``options`` are keywords of obstore's ``from_url``.

    Raises:
        ConfigError: the folder cannot be created.
    """
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", url)[:80]
    folder = scratch / f"{plain}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder}, the copy of {url} on this machine, cannot be created "
            f"({error.strerror}): set {SCRATCH} to a folder with room for the data"
        ) from error
    folder = folder.resolve()
    known = mirror_of(folder)
    if known is None or options is not None:
        detach(folder)
        _mirrors.append(Mirror(folder, Bucket(url, options)))
    if _publishing not in temporary.publishers:
        temporary.publishers.append(_publishing)
    return folder


def detach(folder: Path) -> None:
    """Let the folder be a plain one again in this process."""
    _mirrors[:] = [one for one in _mirrors if one.folder != folder]


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that a file or folder lies in."""
    return next((one for one in _mirrors if path.is_relative_to(one.folder)), None)


def pull(folder: Path, *patterns: str) -> Path:
    """The folder, once its files that match the glob patterns are those of the bucket.

    Raises:
        StorageError: the bucket cannot be read.
    """
    mirror = mirror_of(folder)
    if mirror is not None:
        within = escape(folder.relative_to(mirror.folder).as_posix())
        for pattern in dict.fromkeys(patterns):
            mirror.pull(pattern if within == "." else f"{within}/{pattern}")
    return folder


def send_folder(folder: Path) -> None:
    """Store a folder that is one object (an adapter, a base policy) in the bucket.

    Raises:
        StorageError: it cannot be stored.
    """
    mirror = mirror_of(folder)
    if mirror is not None:
        mirror.send_folder(folder)


def send_files(folder: Path) -> None:
    """Store each file below a folder that was renamed into place, and remove the objects of others.

    Raises:
        StorageError: one cannot be stored.
    """
    mirror = mirror_of(folder)
    if mirror is None:
        return
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        temporary.rename(path, path)
    name = folder.relative_to(mirror.folder).as_posix()
    for key in mirror.bucket.tags(name).keys() - {mirror.key(path) for path in paths}:
        discard(mirror.folder / key)


def discard(path: Path) -> None:
    """Remove a file and its object; nothing happens where there is none.

    Raises:
        StorageError: the object cannot be removed.
    """
    if (held := _object_of(path)) is not None:
        mirror, key = held
        mirror.bucket.delete(key)
        (mirror.folder / _TAGS / key).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def is_unsent(path: Path) -> bool:
    """Whether a file should be an object and never was one: a worker wrote it."""
    held = _object_of(path)
    return held is not None and not (held[0].folder / _TAGS / held[1]).exists()


def location(path: Path) -> str:
    """The URL of a file: that of its object, else a ``file:`` URL."""
    mirror = mirror_of(path)
    key = mirror.key(path) if mirror else None
    return f"{mirror.bucket.url}/{key}" if mirror and key else path.absolute().as_uri()


@contextmanager
def _publishing(target: Path, content: Path) -> Iterator[None]:
    if (held := _object_of(target)) is None:
        yield
        return
    mirror, key = held
    tag, state = mirror.bucket.put(key, content), _state_of(content)
    yield
    mirror.note(key, tag, state)


def _object_of(path: Path) -> tuple[Mirror, str] | None:
    """The mirror and the key of a file that is an object by itself."""
    mirror = mirror_of(path)
    key = mirror.key(path) if mirror else None
    return None if mirror is None or key is None or key.endswith(_TAR) else (mirror, key)


def _state_of(file: Path) -> list[int]:
    """What differs between two files that one name has in turn: size, time, inode."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _aside(target: Path, ending: str = "partial") -> AbstractContextManager[Path]:
    """A temporary name of this thread: several may fetch one object at once."""
    return aside(target.with_name(f"{target.name}-{threading.get_ident()}"), ending)


def _matches(key: str, pattern: str) -> bool:
    parts, wanted = key.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
