"""The bundled sample on disk: generated once, then reused.

The corpora root is named by a fingerprint of the generator: a changed generator writes a new root
and never touches the old one. The root appears by one rename, so that readers see all or nothing
and two writers do no harm.
"""

import hashlib
import sqlite3
from pathlib import Path

import polars as pl

import sample as generator
from resources.store.temporary import aside, remove_abandoned

BUNDLED = "bundled sample"
"""What the run record of a corpus has in place of a folder that the user named."""


def ensure_sample(root: Path) -> Path:
    """The corpora root of the bundled sample, ``<root>/<fingerprint>``; written if absent.

    Raises:
        OSError: the folder cannot be written.
    """
    target = root / fingerprint()
    if target.is_dir():
        remove_abandoned(root)
        return target
    with aside(target, "writing") as staging:
        # The record of planted claims stays in memory: an engine that could read it would cheat.
        for name, content in generator.generate().files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            staging.rename(target)
        except OSError:
            if not target.is_dir():  # another writer did not win the race
                raise
    return target


def fingerprint() -> str:
    """12 hex digits over the generator's source and the versions that shape its bytes."""
    digest = hashlib.sha256(f"polars {pl.__version__} sqlite {sqlite3.sqlite_version}".encode())
    package = Path(generator.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
