"""``corpora.lock.toml``: what was fetched into the corpora folder, with the hash of each file.

Later fetches use the locked commit of a hub repository, and all are held to the hashes.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from decomposerl.errors import SourceFileError
from resources.store.temporary import replace_text

LOCK_FILE = "corpora.lock.toml"
_HEADER = "# Written by the first fetch of each corpus; delete an entry to take a newer one.\n"


@dataclass(frozen=True, slots=True)
class Lock:
    """The pin of a hub repository or, by its name, of a corpus: the hash of each file.

    ``revision`` is a repository's commit. ``accepted`` are the terms of a corpus that a person
    accepted, with the day.
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
    except (ValueError, TypeError) as error:
        raise SourceFileError(f"lock file {path}: {error!r}; delete it to pin anew") from error


def update_lock(
    path: Path, name: str, sha256: Mapping[str, str], *, revision: str = "", accepted: str = ""
) -> None:
    """Add hashes, a commit or accepted terms to what is locked under a name.

    The hashes of another commit are forgotten. The file is written whole, by rename.
    """
    locks = read_lock(path)
    old = locks.get(name, Lock())
    kept = {} if revision not in {"", old.revision} else old.sha256
    locks[name] = replace(
        old,
        revision=revision or old.revision,
        sha256={**kept, **sha256},
        accepted=accepted or old.accepted,
    )
    parts = [_HEADER]
    for locked, lock in sorted(locks.items()):
        about = {"revision": lock.revision, "accepted": lock.accepted}
        tables = {"": about, ".sha256": dict(sorted(lock.sha256.items()))}
        for table, values in tables.items():
            parts.append(f"[{json.dumps(locked)}{table}]\n")
            quoted = {json.dumps(key) if table else key: value for key, value in values.items()}
            parts += [f"{key} = {json.dumps(value)}\n" for key, value in quoted.items() if value]
        parts.append("\n")
    replace_text(path, parts)


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def set_aside(file: Path) -> str:
    """Rename a file that another one is to replace to ``NAME.replaced-1``: nobody's is lost.

    Returns the new name, empty where there is no file.
    """
    if not file.is_file():
        return ""
    names = (file.with_name(f"{file.name}.replaced-{number}") for number in count(1))
    return file.replace(next(name for name in names if not name.exists())).name
