"""``corpora.lock.toml``: what was fetched into the corpora folder, with the hash of each file.

Later fetches use the locked commit of a hub repository, and all are held to the hashes.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from decomposerl.errors import SourceFileError
from resources.store.temporary import replace_text

LOCK_FILE = "corpora.lock.toml"
_HEADER = "# Written by the first fetch of each corpus; delete an entry to take a newer one.\n"


@dataclass(frozen=True, slots=True)
class Lock:
    """What is held of a corpus: the hash of each file, by its path.

    ``revision`` is the commit of its repository on the hub. ``accepted`` are the terms of the
    corpus that a person accepted, with the day.
    """

    revision: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    accepted: str = ""


def read_lock(path: Path) -> dict[str, Lock]:
    """What is locked, by name; empty where there is no lock file.

    Raises:
        SourceFileError: the lock file is damaged.
    """
    try:
        tables = tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
        return {name: Lock(**table) for name, table in tables.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise SourceFileError(f"lock file {path}: {error!r}; delete it to pin anew") from error


def update_lock(
    path: Path, name: str, sha256: Mapping[str, str], *, revision: str = "", accepted: str = ""
) -> None:
    """Add hashes, a commit or accepted terms to what is locked under a name.

    The file is written whole, by rename.
    """
    locks = read_lock(path)
    old = locks.get(name, Lock())
    revision, accepted = revision or old.revision, accepted or old.accepted
    locks[name] = Lock(revision, {**old.sha256, **sha256}, accepted)
    lines = [_HEADER]
    for locked, lock in sorted(locks.items()):
        lines += [f"\n[{json.dumps(locked)}]\n"]
        for fact in ("revision", "accepted"):
            lines += [f"{fact} = {json.dumps(said)}\n"] if (said := getattr(lock, fact)) else []
        lines += [f"[{json.dumps(locked)}.sha256]\n"]
        lines += [f"{json.dumps(f)} = {json.dumps(h)}\n" for f, h in sorted(lock.sha256.items())]
    replace_text(path, lines)


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
