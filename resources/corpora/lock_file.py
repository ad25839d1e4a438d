"""``corpora.lock.toml``: what was fetched into the corpora folder, with the hash of each file.

Later fetches use the locked commit of a hub repository, and all are held to the hashes.
"""

import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from decomposerl.errors import SourceFileError
from resources.store.temporary import replace_text

LOCK_FILE = "corpora.lock.toml"
_HEADER = "# Written by the first fetch of each corpus; delete an entry to take a newer one.\n"


@dataclass(slots=True)
class Lock:
    """What the corpora folder ``root`` holds of a corpus: the hash of each file, by its path.

    ``revision`` is the commit of its repository on the hub. ``accepted`` are the terms of the
    corpus that a person accepted, with the day.
    """

    root: Path
    name: str
    revision: str = ""
    accepted: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        """Replace what is locked of the corpus; the file is written whole, by rename."""
        lines = [_HEADER]
        for name, lock in sorted((_tables(self.root) | {self.name: asdict(self)}).items()):
            facts = {fact: lock.get(fact) for fact in ("revision", "accepted")}
            for heading, values in ((name, facts), (f"{name}.sha256", lock["sha256"])):
                pairs = ((json.dumps(key), json.dumps(it)) for key, it in values.items() if it)
                lines += [f"\n[{heading}]\n", *(f"{key} = {it}\n" for key, it in sorted(pairs))]
        replace_text(self.root / LOCK_FILE, lines)


def read_lock(root: Path, name: str) -> Lock:
    """What is locked of a corpus; nothing where there is no lock file.

    Raises:
        SourceFileError: the lock file is damaged.
    """
    try:
        return Lock(root, name, **_tables(root).get(name, {}))
    except (ValueError, TypeError, RecursionError) as error:
        file = root / LOCK_FILE
        raise SourceFileError(f"lock file {file}: {error!r}; delete it to pin anew") from error


def _tables(root: Path) -> dict[str, dict[str, Any]]:
    path = root / LOCK_FILE
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
